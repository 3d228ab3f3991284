"""Broadcast: everything that is put to a topic from some place on, for whoever listens. Nothing is kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from warren.clock import Duration
from warren.config import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.errors import FellBehind, LogClosed, NoSuchTopic, NotALog, WarrenError
from warren.message import Message
from warren.queue.positions import Where, number_of
from warren.queue.rotation import LOOK_WAITING_S, Collected, Cursor, Rotation, checked_limit, checked_wait_s
from warren.storage import END
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.queue.topic import Topic


class Broadcast:
    """One listener: it gets every message that passes its filter, ordered within each partition. One thread at a time.

    It starts where each partition ends, or at `start`: a place or time for all partitions, or a number for each that
    is named. Iterating ends when nothing came for `wait` seconds; with None it never does.
    """

    def __init__(
        self, topic: Topic, *, tag: str | None, start: Where | Mapping[int, int] | None, wait: Duration | None
    ) -> None:
        self._topic = topic
        self._filter = None if tag is None else TagFilter.parse(tag)
        self._wait_s = None if wait is None else checked_wait_s(wait)
        self._cursors = self._first_cursors(END if start is None else start)
        self._rotation: Rotation[Cursor] = Rotation(topic.name)
        self._rotation.put(self._cursors)
        self._looked_s = topic.clock.steady_s()

    def _first_cursors(self, start: Where | Mapping[int, int]) -> list[Cursor]:
        topic = self._topic
        if not isinstance(start, Mapping):
            return [Cursor(number, number_of(log, start)) for number, log in enumerate(topic.logs)]
        cursors = [Cursor(number, log.end) for number, log in enumerate(topic.logs)]
        for partition, number in start.items():
            log = topic.partition(partition)
            cursors[partition].position = number_of(log, number)
        return cursors

    def read(self, limit: int = READ_LIMIT_DEFAULT, wait: Duration = 0.0) -> list[Message]:
        """Up to `limit` messages; where there is none, waits up to `wait` seconds for one.

        FellBehind where retention removed what came next: the call after it goes on with the first message still there.
        """
        checked_limit(limit)
        clock = self._topic.clock
        deadline_s = clock.steady_s() + checked_wait_s(wait)
        while True:
            try:
                messages = self._read(limit)
                left_s = deadline_s - clock.steady_s()
                if messages or left_s <= 0:
                    return messages
                self._rotation.wait(self._topic.logs, left_s, clock)
            except (LogClosed, NotALog, FileNotFoundError) as error:
                if self._topic.store.has_topic(self._topic.name):
                    raise
                raise NoSuchTopic(self._topic.name) from error

    def _read(self, limit: int) -> list[Message]:
        self._look()
        collected = Collected(limit)
        for _ in self._cursors:
            try:
                found = self._rotation.next_page(self._topic.logs, collected.room, self._filter)
            except WarrenError as error:
                if not collected.messages:
                    self._go_on(error)
                    raise
                # First what was read; the next call tells.
                self._rotation.turn_back()
                break
            if found is None:
                break
            cursor, page = found
            collected.add(page)
            cursor.position = page.next_number
            if not collected.room:
                break
        return collected.messages

    def _go_on(self, error: WarrenError) -> None:
        if isinstance(error, FellBehind):
            self._cursors[error.partition].position = error.first

    def _look(self) -> None:
        """Listen to partitions that were added, from their first message on."""
        now_s = self._topic.clock.steady_s()
        if now_s - self._looked_s < LOOK_WAITING_S:
            return
        self._looked_s = now_s
        added = range(len(self._cursors), self._topic.see_partitions())
        if added:
            self._cursors += [Cursor(partition, 0) for partition in added]
            self._rotation.put(self._cursors)

    def __iter__(self) -> Iterator[Message]:
        while True:
            messages = self.read(wait=WAIT_S_MAX if self._wait_s is None else self._wait_s)
            yield from messages
            if not messages and self._wait_s is not None:
                return

    def __repr__(self) -> str:
        return f"<Broadcast of {self._topic.name}>"
