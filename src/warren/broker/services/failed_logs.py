"""Failed logs: they accept no puts since a sync failed, and the broker tries to reopen them."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from warren.errors import WarrenError
from warren.storage.disk.open_files import Failed, process_residents

if TYPE_CHECKING:
    from warren.broker.threads import InThread
    from warren.transaction.store import Store

LOG_REOPEN_S: Final = 5.0
"""How often the broker tries to reopen failed logs."""

LOGGER: Final = logging.getLogger("warren.broker")


class FailedLogs:
    """The failed logs of one store: of partitions, groups, delays and the journal. For the event loop's thread."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self._start = os.path.join(store.path, "")

    def _failed_logs(self) -> list[Failed]:
        return [log for log in list(process_residents().failed) if log.directory.startswith(self._start)]

    def __len__(self) -> int:
        return len(self._failed_logs())

    async def watch(self) -> None:
        """Tries to reopen them every LOG_REOPEN_S, until the task is cancelled."""
        while True:
            await asyncio.sleep(LOG_REOPEN_S)
            for log in self._failed_logs():
                await self._in_thread(_reopen, log)


def _reopen(log: Failed) -> None:
    try:
        log.reopen()
    except (WarrenError, OSError) as error:
        LOGGER.warning("%s stays closed for writing: %s", log.directory, error)
    else:
        LOGGER.warning("%s was recovered after a failed sync, and takes puts again", log.directory)
