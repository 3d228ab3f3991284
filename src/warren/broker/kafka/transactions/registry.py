"""All transactional producers of the broker, each found by its transactional id, also after a restart."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NoReturn

from warren.broker.kafka.producers.ids import ProducerIds
from warren.broker.kafka.transactions.identities import Identities, Identity
from warren.broker.kafka.transactions.states import TransactionState
from warren.broker.kafka.transactions.transactional import Transactional
from warren.transaction.states import State as Stored

if TYPE_CHECKING:
    from warren.broker.kafka.groups.call import GroupServices

TRANSACTIONAL_IDS_LOOK_S: Final = 3600.0
"""How often the broker searches for transactional ids to forget."""

LOGGER: Final = logging.getLogger("warren.broker")


class TransactionalProducers:
    """Finds transactional producers, and hands out producer ids. For the event loop's thread alone."""

    def __init__(self, broker: GroupServices) -> None:
        self._broker = broker
        self._ids = ProducerIds(broker.store.filesystem, broker.store.path)
        self._identities = Identities(broker.store.filesystem, broker.store.path, self._ids, broker.store.clock)
        self._producers: dict[str, Transactional] = {}
        self._loading: dict[str, asyncio.Future[None]] = {}

    async def take_id(self, user: str) -> int:
        """Returns an id for a producer of this user that has no transactions."""
        return await self._broker.in_thread(self._ids.take, user)

    async def find(self, transactional_id: str) -> Transactional | None:
        """Returns the producer of this id; None if the id was never used."""
        return (await self._find_or_load(transactional_id, None))[0]

    async def open(self, transactional_id: str, timeout_ms: int, user: str) -> tuple[Transactional, bool]:
        """Returns the producer of this id, and whether it was made by this call. A new one belongs to this user."""
        producer, is_new = await self._find_or_load(transactional_id, timeout_ms, user)
        assert producer is not None
        return producer, is_new

    async def _find_or_load(
        self, transactional_id: str, timeout_ms: int | None, user: str = ""
    ) -> tuple[Transactional | None, bool]:
        while (producer := self._producers.get(transactional_id)) is None:
            loading = self._loading.get(transactional_id)
            if loading is not None:
                await asyncio.wait([loading])
                continue
            loading = self._loading[transactional_id] = asyncio.get_running_loop().create_future()
            try:
                identity, state, is_new = await self._broker.in_thread(self._load, transactional_id, timeout_ms, user)
            finally:
                del self._loading[transactional_id]
                loading.set_result(None)
            if identity is None:
                return None, False
            made = Transactional(self._broker, self._identities, identity, state)
            self._producers[transactional_id] = made
            return made, is_new
        return producer, False

    def _load(
        self, transactional_id: str, timeout_ms: int | None, user: str
    ) -> tuple[Identity | None, TransactionState, bool]:
        identity = self._identities.find(transactional_id)
        if identity is None:
            made = None if timeout_ms is None else self._identities.make(transactional_id, timeout_ms, user)
            return made, TransactionState.EMPTY, True
        if not identity.is_open:
            return identity, TransactionState.ABORTED if identity.transaction else TransactionState.EMPTY, False
        if self._broker.store.transaction_state(identity.transaction_id) in (Stored.COMMITTED, Stored.DONE):
            return identity, TransactionState.COMMITTED, False
        # It was open when a broker died, and its batches are lost. A client that continued would commit only half of
        # it.
        LOGGER.warning("transaction %s of %r was lost with its broker", identity.transaction_id, transactional_id)
        fenced = self._identities.raised(identity, timeout_ms=identity.timeout_ms, previous_epoch=identity.epoch)
        self._identities.keep(fenced)
        return fenced, TransactionState.EMPTY, False

    # --- Expiry ---

    async def watch(self) -> NoReturn:
        """Forgets, repeatedly, ids that were unused for as long as the settings say."""
        while True:
            await self.expire()
            await asyncio.sleep(TRANSACTIONAL_IDS_LOOK_S)

    async def expire(self) -> int:
        """Forgets ids that were unused for as long as the settings say. Returns their count."""
        now_ms = self._broker.store.clock.now_ns() // 1_000_000
        before_ms = now_ms - round(self._broker.settings.transactional_id_s * 1000)
        count = 0
        for transactional_id in await self._broker.in_thread(self._identities.unused, before_ms):
            count += await self._forgot(transactional_id, before_ms)
        if count:
            LOGGER.info("%d transactional ids were not used for a long time, and are forgotten", count)
        return count

    async def _forgot(self, transactional_id: str, before_ms: int) -> bool:
        producer = self._producers.get(transactional_id)
        if transactional_id in self._loading or (producer is not None and not producer.is_idle):
            return False
        # Not found while it is removed, so a request for it waits and then reads the disk.
        loading = self._loading[transactional_id] = asyncio.get_running_loop().create_future()
        self._producers.pop(transactional_id, None)
        try:
            return await self._broker.in_thread(self._identities.forget, transactional_id, before_ms)
        finally:
            del self._loading[transactional_id]
            loading.set_result(None)

    def stop(self) -> None:
        """Stops the timers. Open transactions are aborted when the store closes."""
        for producer in self._producers.values():
            producer.stop()
