"""Appends: which appends run now, and which the clients sent again, so that no try writes what another one wrote."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NATIVE_RETRIED_MAX: Final = 10_000
"""How many repeated appends are remembered, in case the first try arrives later."""


class Appends:
    """The appends that are under way, and those that were repeated. For the event loop's thread alone.

    Invariant: of an append that was repeated every try looks for what others of it have written, whichever of them
    arrives first; and no two of them are under way at once.
    """

    def __init__(self) -> None:
        self.under_way: dict[bytes, asyncio.Future[None]] = {}
        self.repeated: OrderedDict[bytes, None] = OrderedDict()

    @contextmanager
    def doing(self, marker: bytes) -> Iterator[None]:
        """Counts the append as under way during the block."""
        ended = self.begin(marker)
        try:
            yield
        finally:
            ended()

    def begin(self, marker: bytes) -> Callable[[], None]:
        """Counts the append as under way until the function that this returns is called."""
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
