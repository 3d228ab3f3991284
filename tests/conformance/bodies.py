"""The bodies that the checks put, and how long they wait for them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

PATIENCE_S: Final = 60.0
COUNT: Final = 200
PARTITIONS: Final = 4


def new_name(prefix: str) -> str:
    """Returns a name that is not in use."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def bodies() -> list[bytes]:
    return [b"message %d " % number + b"." * 100 for number in range(COUNT)]


def gathered(poll: Callable[[], Iterable[bytes]], expected: Iterable[bytes]) -> list[bytes]:
    """Returns the results of `poll` when all expected ones have come; raises AssertionError if they do not."""
    missing, collected = set(expected), list[bytes]()
    deadline = time.monotonic() + PATIENCE_S
    while missing:
        assert time.monotonic() < deadline, f"{len(missing)} messages did not come"
        for body in poll():
            collected.append(body)
            missing.discard(body)
    return collected


def until(is_so: Callable[[], object], poll: Callable[[], object] = lambda: time.sleep(0.05)) -> None:
    """Polls until the condition holds; raises AssertionError if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        poll()
