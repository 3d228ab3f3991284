"""A log of events that clients cause, limited in lines per time, so that no client can fill the disk."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

LIMITED_LOG_LINES_MAX: Final = 20
LIMITED_LOG_S: Final = 10.0
"""Each kind of event gets LIMITED_LOG_LINES_MAX lines in this many seconds."""


LOGGER: Final = logging.getLogger("warren.broker")


class LimitedLog:
    """Logs warnings of one kind, which `what` names. For the event loop's thread alone.

    In each LIMITED_LOG_S it logs the first LIMITED_LOG_LINES_MAX warnings; at the end one more line counts the others.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._logged = self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, message: str, *values: object) -> None:
        """Logs a warning, or counts it."""
        if self._logged >= LIMITED_LOG_LINES_MAX:
            self._left_out += 1
            return
        self._logged += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIMITED_LOG_S, self._begin_again)
        LOGGER.warning(message, *values)

    def _begin_again(self) -> None:
        if self._left_out:
            LOGGER.warning("%d more %s were not logged one by one", self._left_out, self._what)
        self._logged = self._left_out = 0
        self._timer = None

    def close(self) -> None:
        """Logs how many warnings were omitted, and stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin_again()
