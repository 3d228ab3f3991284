"""Steps: what takes a while, told so that a thread does it in place, and an event loop without a thread in between."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from warren.client.connection import Connection
from warren.clock import Clock

P = ParamSpec("P")
R = TypeVar("R")


class Pause(NamedTuple):
    """Go on after so many seconds."""

    clock: Clock
    seconds: float


Step = Connection | Pause
"""What is to be waited for before the next step: an answer on a connection, or time."""
Steps = Generator[Step, None, R]
"""A generator whose `next` blocks for no longer than a call does that does not wait; it returns the result."""


class Hurry(Exception):
    """Thrown into steps: whoever wanted the result waits no longer. They end with what is there now."""


def run(steps: Steps[R]) -> R:
    """Take the steps here and now, and give the result."""
    try:
        while True:
            step = next(steps)
            if isinstance(step, Pause):
                step.clock.sleep(step.seconds)
    except StopIteration as end:
        result: R = end.value
        return result


def stepwise(told: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], R]:
    """A method told in steps as one that takes them in place; `steps_of` gives the steps."""

    @functools.wraps(told)
    def method(owner: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        return run(told(owner, *arguments, **options))

    method.steps = told  # type: ignore[attr-defined]
    return method


def steps_of(method: Callable[..., R]) -> Callable[..., Steps[R]]:
    """The steps of a bound method that is stepwise."""
    bound: Any = method
    return functools.partial(bound.__func__.steps, bound.__self__)
