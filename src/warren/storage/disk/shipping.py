"""The way of a log's records to the other replicas of a store: what a commit asks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Laid(NamedTuple):
    """Records that were laid in a block and are not published: from `position` to `end_position`."""

    directory: str
    base_offset: int
    position: int
    end_position: int
    first: int
    end: int


class Shipping(Protocol):
    """Brings the records of a replicated store to its other replicas. Any thread may call.

    `laid` returns the number of the barrier that the records got; `synced` says that they are as durable here as they
    have to be. `when` calls back, on any thread, when a barrier is done: it is synced here, and all replicas that count
    have it. `ask_sync` makes the replicas sync what they have of a log that they do not sync by themselves. `wait`
    returns when all replicas that count have everything of this log up to now, and raises Deposed if that will never
    be. `broke` is called if what was laid cannot be published: this process must not lead any more.
    `is_of_machine` says whether the files are those of the machine, so that a thread may sync them in the background.
    """

    @property
    def epoch(self) -> int: ...
    @property
    def is_of_machine(self) -> bool: ...
    def laid(self, laid: Laid) -> int: ...
    def synced(self, barrier: int) -> None: ...
    def when(self, barrier: int, callback: Callable[[], None]) -> None: ...
    def ask_sync(self, directory: str) -> None: ...
    def wait(self, directory: str) -> None: ...
    def broke(self, directory: str, reason: str) -> None: ...
