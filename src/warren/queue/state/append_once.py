"""Appends a batch exactly once, even if an earlier attempt wrote all, part or none of it."""

from __future__ import annotations

from collections.abc import Callable

from warren.message import NO_CORR_OFFSET
from warren.queue.state.routing import pick_rows
from warren.storage import Log
from warren.storage.format.columns import Batch


def append_once(
    log: Log,
    batch: Batch,
    marker: bytes,
    since: int,
    *,
    first_row: int = 0,
    id_of: Callable[[int], str] | None = None,
) -> range | None:
    """Appends the missing messages of `batch`. Returns the numbers that it got, or None if some of it had been written
    before.

    `since` is an end of the log from before the first attempt, `marker` belongs to this batch alone, and no other
    caller appends the same batch. In a log that keeps no markers, the ids of the messages show which were written. A
    message without an id gets the one that `id_of` returns for its row, the same at each attempt. `first_row` is the
    row that the first message of `batch` had at the first attempt, if the messages before it no longer exist.
    """
    count = len(batch.bodies)
    if log.format.keeps_markers:
        rest = batch.part(max(0, written_count(log, marker, since) - first_row), count)
    else:
        marker, batch = b"", _with_ids(batch, first_row, id_of)
        rows = _missing_rows(log, batch, since)
        rest = batch if len(rows) == count else pick_rows(batch, rows)
    if not rest.bodies:
        return None
    numbers = log.append_many(
        rest.bodies,
        tags=rest.tags,
        keys=rest.keys,
        ids=rest.ids,
        headers=rest.headers,
        corr_offsets=rest.corr_offsets,
        marker=marker,
    )
    return numbers if len(rest.bodies) == count else None


def written_count(log: Log, marker: bytes, since: int) -> int:
    """Returns how many messages of a batch are in a log that has markers.

    They are always the first messages of the batch.
    """
    return sum(marked.message_count for marked in log.markers(since) if marked.marker == marker)


def _missing_rows(log: Log, batch: Batch, since: int) -> list[int]:
    """Returns the rows of `batch` that are not in a log that keeps no markers.

    A message with the id of a row may be torn: such a log has no checksums, so a power cut can leave the id and lose
    other bytes. The torn record stays, and the message is written again after it.
    """
    ids, count = batch.ids, len(batch.bodies)
    assert ids is not None
    assert all(ids)
    tags = [""] * count if batch.tags is None else batch.tags
    corr_offsets = [NO_CORR_OFFSET] * count if batch.corr_offsets is None else batch.corr_offsets
    # Compared by all fields that such a log keeps, because users may assign the same id to several messages.
    waiting: dict[tuple[str, bytes, str, int], list[int]] = {}
    for row, whole in enumerate(zip(ids, map(bytes, batch.bodies), tags, corr_offsets, strict=True)):
        waiting.setdefault(whole, []).append(row)
    number = max(since, log.first)
    while waiting and (messages := log.read(number)):
        for message in messages:
            whole = message.id, message.body, message.tag, message.corr_offset
            if whole in waiting:
                waiting[whole].pop(0)
                if not waiting[whole]:
                    del waiting[whole]
        number = messages[-1].number + 1
    return sorted(row for rows in waiting.values() for row in rows)


def _with_ids(batch: Batch, first_row: int, id_of: Callable[[int], str] | None) -> Batch:
    if id_of is None:
        return batch
    ids = batch.ids or [""] * len(batch.bodies)
    return batch._replace(ids=[id or id_of(row) for row, id in enumerate(ids, first_row)])
