"""How long a call may wait, and the tasks that a queue waits for."""

from __future__ import annotations

import math
import threading
from typing import Final

from warren.clock import Clock, Duration, seconds_of
from warren.config import DELAY_S_MAX, WAIT_S_MAX
from warren.errors import BadInput

TICK_S: Final = 1e-6
"""The shortest wait for what is due at any moment."""


def checked_delay_s(given: Duration | None) -> float:
    """`given` in seconds, 0 for none; BadInput for what is no delay."""
    if given is None:
        return 0.0
    delay = seconds_of(given)
    if not _is_within(delay, 0, DELAY_S_MAX):
        raise BadInput(f"delay {delay!r}: expected seconds from 0 to {DELAY_S_MAX:.0f}")
    return float(delay)


def checked_count(what: str, value: object, least: float, most: float) -> int:
    """`value`, which is a whole number from `least` to `most`; else BadInput, in which `what` says what it was."""
    if not isinstance(value, int) or not _is_within(value, least, most):
        raise BadInput(f"{what} {value!r}: expected a whole number from {least} to {most}")
    return value


def _is_within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and least <= value <= most


def wait(condition: threading.Condition, seconds: float) -> None:
    """Wait until `condition` is notified, or for `seconds`. Whoever is interrupted passes the notice on."""
    try:
        condition.wait(seconds)
    except BaseException:
        condition.notify()
        raise


class Deadline:
    """Until when a call may wait: not at all, for as long as is given, or without end. As `queue.Queue` means them."""

    def __init__(self, clock: Clock, block: bool, given: Duration | None) -> None:
        self._clock, timeout = clock, seconds_of(given)
        self._end_s: float | None = None
        if not block:
            self._end_s = clock.steady_s()
        elif timeout is not None:
            if not _is_within(timeout, 0, math.inf):
                raise BadInput(f"timeout {timeout!r}: expected seconds, not less than 0, or None")
            self._end_s = clock.steady_s() + timeout

    def left_s(self, until_s: float | None = None) -> float:
        """For how long to wait at a stretch, until `until_s` at the latest; 0 when the deadline has passed."""
        now_s = self._clock.steady_s()
        left_s = WAIT_S_MAX if self._end_s is None else min(self._end_s - now_s, WAIT_S_MAX)
        if left_s <= 0:
            return 0.0
        return left_s if until_s is None else min(left_s, max(until_s - now_s, TICK_S))


class Tasks:
    """Messages that were put and are not done yet. Whoever calls holds the lock of the queue."""

    def __init__(self, lock: threading.Lock) -> None:
        self._unfinished = 0
        self._finished = threading.Condition(lock)

    def add(self) -> None:
        self._unfinished += 1

    def done(self) -> None:
        """One message is done, or was withdrawn."""
        if not self._unfinished:
            raise BadInput("task_done() was called more often than there were messages")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.notify_all()

    def join(self) -> None:
        """Return when every message is done."""
        while self._unfinished:
            wait(self._finished, WAIT_S_MAX)
