"""Parking: the parked log of one horizon, with its done bits and its order by due time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from warren.errors import NumberRetired
from warren.message import Message
from warren.queue.delay.done_bits import DoneBits
from warren.queue.delay.due_index import Pairs, ParkingOrder, pairs_after
from warren.queue.state import paths
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem

PAGE_NUMBERS: Final = 1 << 20
"""How many messages are counted at a time."""


class Parking:
    """The parked messages of one topic and horizon. The `corr_offset` of a parked message is its due time.

    Any process may append to `log`, and read. A caller of `finish` or `order` holds the topic's delay lock.
    """

    def __init__(self, log: Log, filesystem: FileSystem, delayed_directory: str, horizon: str) -> None:
        self.log, self.horizon, self._filesystem = log, horizon, filesystem
        self._order_directory = paths.order_directory(delayed_directory, horizon)
        done_directory = paths.done_directory(delayed_directory, horizon)
        self.done = DoneBits(filesystem, done_directory, lambda: log.first)
        self._order: ParkingOrder | None = None

    @property
    def order(self) -> ParkingOrder:
        """The order by due time. Only for the mover."""
        if self._order is None:
            self._order = ParkingOrder(self.log, self.done, self._filesystem, self._order_directory)
        return self._order

    def forget_order(self) -> None:
        """Discards the order, because another process may become the mover and change it."""
        self._order = None

    def pairs_after(self, after: tuple[int, int], limit: int) -> Pairs:
        """Returns the first `limit` due times and numbers after `after` that are parked, in order."""
        return pairs_after(self.log, self.done, self._filesystem, self._order_directory, after, limit)

    def is_done(self, number: int) -> bool:
        """Returns whether the message was delivered or cancelled."""
        return self.done.is_done(number)

    def count(self) -> int:
        """Returns how many parked messages are not done."""
        end, waiting = self.log.end, 0
        for start in range(self.log.first, end, PAGE_NUMBERS):
            numbers = np.arange(start, min(start + PAGE_NUMBERS, end), dtype=np.int64)
            waiting += len(numbers) - int(np.count_nonzero(self.done.are_done(numbers)))
        return waiting

    def at(self, number: int) -> Message | None:
        """Returns the parked message, or None if it no longer exists or never existed."""
        try:
            return self.log.at(number)
        except NumberRetired:
            return None

    def finish(self, numbers: Sequence[int], *, is_synced: bool = True) -> None:
        """Marks these messages as done. With `is_synced` this also survives a power cut."""
        # Synced before a bit is set: a power cut must not give the number of the message to another one.
        self.log.sync()
        self.done.set(np.array(numbers, np.int64))
        if is_synced:
            self.done.sync()

    def retire(self) -> None:
        """Removes the blocks whose messages are all done, and the bits of these messages."""
        open_from = self.done.first_open(self.log.end)
        if open_from > self.log.first:
            self.done.retire(before=self.log.retire(before=open_from))

    def close(self) -> None:
        self.log.close()
