"""The only module that reads the time. Whoever needs it is handed a Clock, so that tests can hand a fake one."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final, Protocol


class Clock(Protocol):
    """Wall time in nanoseconds since the epoch, steady time in seconds, and a way to let time pass."""

    def now_ns(self) -> int: ...
    def steady_s(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    now_ns = staticmethod(time.time_ns)
    steady_s = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


SYSTEM_CLOCK: Final = SystemClock()


def microseconds(when: datetime | float | int) -> int:
    """`when` as µs since the epoch: a datetime (naive ones are local time), seconds as float, or µs as int."""
    if isinstance(when, datetime):
        return int(when.timestamp() * 1_000_000)
    if isinstance(when, float):
        return int(when * 1_000_000)
    return when
