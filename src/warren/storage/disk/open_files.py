"""Keeps the process below its descriptor limit: when too many files are open, other logs close theirs."""

from __future__ import annotations

import functools
import os
import resource
import threading
import weakref
from collections import OrderedDict
from typing import Final, Protocol

FILES_MAX: Final = 1024
DESCRIPTORS_PER_FILE: Final = 2
"""A mapped file has two: its own, and the one that Python's mmap keeps."""


class Resident(Protocol):
    """An object with open files that it can close at any time, because it reopens them on demand."""

    @property
    def file_count(self) -> int:
        """How many files are open now."""
        ...

    def rest(self) -> bool:
        """Closes the files. Returns False, and keeps the files open, if they are in use."""
        ...

    def after_fork(self) -> None:
        """Resets the object in a forked child, which does not own the files and locks of its parent."""
        ...


class Failed(Protocol):
    """A log that closed itself for writing because a sync failed."""

    @property
    def directory(self) -> str: ...

    def reopen(self) -> None:
        """Recovers the log, so that it accepts puts again. Raises SyncFailed if the disk still refuses."""
        ...


class _Resting(threading.local):
    """Whether this thread lets residents close their files."""

    is_under_way = False


class Residents:
    """The logs with open files. When files must be closed, the log that opened its files first closes them first.

    Any thread may call.
    """

    def __init__(self, files_max: int) -> None:
        self._files_max = files_max
        self._everybody: weakref.WeakSet[Resident] = weakref.WeakSet()
        self.failed: weakref.WeakSet[Failed] = weakref.WeakSet()
        """The logs of this process that refuse puts because a sync failed."""
        self._reset()

    def _reset(self) -> None:
        # Reentrant, because a resident may be garbage-collected, and so leave, while this thread holds the lock.
        self._lock = threading.RLock()
        self._order: OrderedDict[int, tuple[weakref.ref[Resident], int]] = OrderedDict()
        self._open = 0
        self._resting = _Resting()

    def register(self, resident: Resident) -> None:
        """Registers `resident`, so that its `after_fork` is called in a forked child even if it has no open files."""
        self._everybody.add(resident)

    def admit(self, resident: Resident) -> None:
        """Counts the files of `resident` again. If the process has too many open, other residents close theirs.

        A resident may open files in order to close: those are counted, and let no further resident close.
        """
        key, count = id(resident), resident.file_count
        with self._lock:
            reference, count_before = self._order.get(key, (None, 0))
            reference = reference or weakref.ref(resident, lambda _: self._take_out(key))
            self._order[key] = (reference, count)
            self._open += count - count_before
            excess = self._open - self._files_max
            # Copied in one step, because a resident that is garbage-collected in between leaves the order.
            order = list(self._order.values()) if excess > 0 else []
            candidates = [each() for each, _ in order]
        if not candidates or self._resting.is_under_way:
            return
        self._resting.is_under_way = True
        try:
            for candidate in candidates:
                if self._open <= self._files_max:
                    return
                if candidate is not None and candidate is not resident and candidate.rest():
                    self._take_out(id(candidate))
        finally:
            self._resting.is_under_way = False

    def leave(self, resident: Resident) -> None:
        """Notes that `resident` closed all its files."""
        self._take_out(id(resident))

    def _take_out(self, key: int) -> None:
        with self._lock:
            _, count = self._order.pop(key, (None, 0))
            self._open -= count

    def after_fork(self) -> None:
        """Resets every log of a forked child. Calls each of them even if another one fails."""
        self._reset()
        errors: list[BaseException] = []
        for resident in list(self._everybody):
            try:
                resident.after_fork()
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
        if errors:
            raise errors[0]


@functools.cache
def process_residents() -> Residents:
    """Returns the residents of this process."""
    soft_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    residents = Residents(max(16, min(FILES_MAX, soft_max // 2 // DESCRIPTORS_PER_FILE)))
    os.register_at_fork(after_in_child=residents.after_fork)
    return residents
