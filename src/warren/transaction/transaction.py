"""Transaction: messages for any topics, positions and acknowledgements, which happen together or not at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar, Unpack
from uuid import uuid4

from warren import api
from warren.api.values import ColumnOptions, MessageFields, When
from warren.clock import Duration
from warren.errors import GONE, BadInput, NoSuchTopic
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.routing import rows_by_partition
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.ownership import OwnedPartition
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch
from warren.storage.format.record import check_bodies, check_sequence
from warren.transaction.journal_entry import GroupName, LogName, Target
from warren.transaction.pending_rows import PackWith, PendingRow, PendingRows, RecordLimits
from warren.transaction.states import Event, State, next_state

if TYPE_CHECKING:
    import pyarrow

    from warren.queue.store import Store

TRANSACTION_MEMORY_MAX: Final = 8 << 20
"""How many bytes of an open transaction are kept in memory. Further messages wait in the journal."""


G = TypeVar("G", StreamGroup, QueueGroup)


class CoordinatorView(Protocol):
    """The part of the coordinator that its transactions use."""

    def state(self, id: str) -> State:
        """Returns the state of a transaction: UNKNOWN if it does not exist, or it was forgotten."""
        ...

    def check_time(self, transaction: Transaction) -> None:
        """Raises TransactionAborted, and aborts the transaction, if its time is over."""
        ...

    def spill(self, transaction: Transaction) -> None:
        """Moves the rows of an open transaction from memory to the journal."""
        ...

    def stage(self, transaction: Transaction, batches: Mapping[LogName, PackWith]) -> None:
        """Writes batches of an open transaction to the journal, as the records that their logs accept."""
        ...

    def prepare(self, transaction: Transaction) -> None:
        """Writes all of it to disk. Any process may decide it from now on."""
        ...

    def commit(self, id: str) -> State:
        """Commits and carries it out. Returns DONE, or COMMITTED if another process is still carrying it out."""
        ...

    def abort(self, id: str) -> State:
        """Aborts a transaction."""
        ...


class KnownTopic(NamedTuple):
    """A topic that the transaction puts to, its limits, the rows for each partition, and whether it has only one
    partition.
    """

    topic: Topic
    limits: RecordLimits
    lanes: dict[int, PendingRows]
    is_single: bool


class Transaction:
    """Messages that are put to it are in no log before it is committed. Any thread may use it.

    As a context manager it is committed at the end of the block, and aborted by an exception. A transaction that was
    prepared in the block is left open for a decision. Until it is prepared, only its own process can use it.
    """

    def __init__(
        self,
        coordinator: CoordinatorView,
        store: Store,
        id: str | None,
        deadline_s: float,
        prepared_timeout_s: float | None,
    ) -> None:
        self.token = uuid4().hex
        self.id = self.token if id is None else id
        self.deadline_s, self.prepared_timeout_s = deadline_s, prepared_timeout_s
        self.first: int | None = None
        """The number of its first row in the journal; None if it has no rows there."""
        self.mutex = threading.RLock()
        self.rows: dict[LogName, PendingRows] = {}
        self.targets: dict[LogName, Target] = {}
        self.positions: dict[GroupName, dict[int, int]] = {}
        self.movable: set[GroupName] = set()
        """The groups whose positions may move back."""
        self.acks: dict[GroupName, list[Message]] = {}
        self.streams: dict[GroupName, StreamGroup] = {}
        self.claims: dict[GroupName, dict[int, OwnedPartition]] = {}
        self.queues: dict[GroupName, QueueGroup] = {}
        self.size = 0
        self.last_state = State.OPEN
        self._is_named = id is not None
        self._is_left = False
        self._topics: dict[str, KnownTopic] = {}
        self._steady_s = store.clock.steady_s
        self._coordinator, self._store = coordinator, store

    @property
    def state(self) -> State:
        """The current state. Any process may decide a prepared transaction."""
        if self.last_state in (State.PREPARED, State.COMMITTED):
            self.last_state = self._coordinator.state(self.id)
        return self.last_state

    # --- What it is to do ---

    def put(
        self,
        topic: str | api.Topic,
        body: bytes,
        *,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
        delay: Duration | None = None,
        deliver_at: When | None = None,
    ) -> None:
        """Puts one message when the transaction is committed. The topic is created now if it does not exist.

        With `delay`, which counts from now, or `deliver_at`, the message is then parked until it is due.
        """
        with self.mutex:
            # A copy of what `_change` and `_grow` do, because each call is noticeable in every put.
            entry = self._topics.get(topic) if type(topic) is str else None
            if entry is None or self.last_state is not State.OPEN or self._steady_s() >= self.deadline_s:
                entry = self._change(topic)
            target, limits, lanes, is_single = entry
            if delay is not None or deliver_at is not None:
                due_us = target.delay.due_us(delay, deliver_at)
                target.check_body(body)
                fields = MessageFields(key, tag, headers, id, corr_offset)
                horizon, batch = target.delay.row(body, due_us, fields, partition)
                (row,) = limits.parked().rows(batch)
                self._rows_for(LogName(target.name, 0, horizon)).add(row)
                self._grow(row[-1])
                return
            row = limits.row(body, tag, key, id, headers, corr_offset)
            if partition is None:
                partition = 0 if is_single and key is None else target.route(key)
            else:
                target.partition(partition)
            rows = lanes.get(partition) or self._rows_for(LogName(target.name, partition))
            rows.add(row)
            self.size += row[-1]
            if self.size > TRANSACTION_MEMORY_MAX:
                self._coordinator.spill(self)

    def put_many(
        self,
        topic: str | api.Topic,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        partition: int | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> None:
        """Puts messages together when the transaction is committed. Without keys all go to one partition."""
        batch = Batch(bodies, **columns)
        if tag and batch.tags is not None:
            raise BadInput("pass either tag, for all messages, or tags, one for each")
        check_sequence(bodies)
        with self.mutex:
            target, limits, _, _ = self._change(topic)
            keyless = target.route(None) if partition is None else partition
            target.partition(keyless)
            if all(column is None for column in batch[1:]):
                self._add_all(LogName(target.name, keyless), limits.plain_rows(bodies, tag))
                return
            check_bodies(bodies)
            usual = tag, None, "", None, NO_CORR_OFFSET
            filled = [
                _filled(name, column, len(bodies), each)
                for name, column, each in zip(batch._fields[1:], batch[1:], usual, strict=True)
            ]
            rows = [limits.row(*fields) for fields in zip(bodies, *filled, strict=True)]
            if partition is not None or batch.keys is None:
                self._add_all(LogName(target.name, keyless), rows)
                return
            for number, places in rows_by_partition(batch.keys, target.partition_count, keyless).items():
                self._add_all(LogName(target.name, number), [rows[place] for place in places])

    def put_columns(self, topic: str | api.Topic, batch: pyarrow.RecordBatch, *, partition: int | None = None) -> None:
        """Puts the rows of an Arrow record batch when the transaction is committed, without a Python loop over them.

        The columns are those of `Log.append_arrow`. With keys and no `partition`, each row goes to the partition of its
        key, and rows without a key to the next partition in turn. The rows are in the journal when this returns, not in
        memory.
        """
        from warren.transaction.arrow_routing import batches_by_partition

        with self.mutex:
            target, limits, _, _ = self._change(topic)
            keyless = target.route(None) if partition is None else partition
            target.partition(keyless)
            count = target.partition_count if partition is None else 1
            parts = batches_by_partition(batch, count, keyless)
            packing = {LogName(target.name, number): partial(limits.pack_arrow, part) for number, part in parts.items()}
            self._stage(packing)

    def put_kafka(self, topic: str | Topic, batch: bytes | memoryview, *, partition: int) -> None:
        """Puts a checked Kafka record batch unchanged when the transaction is committed.

        It is in the journal when this returns. Raises UnsupportedByVersion if the topic accepts no batches.
        """
        with self.mutex:
            target, limits, _, _ = self._change(topic)
            target.partition(partition)
            self._stage({LogName(target.name, partition): partial(limits.pack_kafka, batch)})

    def _stage(self, packing: Mapping[LogName, PackWith]) -> None:
        if self.size:
            # Earlier puts must come before it.
            self._coordinator.spill(self)
        if packing:
            self._coordinator.stage(self, packing)

    def _add_all(self, place: LogName, rows: Sequence[PendingRow]) -> None:
        if rows:
            self._grow(self._rows_for(place).add_all(rows))

    def ack(self, group: api.QueueGroup, messages: Message | Sequence[Message]) -> None:
        """Acknowledges messages, which this process took and still holds, when the transaction is committed.

        The commit raises LeaseLost, and nothing happens, if another worker got one of them in the meantime.
        """
        group = self._checked_group(group, QueueGroup, "queue")
        listed: list[Any] = [messages] if isinstance(messages, Message) else list(messages)
        for message in listed:
            if not isinstance(message, Message) or message.topic != group.topic.name:
                raise BadInput(f"{message!r} is not a message of topic {str(group.topic.name)!r}")
        with self.mutex:
            self._check_open()
            name = GroupName(str(group.topic.name), group.name)
            self.queues[name] = group
            self.acks.setdefault(name, []).extend(listed)

    def commit_numbers(self, topic: Topic, group: str, positions: Mapping[int, int]) -> None:
        """Makes a stream group without members in this process continue at these numbers when the transaction is
        committed.

        For a caller that knows that no member reads the partitions, as the broker does for Kafka's clients. Unlike with
        `commit`, positions may go back.
        """
        with self.mutex:
            self._check_open()
            for partition in positions:
                topic.partition(partition)
            name = GroupName(str(topic.name), group)
            self.positions.setdefault(name, {}).update(positions)
            self.movable.add(name)

    def _commit_positions(self, group: StreamGroup, positions: Mapping[int, int] | None) -> None:
        with self.mutex:
            self._check_open()
            claim = group.claim(None if positions is None else _checked_positions(group.topic, positions))
            name = GroupName(str(group.topic.name), group.name)
            self.streams[name] = group
            # If a partition is named twice, the first claim counts, because the member has owned the partition since
            # then.
            self.claims[name] = claim.owned | self.claims.get(name, {})
            self.positions.setdefault(name, {}).update(claim.positions)

    def _checked_group(self, group: object, kind: type[G], mode: str) -> G:
        """Returns the group. Raises BadInput unless it is a group of this mode and of this store."""
        if not isinstance(group, kind) or group.topic.store is not self._store:
            raise BadInput(f"{group!r}: expected a {mode} group of this store")
        return group

    def _check_open(self) -> None:
        """Raises the error that says why the transaction can no longer be changed."""
        next_state(self.id, self.state, Event.CHANGE)
        self._coordinator.check_time(self)

    def _change(self, topic: str | api.Topic) -> KnownTopic:
        """Returns what is entry of a topic, if the transaction may still be changed."""
        if self.last_state is not State.OPEN or self._steady_s() >= self.deadline_s:
            self._check_open()
        entry = self._topics.get(topic) if isinstance(topic, str) else None
        if entry is None:
            target = self._find(topic)
            target.check_takes_puts()
            entry = self._topics.setdefault(
                str(target.name), KnownTopic(target, RecordLimits.of(target.settings), {}, target.partition_count == 1)
            )
        return entry

    def _find(self, topic: str | api.Topic) -> Topic:
        if isinstance(topic, str):
            return self._store.topic(topic)
        if not isinstance(topic, Topic) or topic.store is not self._store:
            raise BadInput(f"{topic!r}: expected a topic of this store, or its name")
        return topic

    def limits_of(self, place: LogName) -> RecordLimits:
        """Returns the limits of the log that the transaction puts to."""
        limits = self._topics[place.topic].limits
        return limits if place.horizon is None else limits.parked()

    def target_for(self, place: LogName) -> Target:
        """Returns the rows for one log, and creates them on first use."""
        self._rows_for(place)
        return self.targets[place]

    def _rows_for(self, place: LogName) -> PendingRows:
        rows = self.rows.get(place)
        if rows is None:
            # A plain str: the name object of a topic refers to the topic, and the journal may outlive the topic.
            place = place._replace(topic=str(place.topic))
            rows = self.rows[place] = PendingRows()
            self.targets[place] = Target(place)
            if place.horizon is None:
                self._topics[place.topic].lanes[place.partition] = rows
        return rows

    def _grow(self, size: int) -> None:
        self.size += size
        if self.size > TRANSACTION_MEMORY_MAX:
            self._coordinator.spill(self)

    def spill(self) -> None:
        """Moves everything from memory to the journal."""
        with self.mutex:
            if self.size and self.last_state is State.OPEN:
                self._coordinator.spill(self)

    def needs_no_journal(self) -> bool:
        """Returns whether it consists of one record in one partition, which is atomic by itself.

        Returns False if the caller chose its id, because other processes may ask for its outcome.
        """
        if self.first is not None or self._is_named or self.acks or self.positions or len(self.rows) > 1:
            return False
        return all(
            place.horizon is None and rows.is_one_record(self._topics[place.topic].limits)
            for place, rows in self.rows.items()
        )

    def append(self) -> None:
        """Appends its one record, if it has one."""
        for place, rows in self.rows.items():
            batch = rows.batch()
            try:
                self._topics[place.topic].topic.partition(place.partition).append_many(
                    batch.bodies,
                    tags=batch.tags,
                    keys=batch.keys,
                    ids=batch.ids,
                    headers=batch.headers,
                    corr_offsets=batch.corr_offsets,
                )
            except GONE as error:
                raise NoSuchTopic(place.topic) from error

    # --- What becomes of it ---

    def prepare(self) -> None:
        """Writes everything to disk. From now on any process may commit or abort it by its id, also after a crash."""
        self._is_left = True
        self._coordinator.prepare(self)

    def commit(self, group: api.StreamGroup | None = None, positions: Mapping[int, int] | None = None) -> None:
        """Without a group: commits. All changes have happened when this returns.

        With a group: adds to the transaction the positions up to which the member read, or `positions`. Positions only
        go forward. Raises NotOwner if a partition went to another member since it was read: abort, `rewind`, and read
        again.
        """
        if group is not None:
            self._commit_positions(self._checked_group(group, StreamGroup, "stream"), positions)
            return
        self._is_left = True
        next_state(self.id, self.last_state, Event.COMMIT)
        self._coordinator.commit(self.id)

    def abort(self) -> None:
        """Aborts: none of the changes happen."""
        self._is_left = True
        self._coordinator.abort(self.id)

    def forget(self, state: State) -> None:
        """Frees the memory, because the transaction is over or other processes decide it."""
        self.last_state, self.size = state, 0
        for collection in (self.rows, self.targets, self.acks, self.positions, self.streams, self.claims, self.queues):
            collection.clear()
        self.movable.clear()
        self._topics.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_left:
            return
        if error is None:
            self.commit()
        elif self.last_state is State.OPEN:
            self.abort()

    def __repr__(self) -> str:
        return f"<Transaction {self.id}: {self.last_state}>"


def _filled(name: str, column: Sequence[Any] | None, count: int, usual: Any) -> Sequence[Any]:
    if column is None:
        return [usual] * count
    if len(column) != count:
        raise BadInput(f"{name} has {len(column)} entries for {count} bodies")
    return column


def _checked_positions(topic: TopicView, positions: Mapping[int, int]) -> dict[int, int]:
    number: Any
    for partition, number in positions.items():
        log = topic.partition(partition)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= log.end:
            raise BadInput(f"position {number!r} of partition {partition}: expected a number from 0 to {log.end}")
    return dict(positions)
