"""Pauses of the event loop: how much later than asked for it comes back, measured all the time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from warren.broker.metrics import SECONDS_BOUNDS, Histogram
from warren.config import LOOP_LOOK_S, LOOP_PAUSE_LOGGED_S

LOGGER: Final = logging.getLogger("warren.broker")


class Pauses:
    """Measures for how long nothing is answered. For the event loop's thread alone."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.seconds = Histogram(SECONDS_BOUNDS)
        self.longest_s = 0.0
        """Since the start of the broker."""

    async def watch(self) -> None:
        """Sleeps again and again, and notes how much longer that took than asked for."""
        while True:
            begun_s = self._now_s()
            await asyncio.sleep(LOOP_LOOK_S)
            self.note(self._now_s() - begun_s - LOOP_LOOK_S)

    def note(self, pause_s: float) -> None:
        """The loop came back so much later."""
        pause_s = max(pause_s, 0.0)
        self.seconds.add(pause_s)
        self.longest_s = max(self.longest_s, pause_s)
        if pause_s >= LOOP_PAUSE_LOGGED_S:
            LOGGER.warning("the event loop stood still for %.0f ms", pause_s * 1000)
