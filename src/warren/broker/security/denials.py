"""The log of refused requests: one line for each, and no more lines in a while than a disk has room for."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from warren.broker.peer import Peer
from warren.config import DENIALS_LOG_S, DENIALS_LOGGED_MAX
from warren.errors import NoRight

LOGGER: Final = logging.getLogger("warren.broker")


class Denials:
    """Logs what users had no right to. For the event loop's thread alone.

    Of each DENIALS_LOG_S it logs the first DENIALS_LOGGED_MAX; at the end one more line counts those left out.
    """

    def __init__(self) -> None:
        self._logged = self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, peer: Peer, error: NoRight) -> None:
        """Log a denial, or count it."""
        if self._logged >= DENIALS_LOGGED_MAX:
            self._left_out += 1
            return
        self._logged += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DENIALS_LOG_S, self._begin_again)
        LOGGER.warning("denied to %s: %s", peer, error)

    def _begin_again(self) -> None:
        if self._left_out:
            LOGGER.warning("%d more requests were denied, and not logged one by one", self._left_out)
        self._logged = self._left_out = 0
        self._timer = None

    def close(self) -> None:
        """Log how many are left out, and wait for nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin_again()
