"""Pauses of the event loop: measures how late it runs a timer, all the time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from warren.broker.services.metrics import SECONDS_BOUNDS, Histogram

LOOP_LOOK_S: Final = 0.1
LOOP_PAUSE_LOGGED_S: Final = 0.5
"""How often the pauses are measured, and the length from which on a pause is logged."""

LOGGER: Final = logging.getLogger("warren.broker")


class Pauses:
    """Measures how long the event loop is blocked. For the event loop's thread alone."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.seconds = Histogram(SECONDS_BOUNDS)
        self.longest_s = 0.0
        """Since the start of the broker."""

    async def watch(self) -> None:
        """Sleeps again and again, and notes how late each sleep ends."""
        while True:
            begun_s = self._now_s()
            await asyncio.sleep(LOOP_LOOK_S)
            self.note(self._now_s() - begun_s - LOOP_LOOK_S)

    def note(self, pause_s: float) -> None:
        """Counts a pause, and logs a long one."""
        pause_s = max(pause_s, 0.0)
        self.seconds.add(pause_s)
        self.longest_s = max(self.longest_s, pause_s)
        if pause_s >= LOOP_PAUSE_LOGGED_S:
            LOGGER.warning("the event loop stood still for %.0f ms", pause_s * 1000)
