"""Failed logs: those that take no puts since a sync failed, which the broker reopens by itself."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from warren.config import LOG_REOPEN_S
from warren.errors import WarrenError
from warren.storage.residents import Failed, process_residents

if TYPE_CHECKING:
    from warren.broker.broker import Broker

LOGGER: Final = logging.getLogger("warren.broker")


class FailedLogs:
    """The failed logs of one store: of partitions, groups, delays and the journal. For the event loop's thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._start = os.path.join(broker.store.path, "")

    def _found(self) -> list[Failed]:
        return [log for log in list(process_residents().failed) if log.directory.startswith(self._start)]

    def __len__(self) -> int:
        return len(self._found())

    async def watch(self) -> None:
        """Tries to reopen them every LOG_REOPEN_S, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOG_REOPEN_S)
            for log in self._found():
                await self._broker.in_thread(_reopen, log)


def _reopen(log: Failed) -> None:
    try:
        log.reopen()
    except (WarrenError, OSError) as error:
        LOGGER.warning("%s stays closed for writing: %s", log.directory, error)
    else:
        LOGGER.warning("%s was recovered after a failed sync, and takes puts again", log.directory)
