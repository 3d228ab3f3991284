"""Batching: puts that are gathered and written together in the background, each with a future of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypedDict

from warren.clock import SYSTEM_CLOCK, Clock, Duration, seconds_of
from warren.config import (
    BATCHING_BUFFER_SIZE_DEFAULT,
    BATCHING_COUNT_MAX,
    BATCHING_IN_FLIGHT_DEFAULT,
    BATCHING_IN_FLIGHT_MAX,
    BATCHING_LINGER_S_DEFAULT,
    BATCHING_MESSAGE_SIZE,
    BATCHING_SIZE_DEFAULT,
    BATCHING_WAIT_S_DEFAULT,
    WAIT_S_MAX,
)
from warren.errors import BadInput, BatchingClosed, BufferFull
from warren.message import NO_CORR_OFFSET
from warren.queue.gathered_batch import GatheredBatch, PutFuture, PutsMany
from warren.storage.record import check_body
from warren.storage.residents import process_residents


class BatchingOptions(TypedDict, total=False):
    """How puts are gathered."""

    linger: Duration
    batch_bytes: int
    buffer_bytes: int
    in_flight: int


class Part:
    """What waits for one partition, or for whichever is next, in order. `since_s`: from when the first of it does."""

    def __init__(self, topic: PutsMany, partition: int | None) -> None:
        self.topic, self.partition = topic, partition
        self.batches: deque[GatheredBatch] = deque()
        self.since_s = 0.0
        self.is_sending = self.is_ready = False
        self.put_count = self.done_count = 0


class Batching:
    """Gathers puts, and writes those of a partition together: after `linger` seconds, or when they are `batch_bytes`.

    Any thread may put. What goes to one partition is written in the order of the puts, one batch at a time; batches of
    up to `in_flight` partitions are under way at once. No more than `buffer_bytes` wait: then a put waits for room. A
    message is written once, whatever becomes of the connection meanwhile; where that is not known, its future says so.
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
        self._parts: dict[tuple[str, int | None], Part] = {}
        self._lingering: dict[Part, None] = {}
        """Those whose time has not come, the first to come first."""
        self._ready: deque[Part] = deque()
        self._threads: list[threading.Thread] = []
        self._buffered = self._flushing = self._idle = 0

    # --- As a resident of the process: told when it forks, asked for no files ---

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """In a child: what was put stays the parent's."""
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
        """Put one message; a future of its place, done when it is as durable as the topic's settings say.

        BufferFull where there is no room for it within `wait` seconds. What is wrong with the message, or with its
        writing, is told by the future.
        """
        found = self._topic(topic) if isinstance(topic, str) else topic
        found.check_bodies((body,))
        if key is not None and partition is None:
            partition = found.route(key)
        try:
            size = len(body) + len(key or b"") + BATCHING_MESSAGE_SIZE
        except TypeError:
            check_body(body)
            raise
        with self._mutex:
            self._make_room(size, wait)
            part = self._parts.get((found.name, partition))
            if part is None or part.topic is not found:
                part = self._parts[found.name, partition] = Part(found, partition)
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
        """Return when there is room for `size` bytes more."""
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

    def _batch_of(self, part: Part) -> GatheredBatch:
        """The batch that is being gathered for a part; the time of a part begins with its first."""
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

    def _make_ready(self, part: Part) -> None:
        """It need not wait any longer, but for the batch before."""
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

    def _next(self) -> Part | None:
        """The part whose turn it is, when it comes; None where there will be none any more."""
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
        """Write what was put before, and return when its futures are done; whether that came within `wait` seconds."""
        with self._mutex:
            wanted = [(part, part.put_count) for part in self._parts.values()]
            self._flushing += 1
            self._work.notify_all()
            try:
                return self._room.wait_for(
                    lambda: all(part.done_count >= count for part, count in wanted), seconds_of(wait)
                )
            finally:
                self._flushing -= 1

    def close(self, wait: Duration = WAIT_S_MAX) -> bool:
        """Take no more puts, and write what was put; whether that was done in time. Closing twice does no harm."""
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
