"""Appending exactly once: a batch whose first try may have been written, or not, or in part."""

from __future__ import annotations

from collections.abc import Sequence

from warren.storage import Log
from warren.storage.columns import Batch


def append_once(log: Log, batch: Batch, marker: bytes, since: int, *, tag: str = "") -> range | None:
    """Append what is not there yet of `batch`; the numbers that it got, None where some of it was there already.

    `since` is an end of the log from before the first try, `marker` is of this batch alone, and the caller is the only
    one who tries. In a log of version 1, which has no markers, every message must have an id of its own instead.
    """
    written, count = written_count(log, marker, since, batch.ids), len(batch.bodies)
    if written < count:
        rest = batch.part(written, count)
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
        return None if written else numbers
    return None


def written_count(log: Log, marker: bytes, since: int, ids: Sequence[str] | None) -> int:
    """How many messages of a batch are there. It is always the first ones."""
    if log.version == 1:
        assert ids is not None
        return _written_by_id(log, ids, since)
    return sum(marked.message_count for marked in log.markers(since) if marked.marker == marker)


def _written_by_id(log: Log, ids: Sequence[str], since: int) -> int:
    assert all(ids)
    number, count = max(since, log.first), 0
    while messages := log.read(number):
        for message in messages:
            if count < len(ids) and message.id == ids[count]:
                count += 1
        number = messages[-1].number + 1
    return count
