"""How long a call may wait, and the tasks that a queue waits for."""

from __future__ import annotations

import threading
from typing import Final

from warren.clock import Clock, Duration, seconds_of
from warren.errors import BadInput
from warren.limits import DELAY_S_MAX, WAIT_S_MAX

TICK_S: Final = 1e-6
"""The shortest wait for something that is due at any moment."""


def checked_delay_s(duration: Duration | None) -> float:
    """Returns a delay in seconds, 0 for None. Raises BadInput if it is not valid."""
    if duration is None:
        return 0.0
    delay = seconds_of(duration)
    if not _is_within(delay, 0, DELAY_S_MAX):
        raise BadInput(f"delay {delay!r}: expected seconds from 0 to {DELAY_S_MAX:.0f}")
    return float(delay)


def checked_count(what: str, value: object, least: float, most: float) -> int:
    """Returns `value` if it is an integer from `least` to `most`. Otherwise raises BadInput, which names `what`."""
    if not isinstance(value, int) or not _is_within(value, least, most):
        raise BadInput(f"{what} {value!r}: expected a whole number from {least} to {most}")
    return value


def _is_within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and least <= value <= most


def wait(condition: threading.Condition, seconds: float) -> None:
    """Waits until `condition` is notified, or for `seconds`. If it is interrupted, it passes the notification on."""
    try:
        condition.wait(seconds)
    except BaseException:
        condition.notify()
        raise


class Deadline:
    """How long a call may wait: not at all, for some time, or without a limit. Parameters as in `queue.Queue`."""

    def __init__(self, clock: Clock, block: bool, duration: Duration | None) -> None:
        self._clock = clock
        # The value may have any type, because callers need not check types.
        timeout: object = seconds_of(duration)
        self._end_s: float | None = None
        if not block:
            self._end_s = clock.steady_s()
        elif timeout is not None:
            if not isinstance(timeout, int | float) or not timeout >= 0:
                raise BadInput(f"timeout {timeout!r}: expected seconds, not less than 0, or None")
            self._end_s = clock.steady_s() + timeout

    def left_s(self, until_s: float | None = None) -> float:
        """Returns how long to wait now, until `until_s` at the latest: 0 if the deadline has passed."""
        now_s = self._clock.steady_s()
        left_s = WAIT_S_MAX if self._end_s is None else min(self._end_s - now_s, WAIT_S_MAX)
        if left_s <= 0:
            return 0.0
        return left_s if until_s is None else min(left_s, max(until_s - now_s, TICK_S))


class Tasks:
    """Messages that were put and are not done yet. The caller holds the lock of the queue."""

    def __init__(self, lock: threading.Lock) -> None:
        self._unfinished = 0
        self._finished = threading.Condition(lock)

    def add(self) -> None:
        self._unfinished += 1

    def done(self) -> None:
        """Marks one message as done or withdrawn."""
        if not self._unfinished:
            raise BadInput("task_done() was called more often than there were messages")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.notify_all()

    def join(self) -> None:
        """Returns when every message is done."""
        while self._unfinished:
            wait(self._finished, WAIT_S_MAX)
