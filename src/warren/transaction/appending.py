"""What transactions put to one log, appended exactly once: packed records by stamping them, others row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warren.config import APPEND_SIZE_TARGET
from warren.queue.once import append_once
from warren.storage import Log
from warren.storage.columns import Batch
from warren.storage.record import Packed, record_size
from warren.transaction.entry import Entry, Piece, Target
from warren.transaction.journal import Journal

RowsAtHand = Mapping[Piece, Batch | Sequence[Packed]]
"""Pieces that are still in memory: as rows, or packed."""


class Part(NamedTuple):
    """What one transaction puts to one log: its target, and the number of that among its targets."""

    entry: Entry
    number: int
    target: Target


def append_missing(log: Log, parts: Sequence[Part], journal: Journal, at_hand: RowsAtHand) -> None:
    """Append what is not there yet, in order. The caller is the only one who tries."""
    written, waiting = _written(log, parts), Waiting(log)
    for entry, number, target in parts:
        for place, piece in enumerate(target.pieces):
            marker, found = entry.marker(number, place), at_hand.get(piece)
            if piece.is_packed:
                packed = journal.packed(piece) if found is None or isinstance(found, Batch) else found
                if waiting.add(packed, written[marker]):
                    continue
            waiting.flush()
            batch = found if isinstance(found, Batch) else journal.rows(piece)
            append_once(log, batch, marker, target.since)
    waiting.flush()


def _written(log: Log, parts: Sequence[Part]) -> Counter[bytes]:
    """How many messages of each piece are there, by marker: one look for all of them."""
    since, written = min(part.target.since for part in parts), Counter[bytes]()
    if log.version != 1 and since < log.end:
        for marked in log.markers(since):
            written[marked.marker] += marked.message_count
    return written


class Waiting:
    """Packed records that are appended together: with fewer commits, and never with much of them in memory."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._records: list[Packed] = []
        self._size = 0

    def add(self, records: Iterable[Packed], written: int) -> bool:
        """Append the records of a piece, of which `written` messages are there, now or at the next `flush`.

        False where the rest cannot be appended as it was packed: the log was made anew, or was given smaller blocks.
        """
        if self._log.version == 1:
            return False
        for packed in records:
            if written >= packed.message_count:
                written -= packed.message_count
                continue
            if written or record_size(packed) > self._log.record_size_max:
                return False
            self._records.append(packed)
            self._size += len(packed.payload)
            if self._size >= APPEND_SIZE_TARGET:
                self.flush()
        return True

    def flush(self) -> None:
        """All that was added is in the log."""
        records, self._records, self._size = self._records, [], 0
        if records:
            self._log.append_packed(records)
