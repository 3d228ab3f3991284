"""Wakes readers that wait for the published end to move: immediately on Linux, by polling every few ms on other
systems.

The word that a reader sleeps on is half of MessageCount in the mapped index, so one mechanism serves the threads of one
process and other processes alike. A waiting reader stores the time until which it waits, and a writer rings only before
that time. So a waiting process that is killed costs writers nothing after that time.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import platform
import sys
from collections.abc import Mapping, Sequence
from mmap import mmap
from typing import Final

from warren.clock import Clock

SLEEP_S_MAX: Final = 0.25
"""The longest single sleep.

Signals are handled between two sleeps, and a lost ring delays a reader by at most this time.
"""
POLL_S: Final = 0.002
FUTEX_NUMBERS: Final[Mapping[str, int]] = {"x86_64": 202, "aarch64": 98}
FUTEX_WAIT_ANY_NUMBER: Final = 449
"""`futex_waitv` has this number on every machine. Linux has it since 5.16."""
FUTEX_WAIT_ANY_MAX: Final = 128
FUTEX_32_BITS: Final = 2
CLOCK_MONOTONIC: Final = 1
FUTEX_WAIT: Final = 0
FUTEX_WAKE: Final = 1
WAKE_ALL: Final = 0x7FFFFFFF


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Waiter(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


@functools.cache
def _futex() -> tuple[ctypes._FuncPointer, int] | None:
    """Returns the system call and its number, or None if this machine has none that we support."""
    number = FUTEX_NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return None
    return ctypes.CDLL(None, use_errno=True).syscall, number


class Bell:
    """One word of a mapped file to sleep on and to ring. Any thread of any process may use its own Bell on it."""

    def __init__(self, view: mmap, position: int, clock: Clock, *, writable: bool) -> None:
        self._clock = clock
        self._futex = _futex() if writable else None
        # Keeps the map alive and its address valid. A read-only map has no address that ctypes can use.
        self._word = ctypes.c_uint32.from_buffer(view, position) if self._futex else None

    def value(self) -> int:
        """Returns the value to pass to `sleep`. The caller reads it before it checks whether it has to sleep."""
        return self._word.value if self._word is not None else 0

    def sleep(self, value: int, seconds: float) -> None:
        """Returns when the word is no longer `value`, when it rings, or after `seconds`: the first of these."""
        if self._futex is None or self._word is None:
            self._clock.sleep(min(POLL_S, seconds))
            return
        call, number = self._futex
        whole = min(seconds, SLEEP_S_MAX)
        timeout = _TimeSpec(0, int(whole * 1_000_000_000))
        call(number, ctypes.byref(self._word), FUTEX_WAIT, ctypes.c_uint32(value), ctypes.byref(timeout), None, 0)

    def waiter(self, value: int) -> _Waiter | None:
        """Returns the argument for `sleep_on_any`, or None if the system cannot sleep on the word."""
        if self._word is None:
            return None
        return _Waiter(value, ctypes.addressof(self._word), FUTEX_32_BITS, 0)

    def ring(self) -> None:
        """Wakes all threads and processes that sleep on the word."""
        if self._futex is not None and self._word is not None:
            call, number = self._futex
            call(number, ctypes.byref(self._word), FUTEX_WAKE, WAKE_ALL, None, None, 0)


def sleep_on_any(bells: Sequence[tuple[Bell, int]], seconds: float, clock: Clock) -> None:
    """Returns when one of the words has a value other than given, when one rings, or after `seconds`."""
    waiters = [waiter for bell, value in bells if (waiter := bell.waiter(value)) is not None]
    futex = _futex()
    if futex is None or len(waiters) < len(bells) or not 0 < len(waiters) <= FUTEX_WAIT_ANY_MAX:
        clock.sleep(min(POLL_S, seconds))
        return
    array = (_Waiter * len(waiters))(*waiters)
    end_ns = int((clock.steady_s() + seconds) * 1_000_000_000)
    timeout = _TimeSpec(end_ns // 1_000_000_000, end_ns % 1_000_000_000)
    number, count = FUTEX_WAIT_ANY_NUMBER, ctypes.c_uint(len(waiters))
    failed = futex[0](number, array, count, 0, ctypes.byref(timeout), CLOCK_MONOTONIC) == -1
    if failed and ctypes.get_errno() == errno.ENOSYS:
        clock.sleep(min(POLL_S, seconds))
