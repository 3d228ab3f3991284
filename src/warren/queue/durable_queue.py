"""A durable queue that many processes share, with the methods of `queue.Queue`: a topic, and one place in it."""

from __future__ import annotations

import math
from queue import Empty, Full
from typing import Final, Generic, TypeVar

from warren.clock import Duration
from warren.errors import GONE, NoSuchTopic, NumberRetired, SettingsDiffer, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.queue import store_paths
from warren.queue.codec import Codec, read_item
from warren.queue.shared_lock import SharedLock
from warren.queue.topic import Topic
from warren.queue.waiting import TICK_S, Deadline, checked_count
from warren.queue.workers import Workers
from warren.storage import Log

T = TypeVar("T")

READER: Final = "queue"
READ_AHEAD: Final = 1024
READ_AHEAD_BYTES: Final = 4 << 20
BLOCK_SIZE: Final = 8 << 20
"""Small, so that the queue gives its space back soon: what was taken goes in whole blocks."""
LOOK_S: Final = 0.02
"""How often whoever waits for other processes to make room, or to finish, looks."""


class DurableQueue(Generic[T]):
    """A queue in a store. Any thread of any process that has it open may put and get.

    An item is in the queue when `put` returns, and out of it, for good and for everybody, when `get` returns: as
    durably as the queue's topic says. The codec turns items into bytes and back.
    `task_done` and `join` work across processes; a process that dies leaves no task that is waited for.
    """

    def __init__(self, topic: Topic, maxsize: int, codec: Codec) -> None:
        if topic.partition_count != 1:
            raise SettingsDiffer(
                f"topic {str(topic.name)!r}", "partitions", 1, topic.partition_count, "use another name"
            )
        self.topic, self.maxsize = topic, checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._codec, self._clock = codec, topic.clock
        directory = store_paths.queue_directory(topic.directory)
        topic.filesystem.make_directory(directory)
        self._lock = SharedLock(topic.filesystem, store_paths.queue_lock(directory), self._clock)
        with self._lock:
            self._use(topic.partition(0))
        self._workers = Workers(topic.store.session, topic.filesystem, directory)

    def _use(self, log: Log) -> None:
        self._log, self._reader = log, log.reader(READER)
        self._ahead: list[Message] = []

    def _position(self) -> int:
        """The number of the oldest item; the lock is held."""
        log = self.topic.logs[0]
        if log is not self._log:
            # Changed settings of the topic open its log anew.
            self._use(log)
        return self._reader.refresh()

    # --- Putting ---

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Adds an item. If the queue is full, waits for room, and raises Full if there is none in time.

        With a `delay` in seconds the item can be got that much later at the earliest. It counts in `qsize` from now on.
        """
        body = self._codec.dumps(item)
        if self.maxsize <= 0:
            self._append(body, delay)
            return
        deadline = Deadline(self._clock, block, timeout)
        while not self._put_where_there_is_room(body, delay):
            left_s = deadline.left_s()
            if not left_s:
                raise Full
            self._clock.sleep(max(TICK_S, min(LOOK_S, left_s)))

    def _put_where_there_is_room(self, body: bytes, delay: Duration | None) -> bool:
        with self._lock:
            if self._size() >= self.maxsize:
                return False
            self._append(body, delay)
            return True

    def _append(self, body: bytes, delay: Duration | None) -> None:
        topic = self.topic
        if len(body) > topic.settings.message_size_max:
            raise TooLarge("body", len(body), topic.settings.message_size_max)
        if delay is not None:
            due_us = topic.delay.due_us(delay, None)
            topic.delay.put(
                body, due_us, key=None, tag="", headers=None, id="", corr_offset=NO_CORR_OFFSET, partition=None
            )
            return
        try:
            topic.logs[0].append(body)
        except GONE as error:
            raise NoSuchTopic(topic.name) from error

    def offer(self, item: T, wait: float, delay: Duration | None = None) -> bool:
        """Adds an item if there is room within `wait` seconds. Returns whether there was."""
        try:
            self.put(item, timeout=wait, delay=delay)
        except Full:
            return False
        return True

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Adds an item. Raises Full if there is no room."""
        self.put(item, block=False, delay=delay)

    # --- Getting ---

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Removes the oldest item and returns it. If there is none, waits; raises Empty if none comes in time.

        Raises UnreadableItem if the codec cannot read the item. The item then stays in the queue.
        """
        found = self._take()
        if found is None:
            found = self._wait(Deadline(self._clock, block, timeout))
        return found[0]

    def _wait(self, deadline: Deadline) -> tuple[T]:
        while True:
            left_s = deadline.left_s()
            if not left_s:
                raise Empty
            # At once where there is an item: then another took the one before.
            with self._lock:
                number = self._position()
            self._log.wait(number, left_s)
            found = self._take()
            if found is not None:
                return found

    def _take(self) -> tuple[T] | None:
        with self._lock:
            number, ahead = self._position(), self._ahead
            # Others may have taken what was read ahead here.
            while ahead and ahead[-1].number < number:
                ahead.pop()
            if not ahead or ahead[-1].number != number:
                # From the end, which is where a list gives its items cheaply.
                ahead = self._ahead = self._read(number)[::-1]
                if not ahead:
                    return None
            # Read before it is taken: what this codec cannot read is left to another opening of the queue.
            item: T = read_item(self._codec, str(self.topic.name), ahead[-1].body)
            message = ahead.pop()
            self._reader.commit_to(message.number + 1, ahead[-1].offset if ahead else None)
            self._workers.begin()
            return (item,)

    def _read(self, number: int) -> list[Message]:
        try:
            return self._log.read(number, limit=READ_AHEAD, bytes_max=READ_AHEAD_BYTES)
        except NumberRetired as error:
            return self._log.read(error.first, limit=READ_AHEAD, bytes_max=READ_AHEAD_BYTES)

    def poll(self, wait: float) -> tuple[T] | None:
        """Remove the oldest item, alone in a tuple; None where none comes within `wait` seconds."""
        try:
            return (self.get(timeout=wait),)
        except Empty:
            return None

    def get_nowait(self) -> T:
        """Remove the oldest item and return it; Empty where there is none."""
        return self.get(block=False)

    # --- Tasks ---

    def task_done(self) -> None:
        """An item that this process got is done with; ValueError where none is left to be."""
        self._workers.end()

    def join(self, timeout: Duration | None = None) -> bool:
        """Wait until every item was got and is done with, in whatever process; whether that came in time."""
        deadline = Deadline(self._clock, True, timeout)
        while self.qsize() or self._workers.busy():
            left_s = deadline.left_s()
            if not left_s:
                return False
            self._clock.sleep(max(TICK_S, min(LOOK_S, left_s)))
        return True

    def finish(self, wait: float) -> bool:
        """`join` for at most `wait` seconds."""
        return self.join(wait)

    # --- How many there are ---

    def _size(self) -> int:
        position = max(self._position(), self._log.first)
        return self._log.end - position + self.topic.delay.count()

    def qsize(self) -> int:
        """How many items are in the queue, due or not."""
        with self._lock:
            return self._size()

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def __repr__(self) -> str:
        return f"<DurableQueue {self.topic.name}, {self.qsize()} items>"
