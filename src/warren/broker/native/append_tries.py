"""Appends: the appends that run now and the repeated ones, so that no try writes what another one has written."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NATIVE_RETRIED_MAX: Final = 10_000
"""How many repeated appends are remembered, in case the first try arrives later."""


class Appends:
    """The appends that run now, and those that clients repeated. For the event loop's thread alone.

    Invariant: every attempt of a repeated append checks what other attempts have written, in any order of arrival; and
    no two attempts run at the same time.
    """

    def __init__(self) -> None:
        self.under_way: dict[bytes, asyncio.Future[None]] = {}
        self.repeated: OrderedDict[bytes, None] = OrderedDict()

    @contextmanager
    def doing(self, marker: bytes) -> Iterator[None]:
        """Counts the append as running during the block."""
        ended = self.begin(marker)
        try:
            yield
        finally:
            ended()

    def begin(self, marker: bytes) -> Callable[[], None]:
        """Counts the append as running until the returned function is called."""
        done = self.under_way[marker] = asyncio.get_running_loop().create_future()

        def ended() -> None:
            if self.under_way.get(marker) is done:
                del self.under_way[marker]
            done.set_result(None)

        return ended

    def is_repeat(self, marker: bytes, *, is_retry: bool) -> bool:
        """Returns whether a part of this append may have been written before."""
        if is_retry:
            self.repeated[marker] = None
            while len(self.repeated) > NATIVE_RETRIED_MAX:
                self.repeated.popitem(last=False)
        return marker in self.repeated
