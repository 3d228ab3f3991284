"""Measures how long an awaitable keeps the event loop busy, without the time that it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Timed(Generic[T]):
    """Returns what `work` returns, and calls `spend` with the seconds of each of its steps."""

    def __init__(self, work: Awaitable[T], now: Callable[[], float], spend: Callable[[float], None]) -> None:
        self._work, self._now, self._spend = work, now, spend

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        failure: BaseException | None = None
        while True:
            begun_s = self._now()
            try:
                awaited = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._spend(self._now() - begun_s)
            failure = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  # A cancellation goes to the work, too.
                failure = error
