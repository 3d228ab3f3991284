"""InThread: runs blocking work on a thread of the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs `work` on a thread. Awaiting the result gives what `work` returns or raises."""

    def __call__(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Awaitable[T]: ...
