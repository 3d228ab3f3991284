"""The only module that reads the time. Whoever needs it is handed a Clock, so that tests can hand a fake one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
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
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def steady_us(clock: Clock) -> int:
    """Steady time in µs. It never jumps, is the same in all processes, and starts anew with the machine."""
    return round(clock.steady_s() * 1_000_000)


def microseconds(when: datetime | float | int) -> int:
    """`when` as µs since the epoch: a datetime (naive ones are local time), seconds as float, or µs as int."""
    if isinstance(when, datetime):
        # In whole numbers: a datetime as a float of seconds is often a microsecond too early when cut.
        return (when.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    if isinstance(when, float):
        return round(when * 1_000_000)
    return when
