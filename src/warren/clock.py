"""The only module that reads the time. Everything else gets a Clock, so that tests can pass a fake one."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeAlias, overload

from warren.errors import BadInput

Duration: TypeAlias = float | timedelta
"""A length of time as callers pass it: in seconds, or as a timedelta."""


class Clock(Protocol):
    """Wall time in nanoseconds since the epoch, steady time in seconds, and a way to sleep."""

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
    """Returns steady time in µs.

    It never jumps, is the same in all processes, and starts again when the machine starts.
    """
    return round(clock.steady_s() * 1_000_000)


def microseconds(when: datetime | float | int) -> int:
    """Returns `when` as µs since the epoch: a datetime with a zone, seconds as float, or µs as int.

    Raises BadInput for a datetime without a zone: Python takes it as local time, other systems as UTC, so a guess could
    be wrong by hours.
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise BadInput(f"{when!r} has no zone: add one, as in datetime.now(UTC) or when.astimezone()")
        # In whole numbers, because a datetime as a float of seconds is often a microsecond too early when it is rounded
        # down.
        return (when.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    if isinstance(when, float):
        return _whole(when * 1_000_000, when)
    other: object = when
    if isinstance(other, bool) or not isinstance(other, int):
        raise BadInput(f"{when!r}: expected a datetime with a zone, seconds as float, or µs as int")
    return when


def _whole(value: float, when: float) -> int:
    try:
        return round(value)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{when!r}: not a valid time") from error


@overload
def seconds_of(duration: None) -> None: ...
@overload
def seconds_of(duration: Duration) -> float: ...
def seconds_of(duration: Duration | None) -> float | None:
    """Returns a timedelta in seconds, and any other value unchanged, because the caller checks that."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
