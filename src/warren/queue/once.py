"""Appending exactly once: a batch whose first try may have been written, or not, or in part."""

from __future__ import annotations

from collections.abc import Sequence

from warren.message import NO_CORR_OFFSET
from warren.storage import Log
from warren.storage.columns import Batch


def append_once(log: Log, batch: Batch, marker: bytes, since: int, *, tag: str = "") -> range | None:
    """Append what is not there yet of `batch`; the numbers that it got, None where some of it was there already.

    `since` is an end of the log from before the first try, `marker` is of this batch alone, and the caller is the only
    one who tries. In a log of version 1, which has no markers, every message must have an id of its own instead.
    """
    count = len(batch.bodies)
    if log.version == 1:
        rest = _rows(batch, _missing_rows(log, batch, since, tag))
    else:
        rest = batch.part(written_count(log, marker, since), count)
    if not rest.bodies:
        return None
    numbers = log.append_many(
        rest.bodies,
        tag=tag if rest.tags is None else "",
        tags=rest.tags,
        keys=rest.keys,
        ids=rest.ids,
        headers=rest.headers,
        corr_offsets=rest.corr_offsets,
        marker=b"" if log.version == 1 else marker,
    )
    return numbers if len(rest.bodies) == count else None


def written_count(log: Log, marker: bytes, since: int) -> int:
    """How many messages of a batch are there, in a log that has markers. It is always the first ones."""
    return sum(marked.message_count for marked in log.markers(since) if marked.marker == marker)


def _missing_rows(log: Log, batch: Batch, since: int, tag: str) -> list[int]:
    """The rows of `batch` that are not in a log of version 1.

    A message with the id of a row may be a torn one: version 1 has no checksum, so that a power cut leaves the id and
    takes a part of the rest. Such a record stays, and the message is written again behind it.
    """
    ids, count = batch.ids, len(batch.bodies)
    assert ids is not None
    assert all(ids)
    tags = [tag] * count if batch.tags is None else batch.tags
    corr_offsets = [NO_CORR_OFFSET] * count if batch.corr_offsets is None else batch.corr_offsets
    # By all that a message of version 1 says. Messages that users gave the same id are told apart by the rest.
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


def _rows(batch: Batch, rows: Sequence[int]) -> Batch:
    if len(rows) == len(batch.bodies):
        return batch
    return Batch(*(None if column is None else [column[row] for row in rows] for column in batch))  # type: ignore[arg-type]
