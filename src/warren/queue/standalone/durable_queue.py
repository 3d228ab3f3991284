"""A durable queue that many processes share, with the methods of `queue.Queue`: a topic with one reader."""

from __future__ import annotations

import math
import os.path
import threading
from queue import Empty, Full
from typing import Final, Generic, TypeVar

from warren.clock import Duration
from warren.errors import GONE, BadInput, NoSuchTopic, NumberRetired, SettingsDiffer, UnreadableItem
from warren.message import Message
from warren.queue.delay.delay import DelayingTopic
from warren.queue.standalone.codec import Codec, read_item
from warren.queue.state import paths
from warren.queue.state.session import Session
from warren.queue.state.settings import check_sizes
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.waits import TICK_S, Deadline, checked_count
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem

T = TypeVar("T")

READER: Final = "queue"
READ_AHEAD: Final = 1024
READ_AHEAD_BYTES: Final = 4 << 20
BLOCK_SIZE: Final = 8 << 20
"""Small, because taken items are removed in whole blocks, and the queue should free its space soon."""
LOOK_S: Final = 0.02
"""How often a call that waits for other processes checks for room, or whether their tasks are done."""
COUNT_FILE_SIZE: Final = 4096
BEGUN: Final = 0
ENDED: Final = 1


class DurableQueue(Generic[T]):
    """A queue in a store. Any thread of any process that has it open may put and get.

    An item is in the queue when `put` returns. It is out of the queue, permanently and for all processes, when `get`
    returns, as durably as the queue's topic says. The codec turns items into bytes and back. `task_done` and `join`
    work across processes; tasks of a process that died are not waited for.
    """

    def __init__(self, topic: DelayingTopic, maxsize: int, codec: Codec) -> None:
        if topic.partition_count != 1:
            raise SettingsDiffer(
                f"topic {str(topic.name)!r}", "partitions", 1, topic.partition_count, "use another name"
            )
        self.topic, self.maxsize = topic, checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._codec, self._clock = codec, topic.clock
        self.ahead_size_max = READ_AHEAD_BYTES
        directory = paths.queue_directory(topic.directory)
        topic.filesystem.make_directory(directory)
        self._lock = SharedLock(topic.filesystem, paths.queue_lock(directory), self._clock)
        with self._lock:
            self._use(topic.partition(0))
        self._workers = Workers(topic.store.session, topic.filesystem, directory)

    def _use(self, log: Log) -> None:
        self._log, self._reader = log, log.reader(READER)
        self._ahead: list[Message] = []

    def _position(self) -> int:
        """Returns the number of the oldest item. The caller holds the lock."""
        log = self.topic.logs[0]
        if log is not self._log:
            # The topic opens its log again when its settings change.
            self._use(log)
        return self._reader.refresh()

    # --- Putting ---

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Adds an item. If the queue is full, waits for room, and raises Full if there is none in time.

        With a `delay` in seconds the item cannot be got before that time. It counts in `qsize` immediately.
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
        check_sizes((body,), topic.settings.message_size_max)
        if delay is not None:
            due_us = topic.delay.due_us(delay, None)
            topic.delay.put(body, due_us)
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

        Raises UnreadableItem if the codec cannot read the item. The item then stays in the queue; `skip` removes it.
        """
        item = self.take()
        if item is None:
            item = self._wait(Deadline(self._clock, block, timeout))
        return item[0]

    def _wait(self, deadline: Deadline) -> tuple[T, int]:
        while True:
            left_s = deadline.left_s()
            if not left_s:
                raise Empty
            # Returns immediately if there is an item again: another caller took the one before.
            with self._lock:
                number = self._position()
            self._log.wait(number, left_s)
            item = self.take()
            if item is not None:
                return item

    def take(self) -> tuple[T, int] | None:
        """Removes the oldest item and returns it and its number. Returns None if there is none."""
        with self._lock:
            number, ahead = self._position(), self._ahead
            # Other callers may have taken items that were read ahead here.
            while ahead and ahead[-1].number < number:
                ahead.pop()
            if not ahead or ahead[-1].number != number:
                # Reversed, because removing from the end of a list is cheap.
                ahead = self._ahead = self._read(number)[::-1]
                if not ahead:
                    return None
            # Decoded before it is taken: an item that this codec cannot read stays for a queue object with another
            # codec.
            item: T = read_item(self._codec, str(self.topic.name), ahead[-1].body, number)
            message = ahead.pop()
            self._reader.commit_to(message.number + 1, ahead[-1].offset if ahead else None)
            self._workers.begin()
            return item, message.number

    def skip(self, error: UnreadableItem) -> bool:
        """Removes the item that the codec could not read, if it is still the oldest one. Returns whether it was."""
        return self.skip_number(error.number)

    def skip_number(self, number: int) -> bool:
        """Removes the item with this number if it is the oldest one. Returns whether it was."""
        with self._lock:
            if self._position() != number or not self._read(number):
                return False
            self._reader.commit_to(number + 1)
            return True

    def give_back(self, number: int) -> int | None:
        """Returns to the queue an item that a caller of `take` cannot use, and ends its task.

        It is the oldest item again, unless another item was taken since then: in that case it is put at the end.
        Returns its number, or None if its block was removed in the meantime.
        """
        with self._lock:
            position, log = self._position(), self._log
            try:
                message = log.at(number)
            except NumberRetired:
                message = None
            if message is not None:
                if position == number + 1:
                    self._reader.commit_to(number)
                else:
                    number = log.append(message.body).number
        self.task_done()
        return None if message is None else number

    def _read(self, number: int) -> list[Message]:
        try:
            return self._log.read(number, limit=READ_AHEAD, bytes_max=self.ahead_size_max)
        except NumberRetired as error:
            return self._log.read(error.first, limit=READ_AHEAD, bytes_max=self.ahead_size_max)

    def poll(self, wait: float) -> tuple[T] | None:
        """Removes the oldest item and returns it in a tuple. Returns None if none comes within `wait` seconds."""
        try:
            return (self.get(timeout=wait),)
        except Empty:
            return None

    def get_nowait(self) -> T:
        """Removes the oldest item and returns it. Raises Empty if there is none."""
        return self.get(block=False)

    # --- Tasks ---

    def task_done(self) -> None:
        """Marks one item that this process got as done. Raises ValueError if there is no such item."""
        self._workers.end()

    def join(self, timeout: Duration | None = None) -> bool:
        """Waits until every item was got and is done, in all processes. Returns whether that happened in time."""
        deadline = Deadline(self._clock, True, timeout)
        while self.qsize() or self._workers.busy():
            left_s = deadline.left_s()
            if not left_s:
                return False
            self._clock.sleep(max(TICK_S, min(LOOK_S, left_s)))
        return True

    def finish(self, wait: float) -> bool:
        """Calls `join` for at most `wait` seconds."""
        return self.join(wait)

    # --- How many there are ---

    def _size(self) -> int:
        position = max(self._position(), self._log.first)
        return self._log.end - position + self.topic.delay.count()

    def qsize(self) -> int:
        """Returns how many items are in the queue, due or not."""
        with self._lock:
            return self._size()

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def __repr__(self) -> str:
        return f"<DurableQueue {self.topic.name}, {self.qsize()} items>"


class Workers:
    """Two counts for each session, in a mapped file of its own: how many items it began, and how many it finished.

    One thread at a time calls `begin`; any thread calls `end`. The tasks of a dead session do not count.
    """

    def __init__(self, session: Session, filesystem: FileSystem, directory: str) -> None:
        self._session, self._filesystem, self._directory = session, filesystem, directory
        self._mutex = threading.Lock()
        self._session_id = ""

    def _counts(self) -> memoryview:
        """Returns the counts of this session. A forked child has its own."""
        if self._session_id != self._session.id:
            self._session_id = self._session.id
            path = paths.worker_path(self._directory, self._session_id)
            file = self._filesystem.open(path, writable=True, create=True)
            if file.size() < COUNT_FILE_SIZE:
                file.preallocate(COUNT_FILE_SIZE)
            self._view = memoryview(file.map(COUNT_FILE_SIZE, writable=True)).cast("q")
        return self._view

    def begin(self) -> None:
        """Counts one more item that this session works on."""
        self._counts()[BEGUN] += 1

    def end(self) -> None:
        """Counts one item that this session has finished. Raises BadInput if it works on none."""
        with self._mutex:
            counts = self._counts()
            if counts[ENDED] >= counts[BEGUN]:
                raise BadInput("task_done() was called more often than items were got")
            counts[ENDED] += 1

    def busy(self) -> int:
        """Returns how many items all living sessions work on."""
        return sum(self._count_of(name) for name in self._filesystem.names(self._directory))

    def _count_of(self, name: str) -> int:
        session_id = paths.worker_session(name)
        if session_id is None:
            return 0
        path = os.path.join(self._directory, name)
        if not self._session.is_alive(session_id):
            self._filesystem.remove(path)
            return 0
        file = self._filesystem.open(path, writable=False)
        data = file.read(0, 16)
        file.close()
        counts = memoryview(data.ljust(16, b"\0")).cast("q")
        return counts[BEGUN] - counts[ENDED]
