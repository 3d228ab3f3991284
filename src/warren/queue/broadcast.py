"""Broadcast: reads all messages of a topic, from a start position on. It stores no position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warren.api.values import Where
from warren.clock import Duration
from warren.errors import FellBehind, LogClosed, NoSuchTopic, NotALog, WarrenError
from warren.limits import READ_LIMIT_DEFAULT, WAIT_S_MAX
from warren.message import Message
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.positions import number_of
from warren.queue.stream.rotation import LOOK_WAITING_S, Cursor, PageCollector, Rotation, checked_limit, checked_wait_s
from warren.storage import END
from warren.storage.format.tags import TagFilter


class Broadcast:
    """One listener. It gets every message that passes its filter, ordered within each partition. One thread at a time.

    It starts at the end of each partition, or at `start`: one place or time for all partitions, or a number for each
    named partition. An iteration ends when no message came for `wait` seconds; if `wait` is None, it never ends.
    """

    def __init__(
        self, topic: TopicView, *, tag: str | None, start: Where | Mapping[int, int] | None, wait: Duration | None
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
        """Returns up to `limit` messages. If there is none, waits up to `wait` seconds for one.

        Raises FellBehind if retention removed the next messages; the next call continues with the first message that is
        left.
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
        collected = PageCollector(limit)
        for _ in self._cursors:
            try:
                turn = self._rotation.next_page(self._topic.logs, collected.room, self._filter)
            except WarrenError as error:
                if not collected.messages:
                    if isinstance(error, FellBehind):
                        self._cursors[error.partition].position = error.first
                    raise
                # Messages that were read are returned first. The next call meets the error again and raises it.
                self._rotation.turn_back()
                break
            if turn is None:
                break
            cursor, page = turn
            collected.add(page)
            cursor.position = page.next_number
            if not collected.room:
                break
        return collected.messages

    def _look(self) -> None:
        """Adds the partitions that were added to the topic, from their first message on."""
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
