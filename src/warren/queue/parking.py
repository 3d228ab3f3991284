"""Parking: the parked log of one horizon, with what is done of it and its order by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from warren.errors import NumberRetired
from warren.message import Message
from warren.queue import store_paths
from warren.queue.done_bits import DoneBits
from warren.queue.due_runs import Pairs
from warren.queue.parking_order import ParkingOrder, pairs_after
from warren.storage import Log
from warren.storage.filesystem import FileSystem

PAGE_NUMBERS: Final = 1 << 20
"""How many messages are counted at a time."""


class Parking:
    """Messages of one topic that wait, of a like horizon. The `corr_offset` of a parked message is its due time.

    Anybody may append to `log`, and look. Whoever calls `finish` or uses `order` holds the topic's delay lock.
    """

    def __init__(self, log: Log, filesystem: FileSystem, delayed_directory: str, horizon: str) -> None:
        self.log, self.horizon, self._filesystem = log, horizon, filesystem
        self._order_directory = store_paths.order_directory(delayed_directory, horizon)
        done_directory = store_paths.done_directory(delayed_directory, horizon)
        self.done = DoneBits(filesystem, done_directory, lambda: log.first)
        self._order: ParkingOrder | None = None

    @property
    def order(self) -> ParkingOrder:
        """The order, for the mover alone."""
        if self._order is None:
            self._order = ParkingOrder(self.log, self.done, self._filesystem, self._order_directory)
        return self._order

    def forget_order(self) -> None:
        """Somebody else may become the mover, and keep the order."""
        self._order = None

    def pairs_after(self, after: tuple[int, int], limit: int) -> Pairs:
        """The first `limit` due times and numbers behind `after` of what is parked, in order."""
        return pairs_after(self.log, self.done, self._filesystem, self._order_directory, after, limit)

    def is_done(self, number: int) -> bool:
        """Whether the message was delivered or cancelled."""
        return self.done.is_done(number)

    def count(self) -> int:
        """How many messages wait."""
        end, waiting = self.log.end, 0
        for start in range(self.log.first, end, PAGE_NUMBERS):
            numbers = np.arange(start, min(start + PAGE_NUMBERS, end), dtype=np.int64)
            waiting += len(numbers) - int(np.count_nonzero(self.done.are_done(numbers)))
        return waiting

    def at(self, number: int) -> Message | None:
        """The parked message; None where it is not there any more, or never was."""
        try:
            return self.log.at(number)
        except NumberRetired:
            return None

    def finish(self, numbers: Sequence[int], *, is_synced: bool = True) -> None:
        """These are done for good: with `is_synced`, also after a power cut."""
        # Before a bit is set: a power cut must not give its number to another message.
        self.log.sync()
        self.done.set(np.array(numbers, np.int64))
        if is_synced:
            self.done.sync()

    def retire(self) -> None:
        """Remove the blocks whose messages are all done, and the bits that speak of them."""
        open_from = self.done.first_open(self.log.end)
        if open_from > self.log.first:
            self.done.retire(before=self.log.retire(before=open_from))

    def close(self) -> None:
        self.log.close()
