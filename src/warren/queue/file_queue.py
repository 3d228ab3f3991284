"""The single-file queue: BunnyMQ's operations, and those of `queue.Queue`, on a queue file."""

from __future__ import annotations

import os
from queue import Empty
from types import TracebackType
from typing import Final, NamedTuple, Self

from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.config import OPTIMISE_ABOVE_DEFAULT, QUEUE_FILE_LOOK_S, Durability
from warren.errors import BadInput, QueueFileFull, StorageFull, TooLarge
from warren.queue.pointer_file import PointerFile, QueueRecord, head_size, pack_record
from warren.queue.shared_file import SharedFile
from warren.queue.waiting import Deadline, checked_count, checked_delay_s, wait
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
from warren.storage.layout import QUEUE_POINTER_MAX, QUEUE_RECORDS_AT

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

Body = bytes | bytearray | memoryview


class QueuedMessage(NamedTuple):
    """A message in a queue file. `expires_ms`, in ms since the epoch, is None in a file without delays."""

    position: int
    expires_ms: int | None
    body: bytes


class FileQueue:
    """A durable queue in one file. Any number of threads and processes may use it at once.

    What was reported done is durable, unless `durability` is `os`. Messages leave in the order of the file; one that
    is not due yet is passed over and keeps its place. Whoever waits is woken at once by another thread, and looks every
    `QUEUE_FILE_LOOK_S` what other processes did.
    """

    def __init__(self, shared: SharedFile, *, optimise_above: int, delayed: bool, clock: Clock) -> None:
        self._shared, self._optimise_above, self._delayed, self._clock = shared, optimise_above, delayed, clock
        self._unfinished = 0
        shared.start()

    # --- BunnyMQ's operations ---

    def push(self, body: Body, delay: Duration | None = None) -> None:
        """Add a message at the end, due `delay` seconds from now. QueueFileFull where the pointers cannot reach."""
        if not isinstance(body, Body):
            raise BadInput(f"a body of type {type(body).__name__}: expected bytes")
        size_max = QUEUE_POINTER_MAX - QUEUE_RECORDS_AT - head_size(delayed=self._delayed)
        if (size := memoryview(body).nbytes) > size_max:
            raise TooLarge("a body", size, size_max)
        record = pack_record(bytes(body), self._expires_ms(delay))
        with self._shared.opened() as file:
            self._make_room(file, len(record))
            file.append(record)
            self._shared.changed.notify_all()

    def pull(self) -> bytes | None:
        """Take the first message that is due; None where there is none."""
        with self._shared.opened() as file:
            record = self._first_due(file)
            return None if record is None else self._take(file, record)

    def messages(self) -> list[bytes]:
        """The bodies of all messages, due or not, the first one first. Nothing is taken."""
        return [message.body for message in self.records()]

    def records(self) -> list[QueuedMessage]:
        """All messages, due or not, with where they lie and when they are due. Nothing is taken."""
        with self._shared.opened() as file:
            return [QueuedMessage(record.position, record.expires_ms, file.body(record)) for record in file.records()]

    def optimise(self) -> None:
        """Rewrite the file without what was taken. It also happens by itself: see `optimise_above`."""
        with self._shared.opened() as file:
            file.optimise()

    @property
    def pull_pointer(self) -> int:
        """Where the first message starts."""
        with self._shared.opened() as file:
            return file.pointers.pull

    @property
    def push_pointer(self) -> int:
        """Where the next message goes."""
        with self._shared.opened() as file:
            return file.pointers.push

    # --- The methods of queue.Queue ---

    def put(
        self, item: Body, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """`push`; where the file has reached its largest size, wait for room, and raise QueueFileFull, a `Full`."""
        deadline = Deadline(self._clock, block, timeout)
        with self._shared.changed:
            while True:
                try:
                    return self.push(item, delay)
                except QueueFileFull as full:
                    self._wait(deadline, full)

    def put_nowait(self, item: Body, *, delay: Duration | None = None) -> None:
        """`put` without waiting."""
        self.put(item, block=False, delay=delay)

    def get(self, block: bool = True, timeout: Duration | None = None) -> bytes:
        """Take the first message that is due; `Empty` where none was in time. It counts as a task until `task_done`."""
        deadline = Deadline(self._clock, block, timeout)
        with self._shared.changed:
            while (body := self.pull()) is None:
                self._wait(deadline, Empty())
            self._unfinished += 1
            return body

    def get_nowait(self) -> bytes:
        """`get` without waiting."""
        return self.get(block=False)

    def task_done(self) -> None:
        """A message that `get` gave is done."""
        with self._shared.changed:
            if not self._unfinished:
                raise BadInput("task_done() was called more often than get() gave a message")
            self._unfinished -= 1
            self._shared.changed.notify_all()

    def join(self) -> None:
        """Return when the file is empty, and all that `get` gave here is done."""
        with self._shared.changed:
            while self._unfinished or not self.empty():
                wait(self._shared.changed, QUEUE_FILE_LOOK_S)

    def qsize(self) -> int:
        """How many messages are in the file, due or not."""
        with self._shared.opened() as file:
            return sum(1 for _ in file.records())

    def empty(self) -> bool:
        with self._shared.opened() as file:
            return file.pointers.pull == file.pointers.push

    def full(self) -> bool:
        """Whether the pointers cannot reach behind one more message, not even an empty one."""
        with self._shared.opened() as file:
            return _size_with(file, head_size(delayed=self._delayed)) > QUEUE_POINTER_MAX

    # --- Closing ---

    @property
    def path(self) -> str:
        """Where the file is, without links."""
        return self._shared.path

    def close(self) -> None:
        """Let go of the file. Whoever waits, and whoever calls from now on, gets LogClosed. Closing twice is fine."""
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
            # BunnyMQ cuts the time to whole ms. With a delay that would make the message due too early.
            return -(-(now_ns + delay_ns) // NS_PER_MS) if delay_ns else now_ns // NS_PER_MS
        if delay_ns:
            raise BadInput("this queue has no place for a delay; a file opened with delayed=True has")
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
        """Optimise before `size` bytes are added, where the limit asks for it and it is worth it."""
        pull, push = file.pointers
        size_after = _size_with(file, size)
        if size_after > QUEUE_POINTER_MAX:
            raise QueueFileFull(self.path, size, QUEUE_POINTER_MAX)
        must = push + size > QUEUE_POINTER_MAX
        # A file that would be over its limit all the same is rewritten when half of it is gone, not at every push.
        is_worth_it = size_after <= self._optimise_above or pull - QUEUE_RECORDS_AT >= push - pull
        if must or (push + size > self._optimise_above and pull > QUEUE_RECORDS_AT and is_worth_it):
            try:
                file.optimise()
            except StorageFull:
                if must:
                    raise

    def _wait(self, deadline: Deadline, too_late: Exception) -> None:
        """Let others in until something changed or may have; `too_late` is raised when the time is up."""
        left_s = deadline.left_s(self._clock.steady_s() + QUEUE_FILE_LOOK_S)
        if not left_s:
            raise too_late
        wait(self._shared.changed, left_s)


def _size_with(file: PointerFile, size: int) -> int:
    """How long the file would be with `size` bytes more, and without what was taken."""
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
    """The queue in the file `path`, made where there is none.

    The file is rewritten without what was taken when a push would bring it over `optimise_above` bytes. `delayed` says
    whether each message in it carries the time at which it is due: the file does not. `durability` is `commit` or `os`.
    """
    checked_count("optimise_above", optimise_above, 0, QUEUE_POINTER_MAX)
    level = Durability.parse(durability)
    if level.mode == "interval":
        raise BadInput(f"durability {durability!r}: a queue file knows 'commit' and 'os'")
    shared = SharedFile(
        os.fspath(path), delayed=delayed, is_synced=level.mode == "commit", filesystem=filesystem, clock=clock
    )
    return FileQueue(shared, optimise_above=optimise_above, delayed=delayed, clock=clock)
