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

    def rest(self) -> int:
        """Give up the files; how many that were. 0 where they are in use."""
        ...

    def after_fork(self) -> None:
        """This process is a child now: what the parent holds, it does not."""
        ...


class Residents:
    """Who holds open files. Whoever was let in first is asked first to give them up. Any thread may call."""

    def __init__(self, files_max: int) -> None:
        self._files_max, self._open = files_max, 0
        self._lock = threading.Lock()
        self._order: OrderedDict[int, weakref.ref[Resident]] = OrderedDict()

    def admit(self, resident: Resident, files: int = 1) -> None:
        """`resident` opened files; where that is too many in all, others give up theirs."""
        with self._lock:
            self._open += files
            if id(resident) not in self._order:
                self._order[id(resident)] = weakref.ref(resident, functools.partial(self._forget, id(resident)))
            excess = self._open - self._files_max
        if excess > 0:
            self._make_room(resident)

    def _make_room(self, admitted: Resident) -> None:
        with self._lock:
            candidates = [reference() for reference in self._order.values()]
        for candidate in candidates:
            if self._open <= self._files_max:
                return
            if candidate is not None and candidate is not admitted:
                self.leave(candidate, candidate.rest())

    def leave(self, resident: Resident, files: int) -> None:
        """`resident` gave up its files."""
        if files:
            with self._lock:
                self._open = max(0, self._open - files)
                self._order.pop(id(resident), None)

    def _forget(self, key: int, _: weakref.ref[Resident]) -> None:
        self._order.pop(key, None)

    def after_fork(self) -> None:
        """Every resident of this process starts without files."""
        self._lock = threading.Lock()
        residents = [reference() for reference in self._order.values()]
        self._order.clear()
        self._open = 0
        for resident in residents:
            if resident is not None:
                resident.after_fork()


@functools.cache
def process_residents() -> Residents:
    """The residents of this process."""
    soft_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    residents = Residents(max(16, min(FILES_MAX, soft_max // 2 // DESCRIPTORS_PER_FILE)))
    os.register_at_fork(after_in_child=residents.after_fork)
    return residents
