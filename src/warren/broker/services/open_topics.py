"""Opens the topics of the store on threads, nearly always before a client names them.

Opening a topic on the event loop would hold up all clients: 0.2 s for 1,000 partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from warren.errors import GONE, NoSuchTopic, WarrenError
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.threads import InThread

TOPICS_LOOK_S: Final = 1.0
"""How often the broker searches for topics that other processes created, and opens them."""

LOGGER: Final = logging.getLogger("warren.broker")


class OpenTopics:
    """The topics of one store, all of them open. For the event loop's thread alone.

    A topic takes 0.2 ms for each of its partitions to open.
    """

    def __init__(self, store: Store, in_thread: InThread) -> None:
        self._store, self._in_thread = store, in_thread
        self._failed: set[str] = set()
        self._opening: dict[str, asyncio.Future[None]] = {}

    def closed(self, names: Iterable[str | None]) -> list[str]:
        """Returns those of the names whose topics this process has not opened. Such a topic may not exist."""
        opened = self._store.opened_topic
        return list(dict.fromkeys(name for name in names if name and opened(name) is None))

    async def open(self, names: Sequence[str]) -> None:
        """Opens these topics on a thread, as far as they exist and can be opened.

        If another request opens one of them at the moment, waits for that.
        """
        waits = [opening for name in names if (opening := self._opening.get(name)) is not None]
        mine = [name for name in names if name not in self._opening]
        if mine:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._opening.update(dict.fromkeys(mine, done))
            try:
                await self._in_thread(self._open_each, mine)
            finally:
                for name in mine:
                    del self._opening[name]
                done.set_result(None)
        if waits:
            await asyncio.wait(waits)

    def _open_each(self, names: Sequence[str]) -> None:
        for name in names:
            # The handler that looks the topic up gets the error again, and answers it.
            with suppress(WarrenError, OSError):
                self._store.existing_topic(name)

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
