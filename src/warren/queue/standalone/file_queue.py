"""The single-file queue: BunnyMQ's operations, and those of `queue.Queue`, on a queue file."""

from __future__ import annotations

import os
from queue import Empty
from types import TracebackType
from typing import Final, NamedTuple, Self

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.errors import BadInput, QueueFileFull, StorageFull, TooLarge
from warren.queue.standalone.pointer_file import PointerFile, QueueRecord, head_size, pack_record
from warren.queue.standalone.shared_file import SharedFile
from warren.queue.state.waits import Deadline, checked_count, checked_delay_s, wait
from warren.storage.append.durability import Durability
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
from warren.storage.format.layout import QUEUE_POINTER_MAX, QUEUE_RECORDS_AT

OPTIMISE_ABOVE_DEFAULT: Final = 512 << 10
QUEUE_FILE_LOOK_S: Final = 0.02
"""How often a caller that waits on a queue file polls it for changes by other processes."""

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

Body = bytes | bytearray | memoryview


class QueuedMessage(NamedTuple):
    """A message in a queue file. `expires_ms`, in ms since the epoch, is None in a file without delays."""

    position: int
    expires_ms: int | None
    body: bytes


class FileQueue:
    """A durable queue in one file. Any number of threads and processes may use it at the same time.

    A call that has returned is durable, unless `durability` is `os`. Messages leave in the order of the file; one that
    is not due yet is skipped and keeps its place. Another thread wakes a waiting call immediately; changes by other
    processes are noticed every `QUEUE_FILE_LOOK_S`.
    """

    def __init__(self, shared: SharedFile, *, optimise_above: int, delayed: bool, clock: Clock) -> None:
        self._shared, self._optimise_above, self._delayed, self._clock = shared, optimise_above, delayed, clock
        self._unfinished = 0
        shared.start()

    # --- BunnyMQ's operations ---

    def push(self, body: Body, delay: Duration | None = None) -> None:
        """Adds a message at the end, due `delay` seconds from now.

        Raises QueueFileFull if the pointers cannot express its position.
        """
        if not isinstance(body, Body):
            raise BadInput(f"body: expected bytes, not {type(body).__name__}")
        size_max = QUEUE_POINTER_MAX - QUEUE_RECORDS_AT - head_size(delayed=self._delayed)
        if (size := memoryview(body).nbytes) > size_max:
            raise TooLarge("a body", size, size_max)
        record = pack_record(bytes(body), self._expires_ms(delay))
        with self._shared.opened() as file:
            self._make_room(file, len(record))
            file.append(record)
            self._shared.changed.notify_all()

    def pull(self) -> bytes | None:
        """Removes and returns the first message that is due, or returns None."""
        with self._shared.opened() as file:
            record = self._first_due(file)
            return None if record is None else self._take(file, record)

    def messages(self) -> list[bytes]:
        """Returns the bodies of all messages, due or not, in order. Removes nothing."""
        return [message.body for message in self.records()]

    def records(self) -> list[QueuedMessage]:
        """Returns all messages, due or not, with their positions and due times. Removes nothing."""
        with self._shared.opened() as file:
            return [QueuedMessage(record.position, record.expires_ms, file.body(record)) for record in file.records()]

    def optimise(self) -> None:
        """Rewrites the file without the messages that were taken.

        This also happens automatically: see `optimise_above`.
        """
        with self._shared.opened() as file:
            file.optimise()

    @property
    def pull_pointer(self) -> int:
        """The position of the first message."""
        with self._shared.opened() as file:
            return file.pointers.pull

    @property
    def push_pointer(self) -> int:
        """The position for the next message."""
        with self._shared.opened() as file:
            return file.pointers.push

    # --- The methods of queue.Queue ---

    def put(
        self, item: Body, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Pushes a message. If the file has its largest size, waits for room, and raises QueueFileFull, a `Full`."""
        deadline = Deadline(self._clock, block, timeout)
        with self._shared.changed:
            while True:
                try:
                    return self.push(item, delay)
                except QueueFileFull as full:
                    self._wait(deadline, full)

    def put_nowait(self, item: Body, *, delay: Duration | None = None) -> None:
        """Calls `put` without waiting."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> bytes:
        """Removes and returns the first message that is due. Raises `Empty` if none is due in time.

        It is a task until `task_done`.
        """
        deadline = Deadline(self._clock, block, timeout)
        with self._shared.changed:
            while (body := self.pull()) is None:
                self._wait(deadline, Empty())
            self._unfinished += 1
            return body

    def get_nowait(self) -> bytes:
        """Calls `get` without waiting."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Marks one message that `get` returned as done."""
        with self._shared.changed:
            if not self._unfinished:
                raise BadInput("task_done() was called more often than get() returned a message")
            self._unfinished -= 1
            self._shared.changed.notify_all()

    def join(self) -> None:
        """Returns when the file is empty, and all messages that `get` returned here are done."""
        with self._shared.changed:
            while self._unfinished or not self.empty():
                wait(self._shared.changed, QUEUE_FILE_LOOK_S)

    def qsize(self) -> int:
        """Returns how many messages are in the file, due or not."""
        with self._shared.opened() as file:
            return sum(1 for _ in file.records())

    def empty(self) -> bool:
        with self._shared.opened() as file:
            return file.pointers.pull == file.pointers.push

    def full(self) -> bool:
        """Returns whether the pointers cannot express the end of one more message, not even of an empty one."""
        with self._shared.opened() as file:
            return _size_with(file, head_size(delayed=self._delayed)) > QUEUE_POINTER_MAX

    # --- Closing ---

    @property
    def path(self) -> str:
        """The path of the file, with symbolic links resolved."""
        return self._shared.path

    def close(self) -> None:
        """Closes the file. A waiting call, and every later one, raises LogClosed. A second call does nothing."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FileQueue {self.path!r}, {'with' if self._delayed else 'without'} delays>"

    # --- How it is done ---

    def _expires_ms(self, delay: Duration | None) -> int | None:
        delay_ns, now_ns = round(checked_delay_s(delay) * NS_PER_S), self._clock.now_ns()
        if self._delayed:
            # BunnyMQ rounds the time down to whole ms. With a delay that would make the message due too early.
            return -(-(now_ns + delay_ns) // NS_PER_MS) if delay_ns else now_ns // NS_PER_MS
        if delay_ns:
            raise BadInput("this queue file stores no delays: open one with delayed=True")
        return None

    def _first_due(self, file: PointerFile) -> QueueRecord | None:
        now_ns = self._clock.now_ns()
        due = (record for record in file.records() if (record.expires_ms or 0) * NS_PER_MS <= now_ns)
        return next(due, None)

    def _take(self, file: PointerFile, record: QueueRecord) -> bytes:
        body = file.body(record)
        file.remove(record)
        self._shared.changed.notify_all()
        return body

    def _make_room(self, file: PointerFile, size: int) -> None:
        """Rewrites the file before `size` bytes are added, if that is needed to stay below the
        limit and frees enough.
        """
        pull, push = file.pointers
        size_after = _size_with(file, size)
        if size_after > QUEUE_POINTER_MAX:
            raise QueueFileFull(self.path, size, QUEUE_POINTER_MAX)
        must = push + size > QUEUE_POINTER_MAX
        # If the file would be over its limit after rewriting too, it is rewritten when half of it was taken, not at
        # every push.
        is_worth_it = size_after <= self._optimise_above or pull - QUEUE_RECORDS_AT >= push - pull
        if must or (push + size > self._optimise_above and pull > QUEUE_RECORDS_AT and is_worth_it):
            try:
                file.optimise()
            except StorageFull:
                if must:
                    raise

    def _wait(self, deadline: Deadline, too_late: Exception) -> None:
        """Releases the lock until something may have changed. Raises `too_late` when the time is up."""
        left_s = deadline.left_s(self._clock.steady_s() + QUEUE_FILE_LOOK_S)
        if not left_s:
            raise too_late
        wait(self._shared.changed, left_s)


def _size_with(file: PointerFile, size: int) -> int:
    """Returns the size of the file with `size` more bytes, and without the messages that were taken."""
    return QUEUE_RECORDS_AT + file.pointers.push - file.pointers.pull + size


def open_file(
    path: str | os.PathLike[str],
    *,
    optimise_above: int = OPTIMISE_ABOVE_DEFAULT,
    delayed: bool = True,
    durability: str = "commit",
    filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
    clock: Clock = SYSTEM_CLOCK,
) -> FileQueue:
    """Returns the queue in the file `path`, and creates the file if it does not exist.

    The file is rewritten without the taken messages when a push would bring it over `optimise_above` bytes. `delayed`
    says whether each message in it has a due time, because the file itself does not. `durability` is `commit` or `os`.
    """
    checked_count("optimise_above", optimise_above, 0, QUEUE_POINTER_MAX)
    level = Durability.parse(durability)
    if level.mode == "interval":
        raise BadInput(f"durability {durability!r}: expected 'commit' or 'os' for a queue file")
    shared = SharedFile(
        os.fspath(path), delayed=delayed, is_synced=level.mode == "commit", filesystem=filesystem, clock=clock
    )
    return FileQueue(shared, optimise_above=optimise_above, delayed=delayed, clock=clock)
