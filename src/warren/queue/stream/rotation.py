"""Reads several partitions in turn, each in order, so that a busy partition does not starve the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from warren.clock import Clock, Duration, seconds_of
from warren.errors import BadInput, FellBehind, NumberRetired
from warren.limits import WAIT_S_MAX
from warren.message import Message
from warren.storage import Log
from warren.storage.format.tags import TagFilter
from warren.storage.log import wait_for_any
from warren.storage.read.messages import Page, ScanRoom

LOOK_WAITING_S: Final = 0.1
"""How often a waiting reader checks for changes that no log announces: members, and added partitions."""
READ_LIMIT_MAX: Final = 1 << 31


def checked_limit(limit: object) -> int:
    """Returns a number of messages to read. Raises BadInput if it is not valid."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= READ_LIMIT_MAX:
        raise BadInput(f"limit {limit!r}: expected a whole number from 1 to {READ_LIMIT_MAX}")
    return limit


def checked_wait_s(duration: Duration) -> float:
    """Returns the seconds to wait for messages. Raises BadInput if they are not valid."""
    wait: object = seconds_of(duration)
    if not isinstance(wait, int | float) or not 0 <= wait <= WAIT_S_MAX:
        raise BadInput(f"wait {wait!r}: expected seconds from 0 to {WAIT_S_MAX:.0f}")
    return float(wait)


class Cursor:
    """The state of reading one partition. `position` is the number to continue from."""

    __slots__ = ("partition", "position")

    def __init__(self, partition: int, position: int) -> None:
        self.partition, self.position = partition, position


AnyCursor = TypeVar("AnyCursor", bound=Cursor)


class Rotation(Generic[AnyCursor]):
    """The cursors that are read, and whose turn it is. One thread at a time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._cursors: list[AnyCursor] = []
        self._turn = 0

    def put(self, cursors: Sequence[AnyCursor]) -> None:
        """Reads these cursors from now on."""
        self._cursors, self._turn = sorted(cursors, key=lambda cursor: cursor.partition), 0

    def next_page(
        self,
        logs: Sequence[Log],
        limit: int,
        tag: TagFilter | None,
        bytes_max: int | None = None,
        room: ScanRoom | None = None,
    ) -> tuple[AnyCursor, Page] | None:
        """Returns up to `limit` messages of the next partition in turn that has any. The caller moves its cursor.

        `bytes_max` limits their bytes, roughly. Returns None if no partition has any, or if the filter used up `room`:
        then the cursors have moved past the scanned messages.

        If a partition fails, such as with FellBehind, raises the error when it is the turn of that partition. The next
        call continues with the others.
        """
        cursors, room = self._cursors, room or ScanRoom()
        count = len(cursors)
        for place in range(self._turn, self._turn + count):
            cursor = cursors[place % count]
            log = logs[cursor.partition]
            if log.end <= cursor.position:
                continue
            if room.is_used_up:
                break
            self._turn = (place + 1) % count
            # Without a filter a page ends with its messages, so there is nothing to scan.
            scanned_max = None if tag is None else room.left
            try:
                page = log.page(cursor.position, tag, limit=limit, bytes_max=bytes_max, scanned_max=scanned_max)
            except NumberRetired as error:
                raise FellBehind(self._topic, cursor.partition, error.number, error.first) from error
            room.use(page)
            if page.messages:
                return cursor, page
            # The filter has skipped these messages permanently.
            cursor.position = page.next_number
        return None

    def turn_back(self) -> None:
        """Gives the turn back to the partition that had it last."""
        self._turn = (self._turn - 1) % max(1, len(self._cursors))

    def wait(self, logs: Sequence[Log], seconds: float, clock: Clock) -> None:
        """Returns when a partition has a message at its cursor, after `seconds` at the latest."""
        ends = [(logs[cursor.partition], cursor.position) for cursor in self._cursors]
        wait_for_any(ends, min(seconds, LOOK_WAITING_S), clock)


class PageCollector:
    """Messages of several pages: up to `limit`, and up to `bytes_max` bytes of bodies if that is given."""

    def __init__(self, limit: int, bytes_max: int | None = None) -> None:
        self.messages: list[Message] = []
        self.room, self.bytes_room = limit, bytes_max

    def add(self, page: Page) -> None:
        # Most often there is only one page, which need not be copied.
        self.messages = self.messages + page.messages if self.messages else page.messages
        self.room -= len(page.messages)
        if self.bytes_room is not None:
            self.bytes_room -= sum(len(message.body) for message in page.messages)
            if self.bytes_room <= 0:
                self.room = 0
