"""Batching: gathers puts and writes them together in the background. Each put has a future of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self

from warren.clock import SYSTEM_CLOCK, Clock, Duration, seconds_of
from warren.errors import BadInput, BatchingClosed, BufferFull
from warren.limits import WAIT_S_MAX
from warren.message import NO_CORR_OFFSET, Place
from warren.storage.disk.open_files import process_residents
from warren.storage.format.record import check_body

BATCHING_LINGER_S_DEFAULT: Final = 0.005
BATCHING_SIZE_DEFAULT: Final = 1 << 20
BATCHING_COUNT_MAX: Final = 10_000
BATCHING_BUFFER_SIZE_DEFAULT: Final = 64 << 20
BATCHING_IN_FLIGHT_DEFAULT: Final = 4
BATCHING_IN_FLIGHT_MAX: Final = 64
BATCHING_WAIT_S_DEFAULT: Final = 30.0
"""Limits of gathered puts: how long they are gathered, the bytes and messages of one batch and of all waiting puts, how
many batches are written at the same time, and how long a put waits for room.
"""
BATCHING_MESSAGE_SIZE: Final = 64
"""About how many bytes a waiting message takes in addition to its body and key."""


class PartitionQueue:
    """The batches that wait for one partition, in order. `since_s` is when their first message was put.

    If the partition is None, the messages go to the partition that is next in turn.
    """

    def __init__(self, topic: PutsMany, partition: int | None) -> None:
        self.topic, self.partition = topic, partition
        self.batches: deque[GatheredBatch] = deque()
        self.since_s = 0.0
        self.is_sending = self.is_ready = False
        self.put_count = self.done_count = 0


class Batching:
    """Gathers puts, and writes those of a partition together: after `linger` seconds, or at `batch_bytes`.

    Any thread may put. Messages of one partition are written in the order of the puts, one batch at a time; batches of
    up to `in_flight` partitions are written at the same time. At most `buffer_bytes` wait; then a put waits for room. A
    message is written once, even if the connection to a broker breaks in between. If the outcome of a put is not known,
    its future raises OutcomeUnknown.
    """

    file_count = 0

    def __init__(
        self,
        store: Any,
        *,
        linger: Duration = BATCHING_LINGER_S_DEFAULT,
        batch_bytes: int = BATCHING_SIZE_DEFAULT,
        buffer_bytes: int = BATCHING_BUFFER_SIZE_DEFAULT,
        in_flight: int = BATCHING_IN_FLIGHT_DEFAULT,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        linger_s = seconds_of(linger)
        if not 0 <= linger_s <= WAIT_S_MAX:
            raise BadInput(f"linger {linger!r}: expected seconds from 0 to {WAIT_S_MAX:.0f}")
        if not 0 < batch_bytes <= buffer_bytes:
            raise BadInput(f"batch_bytes {batch_bytes!r}: expected 1 to buffer_bytes, which are {buffer_bytes!r}")
        if not 1 <= in_flight <= BATCHING_IN_FLIGHT_MAX:
            raise BadInput(f"in_flight {in_flight!r}: expected 1 to {BATCHING_IN_FLIGHT_MAX}")
        self.store, self._clock = store, clock
        self._linger_s, self._size_max, self._buffer_size_max = linger_s, batch_bytes, buffer_bytes
        self._in_flight_max = in_flight
        self._is_closed = False
        self._reset()
        process_residents().register(self)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._work, self._room = threading.Condition(self._mutex), threading.Condition(self._mutex)
        self._topics: dict[str, PutsMany] = {}
        self._parts: dict[tuple[str, int | None], PartitionQueue] = {}
        self._lingering: dict[PartitionQueue, None] = {}
        """Parts whose linger time is not over, the earliest first."""
        self._ready: deque[PartitionQueue] = deque()
        self._threads: list[threading.Thread] = []
        self._buffered = self._flushing = self._idle = 0

    # --- As a resident of the process: called after a fork, has no files to close ---

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """In a child process: discards the waiting puts, because they belong to the parent."""
        self._reset()
        self._is_closed = True

    # --- Putting ---

    def put(
        self,
        topic: str | PutsMany,
        body: bytes,
        *,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
        wait: Duration = BATCHING_WAIT_S_DEFAULT,
    ) -> PutFuture:
        """Puts one message, and returns a future of its place.

        It is done when the message is as durable as the settings say.

        Raises BufferFull if there is no room within `wait` seconds. The future raises every other error of the message.
        """
        target = self._topic(topic) if isinstance(topic, str) else topic
        target.check_bodies((body,))
        if key is not None and partition is None:
            partition = target.route(key)
        try:
            size = len(body) + len(key or b"") + BATCHING_MESSAGE_SIZE
        except TypeError:
            check_body(body)
            raise
        with self._mutex:
            self._make_room(size, wait)
            part = self._parts.get((target.name, partition))
            if part is None or part.topic is not target:
                part = self._parts[target.name, partition] = PartitionQueue(target, partition)
            batch = self._batch_of(part)
            future = batch.add(body, tag, key, id, headers, corr_offset, size)
            part.put_count += 1
            self._buffered += size
            if batch.size >= self._size_max or len(batch.bodies) >= BATCHING_COUNT_MAX:
                self._make_ready(part)
        return future

    def _topic(self, name: str) -> PutsMany:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = self.store.topic(name)
        return topic

    def _make_room(self, size: int, wait: Duration) -> None:
        """Waits until there is room for `size` more bytes. Raises BufferFull if there is none in time."""
        if size > self._buffer_size_max:
            raise BufferFull(size, self._buffer_size_max)
        if self._is_closed:
            raise BatchingClosed
        if self._buffered + size <= self._buffer_size_max:
            return
        self._flushing += 1
        self._work.notify_all()
        try:
            is_there = self._room.wait_for(
                lambda: self._is_closed or self._buffered + size <= self._buffer_size_max, seconds_of(wait)
            )
        finally:
            self._flushing -= 1
        if self._is_closed:
            raise BatchingClosed
        if not is_there:
            raise BufferFull(self._buffered, self._buffer_size_max)

    def _batch_of(self, part: PartitionQueue) -> GatheredBatch:
        """Returns the batch that gathers messages for a part. The linger time begins with the first message."""
        if part.batches:
            batch = part.batches[-1]
            if batch.size < self._size_max and len(batch.bodies) < BATCHING_COUNT_MAX:
                return batch
        batch = GatheredBatch(self._room)
        part.batches.append(batch)
        if not (part.is_sending or part.is_ready or part in self._lingering):
            part.since_s = self._clock.steady_s()
            self._lingering[part] = None
            self._wake()
        return batch

    def _make_ready(self, part: PartitionQueue) -> None:
        """Queues the part for writing. A part that is being written is queued when that batch is done."""
        if not (part.is_sending or part.is_ready):
            self._lingering.pop(part, None)
            part.is_ready = True
            self._ready.append(part)
            self._wake()

    def _wake(self) -> None:
        if not self._idle and len(self._threads) < self._in_flight_max:
            thread = threading.Thread(target=self._send_all, name="warren-batching", daemon=True)
            self._threads.append(thread)
            thread.start()
        else:
            self._work.notify()

    # --- Writing, by threads of its own ---

    def _send_all(self) -> None:
        while True:
            with self._mutex:
                part = self._next()
                if part is None:
                    return
                part.is_ready, part.is_sending = False, True
                batch = part.batches.popleft()
            batch.write(part.topic, part.partition)
            with self._mutex:
                part.is_sending = False
                part.done_count += len(batch.bodies)
                self._buffered -= batch.size
                if part.batches:
                    self._make_ready(part)
                callbacks = batch.end()
                self._room.notify_all()
            for callback in callbacks:
                callback()

    def _next(self) -> PartitionQueue | None:
        """Waits for the next part to write, and returns it. Returns None if it is closed and nothing is left."""
        while True:
            if self._ready:
                return self._ready.popleft()
            wait_s: float | None = None
            if self._lingering:
                part = next(iter(self._lingering))
                wait_s = part.since_s + self._linger_s - self._clock.steady_s()
                if wait_s <= 0 or self._flushing or self._is_closed:
                    del self._lingering[part]
                    return part
            elif self._is_closed:
                return None
            self._idle += 1
            self._work.wait(wait_s)
            self._idle -= 1

    # --- Ending ---

    def flush(self, wait: Duration = WAIT_S_MAX) -> bool:
        """Writes everything that was put before. Returns whether its futures were done in `wait` seconds."""
        with self._mutex:
            counts = [(part, part.put_count) for part in self._parts.values()]
            self._flushing += 1
            self._work.notify_all()
            try:
                return self._room.wait_for(
                    lambda: all(part.done_count >= count for part, count in counts), seconds_of(wait)
                )
            finally:
                self._flushing -= 1

    def close(self, wait: Duration = WAIT_S_MAX) -> bool:
        """Accepts no more puts, and writes the rest. Returns whether that was done in time. Closing twice is fine."""
        with self._mutex:
            self._is_closed = True
            self._work.notify_all()
            self._room.notify_all()
        return self.flush(wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Batching of {self.store!r}: {self._buffered} bytes wait{', closed' if self._is_closed else ''}>"


class PutsMany(Protocol):
    """The part of a topic, embedded or remote, that batching uses."""

    @property
    def name(self) -> str: ...
    def route(self, key: bytes | None) -> int: ...
    def check_bodies(self, bodies: Sequence[bytes]) -> None: ...
    @property
    def put_many(self) -> Callable[..., Sequence[Place]]: ...


class GatheredBatch:
    """Messages as columns. The holder of the lock of `ended` adds messages and ends the batch. One thread writes it.

    For speed, each message has one future and no other object, and nothing is done per message after the write.
    """

    __slots__ = ("_callbacks", "_errors", "_places", "bodies", "columns", "ended", "is_ended", "size")

    def __init__(self, ended: threading.Condition) -> None:
        self.ended, self.is_ended, self.size = ended, False, 0
        self.bodies: list[bytes] = []
        self.columns: tuple[list[Any], ...] = ([], [], [], [], [])
        self._places: Sequence[Place | None] = ()
        self._errors: dict[int, Exception] | Exception = {}
        self._callbacks: list[Callable[[], object]] = []

    def add(
        self,
        body: bytes,
        tag: str,
        key: bytes | None,
        id: str,
        headers: Mapping[str, bytes] | None,
        corr_offset: int,
        size: int,
    ) -> PutFuture:
        """Adds one message, and returns its future."""
        future = PutFuture(self, len(self.bodies))
        self.bodies.append(body)
        tags, keys, ids, all_headers, corr_offsets = self.columns
        tags.append(tag)
        keys.append(key)
        ids.append(id)
        all_headers.append(headers)
        corr_offsets.append(corr_offset)
        self.size += size
        return future

    def write(self, topic: PutsMany, partition: int | None) -> None:
        """Puts the messages. An error is kept for their futures."""
        try:
            self._places = topic.put_many(**self._rows(slice(None)), partition=partition)
        except BadInput:
            # Nothing was written, because one of the messages is not valid. The others are put one by one.
            errors: dict[int, Exception] = {}
            self._errors = errors
            self._places = [self._alone(topic, partition, row, errors) for row in range(len(self.bodies))]
        except Exception as error:  # noqa: BLE001 (every error is kept for the futures)
            self._errors = error

    def _alone(self, topic: PutsMany, partition: int | None, row: int, errors: dict[int, Exception]) -> Place | None:
        try:
            return topic.put_many(**self._rows(slice(row, row + 1)), partition=partition)[0]
        except Exception as error:  # noqa: BLE001 (as above)
            errors[row] = error
            return None

    def _rows(self, rows: slice) -> dict[str, Any]:
        """Returns the parameters of `put_many`. A column without any value is left out."""
        tags, keys, ids, headers, corr_offsets = (column[rows] for column in self.columns)
        return {
            "bodies": self.bodies[rows],
            "tags": tags if any(tags) else None,
            "keys": keys if keys.count(None) < len(keys) else None,
            "ids": ids if any(ids) else None,
            "headers": headers if any(headers) else None,
            "corr_offsets": corr_offsets if corr_offsets.count(NO_CORR_OFFSET) < len(corr_offsets) else None,
        }

    def end(self) -> list[Callable[[], object]]:
        """Marks the futures as done, and returns the callbacks to call.

        Frees the messages, because futures may live long.
        """
        self.is_ended, self.bodies, self.columns = True, [], ()
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    def when_ended(self, call: Callable[[], object]) -> None:
        """Calls `call` when the futures are done, in the thread that wrote; immediately if they are done already."""
        with self.ended:
            if not self.is_ended:
                self._callbacks.append(call)
                return
        call()

    def outcome(self, row: int) -> Place | Exception:
        """Returns the place of a message, or its error, once the batch has ended."""
        errors = self._errors
        if isinstance(errors, Exception):
            return errors
        place = self._places[row]
        return errors[row] if place is None else place


class PutFuture:
    """The future place of a message that is not written yet. Its methods are those of `concurrent.futures.Future`."""

    __slots__ = ("batch", "row")

    def __init__(self, batch: GatheredBatch, row: int) -> None:
        self.batch, self.row = batch, row

    def done(self) -> bool:
        return self.batch.is_ended

    def result(self, timeout: Duration | None = None) -> Place:
        """Waits for the write, and returns the place.

        Raises the error of the message, or TimeoutError after `timeout` seconds.
        """
        outcome = self._outcome(timeout)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def exception(self, timeout: Duration | None = None) -> Exception | None:
        """Waits for the write, and returns the error of the message, or None if it was written."""
        outcome = self._outcome(timeout)
        return outcome if isinstance(outcome, Exception) else None

    def _outcome(self, timeout: Duration | None) -> Place | Exception:
        batch = self.batch
        if not batch.is_ended:
            with batch.ended:
                if not batch.ended.wait_for(lambda: batch.is_ended, seconds_of(timeout)):
                    raise TimeoutError(f"not written within {seconds_of(timeout)} seconds")
        return batch.outcome(self.row)

    def add_done_callback(self, call: Callable[[PutFuture], object]) -> None:
        """Calls `call` with this future when it is done, in the thread that wrote; immediately if
        it is done already.
        """
        self.batch.when_ended(partial(call, self))

    def __repr__(self) -> str:
        return f"<PutFuture: {self.batch.outcome(self.row) if self.done() else 'not written yet'}>"
