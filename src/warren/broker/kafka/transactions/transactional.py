"""One producer with a transactional id: checks its clients, and holds its one open transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.positions import Position
from warren.broker.kafka.producers.registry import put_once
from warren.broker.kafka.producers.sequences import Sequences
from warren.broker.kafka.transactions.identities import NO_EPOCH, Identities, Identity
from warren.broker.kafka.transactions.open_transaction import OpenTransaction, TransactionPartition
from warren.broker.kafka.transactions.states import TransactionEvent, TransactionState, next_state
from warren.errors import TransactionAborted, TransactionError, WarrenError
from warren.protocol.kafka.delayed_records import Split
from warren.protocol.kafka.record_batch import RecordBatch
from warren.queue.topic import Topic

if TYPE_CHECKING:
    from warren.broker.kafka.groups.call import GroupServices

LOGGER: Final = logging.getLogger("warren.broker")
MS: Final = 1000
GRACE_S: Final = 60.0
"""How much longer Warren's own transaction lasts, because the broker decides when the time of the Kafka one is up."""
LOOK_S: Final = 1.0


class Transactional:
    """A transactional producer. For the event loop's thread alone.

    Invariant: while the broker waits for the disk, `state` or `is_changing` says so, and nothing else begins. If a
    transaction is lost without its producer's request, the epoch ends with it, so that no half of it is ever committed.
    """

    def __init__(
        self, broker: GroupServices, identities: Identities, identity: Identity, state: TransactionState
    ) -> None:
        self._broker, self._identities = broker, identities
        self.identity, self.state = identity, state
        self._open: OpenTransaction | None = None
        self._sequences: dict[TransactionPartition, Sequences] = {}
        self._puts: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_changing = False

    def check(self, producer_id: int, epoch: int) -> Code:
        """Returns NONE if producer id and epoch are those of this producer, or else the error."""
        if producer_id != self.identity.producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING
        return Code.NONE if epoch == self.identity.epoch else Code.PRODUCER_FENCED

    @property
    def is_idle(self) -> bool:
        """Returns whether it has no transaction and no request waits for the disk."""
        return not self._is_changing and self.state in (
            TransactionState.EMPTY,
            TransactionState.COMMITTED,
            TransactionState.ABORTED,
        )

    # --- Identity ---

    async def init(self, timeout_ms: int, producer_id: int, epoch: int) -> Code:
        """Takes over: aborts an open transaction, and fences the previous client. With `epoch`, only if it matches.

        A client that repeats the request, because the answer was lost, gets the same epoch.
        """
        if self._is_changing or self.state in (
            TransactionState.BEGINNING,
            TransactionState.COMMITTING,
            TransactionState.ABORTING,
        ):
            return Code.CONCURRENT_TRANSACTIONS
        mine = self.identity
        if epoch != NO_EPOCH:
            if producer_id != mine.producer_id or epoch not in (mine.epoch, mine.previous_epoch):
                return Code.PRODUCER_FENCED
            if epoch == mine.previous_epoch:
                return Code.NONE
        await self._change(lambda: self._raise(timeout_ms, epoch))
        return Code.NONE

    async def _change(self, work: Callable[[], Awaitable[None]]) -> None:
        self._is_changing = True
        try:
            await work()
        finally:
            self._is_changing = False

    async def _raise(self, timeout_ms: int, previous_epoch: int) -> None:
        """Aborts the open transaction, and continues with the next epoch and no transaction."""
        opened, self._open = self._stop_putting(), None
        # The previous client is fenced from here on, also while the broker waits for the disk.
        self.state = TransactionState.EMPTY if opened is None else TransactionState.ABORTED
        await self._put_all()
        if opened is not None:
            await self._broker.in_thread(_abort, opened)
        self.identity = await self._broker.in_thread(
            lambda: self._identities.raised(self.identity, timeout_ms=timeout_ms, previous_epoch=previous_epoch)
        )
        self.state = TransactionState.EMPTY
        # If this fails, the previous clients stay fenced until the broker ends. The next broker finds the transaction
        # open.
        await self._broker.in_thread(self._identities.keep, self.identity)

    # --- Adding ---

    async def add(self, partitions: Mapping[TransactionPartition, Topic], groups: set[str]) -> Code:
        """Adds partitions and groups to the transaction, which is begun if none is open."""
        error = await self._begin()
        if error is not Code.NONE or self._open is None:
            return error
        for partition, topic in partitions.items():
            self._open.partitions.add(partition)
            self._open.logs[partition] = topic.partition(partition.number)
        self._open.groups |= groups
        return Code.NONE

    async def _begin(self) -> Code:
        if self._is_changing:
            return Code.CONCURRENT_TRANSACTIONS
        state = next_state(self.state, TransactionEvent.ADD)
        if isinstance(state, Code) or state is TransactionState.OPEN:
            return state if isinstance(state, Code) else Code.NONE
        self.state, event = state, TransactionEvent.FAIL
        try:
            self._open = await self._broker.in_thread(self._begin_on_disk)
            event = TransactionEvent.FINISH
        except WarrenError as error:
            return code_of(error)
        finally:
            self._go_on(event)
        self._arm(self.identity.timeout_ms / MS)
        return Code.NONE

    def _begin_on_disk(self) -> OpenTransaction:
        # On disk first, because a broker that starts again must know that this was open when it died.
        begun = self.identity.begun()
        self._identities.keep(begun)
        self.identity = begun
        timeout_s = begun.timeout_ms / MS + GRACE_S
        return OpenTransaction(self._broker.store.transaction(timeout=timeout_s, id=begun.transaction_id))

    def _go_on(self, event: TransactionEvent) -> None:
        state = next_state(self.state, event)
        assert isinstance(state, TransactionState)
        self.state = state

    async def put(
        self, topic: Topic, partition: int, batch: RecordBatch, split: Split | None = None
    ) -> tuple[Code, int]:
        """Stores a batch until the commit. Returns the number that its first message would get at a commit now.

        The delayed messages of a `split` batch are parked at the commit.
        """
        opened, place = self._open, TransactionPartition(topic.name, partition)
        error = self.check(batch.head.producer_id, batch.head.producer_epoch)
        if error is not Code.NONE:
            return Code.INVALID_PRODUCER_EPOCH if error is Code.PRODUCER_FENCED else error, -1
        if (
            self.state is not TransactionState.OPEN
            or self._is_changing
            or opened is None
            or place not in opened.partitions
        ):
            return Code.INVALID_TXN_STATE, -1
        sequences = self._sequences.setdefault(place, Sequences())
        try:
            return await put_once(sequences, batch.head, lambda: self._put(opened, topic, place, batch, split))
        except TransactionError:
            return Code.INVALID_TXN_STATE, -1

    async def _put(
        self,
        opened: OpenTransaction,
        topic: Topic,
        place: TransactionPartition,
        batch: RecordBatch,
        split: Split | None,
    ) -> int:
        if opened is not self._open:
            # The transaction ended while this call waited for another batch.
            raise TransactionAborted(self.identity.transaction_id)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._puts.add(done)
        try:
            await self._broker.in_thread(opened.put, topic, place.number, batch.data, split)
        finally:
            self._puts.discard(done)
            done.set_result(None)
        number = opened.logs[place].end + opened.waiting[place]
        opened.waiting[place] += batch.head.record_count - (len(split.delayed) if split is not None else 0)
        return number

    async def commit_positions(self, topic: Topic, group: str, positions: Mapping[int, Position]) -> Code:
        """Adds the positions that the group gets at the commit."""
        opened = self._open
        if self.state is not TransactionState.OPEN or self._is_changing or opened is None or group not in opened.groups:
            return Code.INVALID_TXN_STATE
        self._broker.positions.will_move(opened, topic.name, group, positions)
        await self._broker.in_thread(opened.commit_positions, topic, group, positions)
        return Code.NONE

    # --- Ending ---

    async def end(self, *, is_committed: bool) -> Code:
        """Commits or aborts the transaction. A repeated request gets the same answer."""
        if self._is_changing:
            return Code.CONCURRENT_TRANSACTIONS
        state = next_state(self.state, TransactionEvent.COMMIT if is_committed else TransactionEvent.ABORT)
        if isinstance(state, Code) or state is self.state:
            return state if isinstance(state, Code) else Code.NONE
        self.state, event = state, TransactionEvent.FAIL
        opened, self._open = self._stop_putting(), None
        try:
            await self._put_all()
            if opened is not None:
                await (self._commit(opened) if is_committed else self._abort(opened))
            event = TransactionEvent.FINISH
        except WarrenError as error:
            LOGGER.warning("transaction %s was aborted: %s", self.identity.transaction_id, error)
            return Code.INVALID_TXN_STATE
        finally:
            self._go_on(event)
        return Code.NONE

    async def _commit(self, opened: OpenTransaction) -> None:
        try:
            await self._broker.in_thread(opened.commit, self._broker.positions)
        except WarrenError:
            await self._abort(opened)
            raise
        for log in opened.grown():
            self._broker.long_polls.ring(log)

    async def _abort(self, opened: OpenTransaction) -> None:
        await self._broker.in_thread(_abort, opened)
        self.identity = self.identity.aborted()
        await self._broker.in_thread(self._identities.keep, self.identity)

    def _stop_putting(self) -> OpenTransaction | None:
        if self._timer is not None:
            self._timer.cancel()
        return self._open

    async def _put_all(self) -> None:
        if self._puts:
            await asyncio.wait(self._puts)

    # --- Timeout ---

    def _arm(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.state is TransactionState.OPEN and not self._is_changing and not self._broker.is_stopping:
            self._broker.tasks.create_task(self._expired())
        elif self._open is not None:
            self._arm(LOOK_S)

    async def _expired(self) -> None:
        mine = self.identity
        LOGGER.warning("transaction %s of %r timed out", mine.transaction_id, mine.transactional_id)
        try:
            await self._change(lambda: self._raise(mine.timeout_ms, mine.epoch))
        except (WarrenError, OSError):
            LOGGER.exception("the producer %r could not be fenced", mine.transactional_id)

    def stop(self) -> None:
        """Stops the timer of the transaction."""
        if self._timer is not None:
            self._timer.cancel()


def _abort(opened: OpenTransaction) -> None:
    try:
        opened.abort()
    except TransactionError:
        # The transaction was lost before, without a request.
        return
