"""Looks: those who wait for the same take turns to look for what nobody tells of, the more of them the more seldom."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from warren.config import OWN_LOOK_S, OWN_LOOK_SHARED_MAX


class Looks:
    """Who waits for what. For the event loop's thread alone.

    Together those who wait for one thing look about once in OWN_LOOK_S, however many they are.
    """

    def __init__(self) -> None:
        self._waiting: Counter[Hashable] = Counter()

    @contextmanager
    def waiting(self, what: Hashable) -> Iterator[None]:
        """While somebody waits for it."""
        self._waiting[what] += 1
        try:
            yield
        finally:
            self._waiting[what] -= 1
            if not self._waiting[what]:
                del self._waiting[what]

    def pause_s(self, what: Hashable) -> float:
        """For how long one who waits for it sleeps before it looks again, if nobody wakes it."""
        return OWN_LOOK_S * min(self._waiting[what], OWN_LOOK_SHARED_MAX) * random.uniform(0.5, 1.0)
