"""Steps: a call that waits, written as a generator.

A thread runs it in place; an event loop awaits it without a thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from warren.client.net.connection import Connection
from warren.clock import Clock

P = ParamSpec("P")
R = TypeVar("R")


class Pause(NamedTuple):
    """A step that waits for a number of seconds."""

    clock: Clock
    seconds: float


CallStep = Connection | Pause
"""What the generator waits for before its next step: an answer on a connection, or a pause."""
Steps = Generator[CallStep, None, R]
"""A generator that returns the result. Its `next` blocks no longer than a call that does not wait."""


class Hurry(Exception):
    """Thrown into steps when the caller stops waiting. The steps end with the result that they have so far."""


def run(steps: Steps[R]) -> R:
    """Runs the steps in this thread, including the waits, and returns their result."""
    try:
        while True:
            step = next(steps)
            if isinstance(step, Pause):
                step.clock.sleep(step.seconds)
    except StopIteration as end:
        result: R = end.value
        return result


def stepwise(make_steps: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], R]:
    """Turns a method that returns steps into one that runs them. `steps_of` returns the steps of such a method."""

    @functools.wraps(make_steps)
    def method(owner: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        return run(make_steps(owner, *arguments, **options))

    method.steps = make_steps  # type: ignore[attr-defined]
    return method


def steps_of(method: Callable[..., R]) -> Callable[..., Steps[R]]:
    """Returns the function that makes the steps of a bound `stepwise` method."""
    bound: Any = method
    return functools.partial(bound.__func__.steps, bound.__self__)
