"""Shares polling: if N requests wait for the same queue group, each polls N times less often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from warren.broker.native.limits import NATIVE_LOOK_S

NATIVE_LOOK_SHARED_MAX: Final = 20
"""Upper bound on the sharing: beyond 20 waiting requests the poll rate grows again."""


class PollSharing:
    """Counts the requests that wait for the same thing. For the event loop's thread alone.

    Together they poll about once per NATIVE_LOOK_S; beyond NATIVE_LOOK_SHARED_MAX requests the rate grows again.
    """

    def __init__(self) -> None:
        self._waiting: Counter[Hashable] = Counter()

    @contextmanager
    def waiting(self, key: Hashable) -> Iterator[None]:
        """Counts one request that waits for `key`, for the length of the block."""
        self._waiting[key] += 1
        try:
            yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def pause_s(self, key: Hashable) -> float:
        """Returns how long a request that waits for `key` sleeps before it polls, if no log wakes it."""
        return NATIVE_LOOK_S * min(self._waiting[key], NATIVE_LOOK_SHARED_MAX) * random.uniform(0.5, 1.0)
