"""How many files a process keeps open, over all of its logs: the limit is the process's, so this is too."""

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
    """Something that holds open files and can give them up, to open them again when it needs them."""

    @property
    def file_count(self) -> int:
        """How many files it holds right now."""
        ...

    def rest(self) -> bool:
        """Give up the files; False if they are in use."""
        ...

    def after_fork(self) -> None:
        """This process is a child now: what the parent holds, it does not."""
        ...


class Failed(Protocol):
    """A log that closed itself for writing because a sync failed."""

    @property
    def directory(self) -> str: ...

    def reopen(self) -> None:
        """Recovers the log, so that it takes puts again. Raises SyncFailed if the disk still refuses."""
        ...


class Residents:
    """The logs that hold open files. The one that came first closes its files first. Any thread may call."""

    def __init__(self, files_max: int) -> None:
        self._files_max = files_max
        self._everybody: weakref.WeakSet[Resident] = weakref.WeakSet()
        self.failed: weakref.WeakSet[Failed] = weakref.WeakSet()
        """The logs of this process that take no puts since a sync failed."""
        self._reset()

    def _reset(self) -> None:
        # A resident may be collected, and so leave, while this very thread holds the lock.
        self._lock = threading.RLock()
        self._order: OrderedDict[int, tuple[weakref.ref[Resident], int]] = OrderedDict()
        self._open = 0

    def register(self, resident: Resident) -> None:
        """Registers `resident`: its `after_fork` is called in a forked child, whether it holds files or not."""
        self._everybody.add(resident)

    def admit(self, resident: Resident) -> None:
        """`resident` opened or gave up files; if there are too many in all, others give up theirs."""
        key, count = id(resident), resident.file_count
        with self._lock:
            reference, count_before = self._order.get(key, (None, 0))
            reference = reference or weakref.ref(resident, lambda _: self._take_out(key))
            self._order[key] = (reference, count)
            self._open += count - count_before
            excess = self._open - self._files_max
            # Taken off in one go: a resident that is collected meanwhile leaves the order.
            order = list(self._order.values()) if excess > 0 else []
            candidates = [known() for known, _ in order]
        for candidate in candidates:
            if self._open <= self._files_max:
                return
            if candidate is not None and candidate is not resident and candidate.rest():
                self._take_out(id(candidate))

    def leave(self, resident: Resident) -> None:
        """`resident` gave up all its files."""
        self._take_out(id(resident))

    def _take_out(self, key: int) -> None:
        with self._lock:
            _, count = self._order.pop(key, (None, 0))
            self._open -= count

    def after_fork(self) -> None:
        """Every log of this process starts without files. Each is called, even if another one fails."""
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
    """The residents of this process."""
    soft_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    residents = Residents(max(16, min(FILES_MAX, soft_max // 2 // DESCRIPTORS_PER_FILE)))
    os.register_at_fork(after_in_child=residents.after_fork)
    return residents
