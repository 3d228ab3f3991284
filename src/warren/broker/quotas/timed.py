"""Timed: how long an awaitable keeps the event loop busy, not how long it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Timed(Generic[T]):
    """Gives what `work` gives, and tells `spend` of the seconds of each of its steps."""

    def __init__(self, work: Awaitable[T], now: Callable[[], float], spend: Callable[[float], None]) -> None:
        self._work, self._now, self._spend = work, now, spend

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        failure: BaseException | None = None
        while True:
            begun_s = self._now()
            try:
                wanted = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as done:
                found: T = done.value
                return found
            finally:
                self._spend(self._now() - begun_s)
            failure = None
            try:
                yield wanted
            except BaseException as error:  # noqa: BLE001  # Also a cancellation is for the work.
                failure = error
