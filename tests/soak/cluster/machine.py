"""The disk and the clock of a replica of the long run: how slow, how full and how wrong they are.

The run writes a small file, and the process of the replica maps it: `startup/sitecustomize.py` makes it call `install`
before anything else. So every sync may take longer, every file that grows may find the disk full, and the wall clock
may step. The steady clock stays as it is, because no machine's steps.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.tidy.source import ROOT, SOURCE

VARIABLE: Final = "WARREN_SOAK_MACHINE"
STARTUP: Final = Path(__file__).with_name("startup")
LAYOUT: Final = struct.Struct("<dd?")
"""`MachineState`: each field is written by one store."""


class MachineState(NamedTuple):
    """How long a sync takes more, how far the wall clock is ahead, and whether the disk is full."""

    sync_s: float = 0.0
    ahead_s: float = 0.0
    is_full: bool = False


SOUND: Final = MachineState()


class Machine:
    """The side of the run: what it sets holds in all processes that were started with `variables`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(LAYOUT.pack(*SOUND))

    @property
    def variables(self) -> dict[str, str]:
        """Returns the variables of the environment of a replica."""
        return {VARIABLE: str(self._path), "PYTHONPATH": os.pathsep.join(map(str, (STARTUP, SOURCE, ROOT)))}

    def set(self, state: MachineState) -> None:
        with self._path.open("r+b") as file:
            file.write(LAYOUT.pack(*state))


def install() -> None:
    """Makes this process a replica on such a machine, if the environment names its file."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        with open(path, "rb") as file:
            _Faults(mmap.mmap(file.fileno(), LAYOUT.size, access=mmap.ACCESS_READ)).install()


class _Faults:
    """Calls of the operating system as they are on this machine."""

    def __init__(self, state: mmap.mmap) -> None:
        self._map = state
        self._time, self._time_ns = time.time, time.time_ns
        self._fsync, self._fdatasync = os.fsync, os.fdatasync
        self._pwrite, self._posix_fallocate, self._mkdir = os.pwrite, os.posix_fallocate, os.mkdir

    @property
    def _state(self) -> MachineState:
        return MachineState(*LAYOUT.unpack_from(self._map))

    def install(self) -> None:
        system: Any = os
        clock: Any = time
        clock.time, clock.time_ns = self.now_s, self.now_ns
        system.fsync, system.fdatasync = self.fsync, self.fdatasync
        system.pwrite, system.posix_fallocate, system.mkdir = self.pwrite, self.posix_fallocate, self.mkdir

    def now_s(self) -> float:
        return self._time() + self._state.ahead_s

    def now_ns(self) -> int:
        return self._time_ns() + int(self._state.ahead_s * 1e9)

    def fsync(self, descriptor: int) -> None:
        time.sleep(self._state.sync_s)
        self._fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        time.sleep(self._state.sync_s)
        self._fdatasync(descriptor)

    def pwrite(self, descriptor: int, data: Any, position: int) -> int:
        # What was allocated before can be written on a full disk, too.
        if self._state.is_full and position + len(data) > os.fstat(descriptor).st_size:
            raise _full()
        return self._pwrite(descriptor, data, position)

    def posix_fallocate(self, descriptor: int, start: int, length: int) -> None:
        if self._state.is_full:
            raise _full()
        self._posix_fallocate(descriptor, start, length)

    def mkdir(self, path: Any, *arguments: Any, **named: Any) -> None:
        if self._state.is_full:
            raise _full()
        self._mkdir(path, *arguments, **named)


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
