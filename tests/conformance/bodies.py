"""What the checks put, and how long they wait for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

PATIENCE_S: Final = 60.0
COUNT: Final = 200
PARTITIONS: Final = 4


def new_name(what: str) -> str:
    """Returns a name that is not in use."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


def bodies() -> list[bytes]:
    return [b"message %d " % number + b"." * 100 for number in range(COUNT)]


def gathered(poll: Callable[[], Iterable[bytes]], wanted: Iterable[bytes]) -> list[bytes]:
    """What `poll` gives, until everything that is wanted came; AssertionError where it does not come."""
    missing, found = set(wanted), list[bytes]()
    deadline = time.monotonic() + PATIENCE_S
    while missing:
        assert time.monotonic() < deadline, f"{len(missing)} messages did not come"
        for body in poll():
            found.append(body)
            missing.discard(body)
    return found


def until(is_so: Callable[[], object], poll: Callable[[], object] = lambda: time.sleep(0.05)) -> None:
    """Poll until it is so; AssertionError where it does not come to that."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        poll()
