"""Opens every topic of the store on a thread before a client names it, because opening would block the event loop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from warren.errors import GONE, NoSuchTopic, WarrenError
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.threads import InThread

TOPICS_LOOK_S: Final = 1.0
"""How often the broker looks for topics that other processes made, and opens them."""

LOGGER: Final = logging.getLogger("warren.broker")


class OpenTopics:
    """The topics of one store, all of them open. A topic takes 0.2 ms for each of its partitions to open."""

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store, self._in_thread = store, in_thread
        self._failed: set[str] = set()

    async def look(self) -> None:
        """Opens the topics that are not open yet. One that cannot be opened is logged once, and left to its clients."""
        await self._in_thread(self._open_all, self._store)

    async def watch(self) -> None:
        """Opens what other processes make, every TOPICS_LOOK_S, until the task is cancelled."""
        while True:
            await asyncio.sleep(TOPICS_LOOK_S)
            await self.look()

    def _open_all(self, store: Store) -> None:
        names = store.topics()
        self._failed.intersection_update(names)
        for name in names:
            if store.opened_topic(name) is not None or name in self._failed:
                continue
            try:
                store.existing_topic(name)
            except (NoSuchTopic, *GONE):
                continue
            except (WarrenError, OSError) as error:
                self._failed.add(name)
                LOGGER.warning("topic %s cannot be opened: %s", name, error)
