"""Transaction: messages for any topics, positions and acknowledgements, which all happen or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import uuid4

from warren.clock import Duration
from warren.config import TRANSACTION_MEMORY_MAX
from warren.errors import GONE, BadInput, NoSuchTopic
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.ownership import Owned
from warren.queue.queue_group import QueueGroup
from warren.queue.routing import rows_by_partition
from warren.queue.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage.record import Packed, check_bodies, check_sequence
from warren.transaction.entry import GroupName, Place, Target
from warren.transaction.rows import Limits, Row, Rows
from warren.transaction.states import Event, State, next_state

if TYPE_CHECKING:
    import pyarrow

    from warren.queue.store import Store
    from warren.transaction.coordinator import Coordinator


class Known(NamedTuple):
    """A topic that the transaction puts to, what it takes, the rows for each partition, and whether it has but one."""

    topic: Topic
    limits: Limits
    lanes: dict[int, Rows]
    is_single: bool


class Transaction:
    """What is put to it is in no log before it is committed. Any thread may use it.

    As a context manager it is committed at the end of the block, and aborted by an exception; one that was prepared in
    the block is left to whoever decides. It is known to its process alone until it is prepared.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        id: str | None,
        deadline_s: float,
        prepared_timeout_s: float | None,
    ) -> None:
        self.token = uuid4().hex
        self.id = self.token if id is None else id
        self.deadline_s, self.prepared_timeout_s = deadline_s, prepared_timeout_s
        self.first: int | None = None
        """The number in the journal from which on its rows lie there; None while there is nothing of it."""
        self.mutex = threading.RLock()
        self.rows: dict[Place, Rows] = {}
        self.targets: dict[Place, Target] = {}
        self.positions: dict[GroupName, dict[int, int]] = {}
        self.movable: set[GroupName] = set()
        """Those of the groups whose positions may go back."""
        self.acks: dict[GroupName, list[Message]] = {}
        self.streams: dict[GroupName, StreamGroup] = {}
        self.claims: dict[GroupName, dict[int, Owned]] = {}
        self.queues: dict[GroupName, QueueGroup] = {}
        self.size = 0
        self.last_state = State.OPEN
        self._is_named = id is not None
        self._is_left = False
        self._topics: dict[str, Known] = {}
        self._steady_s = store.clock.steady_s
        self._coordinator, self._store = coordinator, store

    @property
    def state(self) -> State:
        """Where it stands now. A prepared one may be decided by any process."""
        if self.last_state in (State.PREPARED, State.COMMITTED):
            self.last_state = self._coordinator.state(self.id)
        return self.last_state

    # --- What it is to do ---

    def put(
        self,
        topic: str | Topic,
        body: bytes,
        *,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
        delay: Duration | None = None,
        deliver_at: datetime | float | int | None = None,
    ) -> None:
        """Put one message when the transaction is committed. The topic is made now where there is none.

        With `delay`, which counts from now, or `deliver_at` it is then parked until it is due.
        """
        with self.mutex:
            # As `_change` and `_grow` do it: a call less is felt with every put.
            known = self._topics.get(topic) if type(topic) is str else None
            if known is None or self.last_state is not State.OPEN or self._steady_s() >= self.deadline_s:
                known = self._change(topic)
            found, limits, lanes, is_single = known
            if delay is not None or deliver_at is not None:
                due_us = found.delay.due_us(delay, deliver_at)
                found.check_body(body)
                horizon, batch = found.delay.row(
                    body,
                    due_us,
                    key=key,
                    tag=tag,
                    headers=headers,
                    id=id,
                    corr_offset=corr_offset,
                    partition=partition,
                )
                row = limits.parked().row_of(batch)
                self._rows_for(Place(found.name, 0, horizon)).add(row)
                self._grow(row[-1])
                return
            row = limits.row(body, tag, key, id, headers, corr_offset)
            if partition is None:
                partition = 0 if is_single and key is None else found.route(key)
            else:
                found.partition(partition)
            rows = lanes.get(partition) or self._rows_for(Place(found.name, partition))
            rows.add(row)
            self.size += row[-1]
            if self.size > TRANSACTION_MEMORY_MAX:
                self._coordinator.spill(self)

    def put_many(
        self,
        topic: str | Topic,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> None:
        """Put messages together when the transaction is committed. Without keys all go to one partition."""
        if tag and tags is not None:
            raise BadInput("give either tag, for all, or tags, one for each")
        check_sequence(bodies)
        with self.mutex:
            found, limits, _, _ = self._change(topic)
            columns: dict[str, tuple[Sequence[Any] | None, Any]] = {
                "tags": (tags, tag),
                "keys": (keys, None),
                "ids": (ids, ""),
                "headers": (headers, None),
                "corr_offsets": (corr_offsets, NO_CORR_OFFSET),
            }
            keyless = found.route(None) if partition is None else partition
            found.partition(keyless)
            if all(column is None for column, _ in columns.values()):
                self._add_all(Place(found.name, keyless), limits.plain_rows(bodies, tag))
                return
            check_bodies(bodies)
            filled = [_filled(name, column, len(bodies), usual) for name, (column, usual) in columns.items()]
            rows = [limits.row(*fields) for fields in zip(bodies, *filled, strict=True)]
            if partition is not None or keys is None:
                self._add_all(Place(found.name, keyless), rows)
                return
            for number, places in rows_by_partition(keys, found.partition_count, keyless).items():
                self._add_all(Place(found.name, number), [rows[place] for place in places])

    def put_columns(self, topic: str | Topic, batch: pyarrow.RecordBatch, *, partition: int | None = None) -> None:
        """Put the rows of an Arrow record batch when the transaction is committed, without a Python loop over them.

        The columns are those that `Log.append_arrow` takes. With keys and no `partition` each goes to the partition of
        its key, those without to the next in turn. What it holds is in the journal when this returns, not in memory.
        """
        from warren.transaction.arrow_routing import batches_by_partition

        with self.mutex:
            found, limits, _, _ = self._change(topic)
            keyless = found.route(None) if partition is None else partition
            found.partition(keyless)
            if limits.version == 1:
                self._put_as_rows(found, batch, partition)
                return
            count = found.partition_count if partition is None else 1
            parts = batches_by_partition(batch, count, keyless)
            packing = {Place(found.name, number): partial(limits.pack_arrow, part) for number, part in parts.items()}
            self._stage(packing)

    def put_kafka(self, topic: str | Topic, batch: bytes | memoryview, *, partition: int) -> None:
        """Put a Kafka record batch, which was checked, as it is when the transaction is committed.

        It is in the journal when this returns. UnsupportedByVersion where the topic takes no batches.
        """
        with self.mutex:
            found, limits, _, _ = self._change(topic)
            found.partition(partition)
            self._stage({Place(found.name, partition): partial(limits.pack_kafka, batch)})

    def _stage(self, packing: Mapping[Place, Callable[[bytes], list[Packed]]]) -> None:
        if self.size:
            # What was put before comes before.
            self._coordinator.spill(self)
        if packing:
            self._coordinator.stage(self, packing)

    def _put_as_rows(self, topic: Topic, batch: pyarrow.RecordBatch, partition: int | None) -> None:
        """For a topic of version 1, which takes no columns."""
        from warren.storage.arrow_packing import rows_of

        bodies, tags, keys, ids, headers, corr_offsets = rows_of(batch)
        self.put_many(
            topic,
            bodies,
            tags=tags,
            keys=keys,
            ids=ids,
            headers=headers,
            corr_offsets=corr_offsets,
            partition=partition,
        )

    def _add_all(self, place: Place, rows: Sequence[Row]) -> None:
        if rows:
            self._grow(self._rows_for(place).add_all(rows))

    def ack(self, group: QueueGroup, messages: Message | Sequence[Message]) -> None:
        """Acknowledge messages, which this process took and still has, when the transaction is committed.

        LeaseLost at that time, and nothing happens, where one of them went to somebody else meanwhile.
        """
        self._check_group(group, QueueGroup, "queue")
        given: list[Any] = [messages] if isinstance(messages, Message) else list(messages)
        for message in given:
            if not isinstance(message, Message) or message.topic != group.topic.name:
                raise BadInput(f"{message!r} is no message of topic {str(group.topic.name)!r}")
        with self.mutex:
            self._check_open()
            name = GroupName(str(group.topic.name), group.name)
            self.queues[name] = group
            self.acks.setdefault(name, []).extend(given)

    def commit_numbers(self, topic: Topic, group: str, positions: Mapping[int, int]) -> None:
        """The stream group, whose members are not in this process, goes on from these numbers, when committed.

        For a caller that knows that the partitions are not read by others, as the broker does for Kafka's clients.
        Positions may go back, other than those that `commit` is given.
        """
        with self.mutex:
            self._check_open()
            for partition in positions:
                topic.partition(partition)
            name = GroupName(str(topic.name), group)
            self.positions.setdefault(name, {}).update(positions)
            self.movable.add(name)

    def _commit_positions(self, group: StreamGroup, positions: Mapping[int, int] | None) -> None:
        self._check_group(group, StreamGroup, "stream")
        with self.mutex:
            self._check_open()
            claim = group.claim(None if positions is None else _checked_positions(group.topic, positions))
            name = GroupName(str(group.topic.name), group.name)
            self.streams[name] = group
            # Of a partition that is named twice the first time counts: it is owned ever since.
            self.claims[name] = claim.owned | self.claims.get(name, {})
            self.positions.setdefault(name, {}).update(claim.positions)

    def _check_group(self, group: Any, kind: type[StreamGroup | QueueGroup], mode: str) -> None:
        if not isinstance(group, kind) or group.topic.store is not self._store:
            raise BadInput(f"{group!r}: expected a {mode} group of this store")

    def _check_open(self) -> None:
        """The error that says why it can be changed no more."""
        next_state(self.id, self.state, Event.CHANGE)
        self._coordinator.check_time(self)

    def _change(self, topic: str | Topic) -> Known:
        """What is known of a topic, where the transaction may still be changed."""
        if self.last_state is not State.OPEN or self._steady_s() >= self.deadline_s:
            self._check_open()
        known = self._topics.get(topic) if isinstance(topic, str) else None
        if known is None:
            found = self._find(topic)
            found.check_takes_puts()
            settings = found.settings
            limits = Limits.of(settings.version, settings.block_size, settings.message_size_max, settings.compression)
            known = self._topics.setdefault(str(found.name), Known(found, limits, {}, found.partition_count == 1))
        return known

    def _find(self, topic: str | Topic) -> Topic:
        if isinstance(topic, str):
            return self._store.topic(topic)
        if getattr(topic, "store", None) is not self._store:
            raise BadInput(f"{topic!r}: expected a topic of this store, or its name")
        return topic

    def limits_of(self, place: Place) -> Limits:
        """What the log takes that the transaction puts to."""
        limits = self._topics[place.topic].limits
        return limits if place.horizon is None else limits.parked()

    def target_for(self, place: Place) -> Target:
        """What goes to one log, made where nothing did."""
        self._rows_for(place)
        return self.targets[place]

    def _rows_for(self, place: Place) -> Rows:
        rows = self.rows.get(place)
        if rows is None:
            # The name that a topic has of itself leads back to it; what the journal keeps may outlast the topic.
            place = place._replace(topic=str(place.topic))
            rows = self.rows[place] = Rows()
            self.targets[place] = Target(place)
            if place.horizon is None:
                self._topics[place.topic].lanes[place.partition] = rows
        return rows

    def _grow(self, size: int) -> None:
        self.size += size
        if self.size > TRANSACTION_MEMORY_MAX:
            self._coordinator.spill(self)

    def spill(self) -> None:
        """Keep nothing of it in memory: what was put is in the journal when this returns."""
        with self.mutex:
            if self.size and self.last_state is State.OPEN:
                self._coordinator.spill(self)

    def needs_no_journal(self) -> bool:
        """Whether all it does is one record in one partition, which is there wholly or not at all by itself.

        One that was given an id does: others may ask what became of it.
        """
        if self.first is not None or self._is_named or self.acks or self.positions or len(self.rows) > 1:
            return False
        return all(
            place.horizon is None and rows.is_one_record(self._topics[place.topic].limits)
            for place, rows in self.rows.items()
        )

    def append(self) -> None:
        """Append its one record, if it has one."""
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
        """Everything is on disk: from now on any process may commit or abort it by its id, also after a crash."""
        self._is_left = True
        self._coordinator.prepare(self)

    def commit(self, group: StreamGroup | None = None, positions: Mapping[int, int] | None = None) -> None:
        """With a group: what it read, or `positions`, is committed when the transaction is. It only goes forward.

        NotOwner where a partition went to another member since it was read: abort, `rewind`, and read again.
        Without one: everything happens, and is where it belongs when this returns.
        """
        if group is not None:
            self._commit_positions(group, positions)
            return
        self._is_left = True
        next_state(self.id, self.last_state, Event.COMMIT)
        self._coordinator.commit(self.id)

    def abort(self) -> None:
        """Nothing happens."""
        self._is_left = True
        self._coordinator.abort(self.id)

    def forget(self, state: State) -> None:
        """It is over, or out of our hands: keep nothing in memory."""
        self.last_state, self.size = state, 0
        for kept in (self.rows, self.targets, self.acks, self.positions, self.streams, self.claims, self.queues):
            kept.clear()
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


def _checked_positions(topic: Topic, positions: Mapping[int, int]) -> dict[int, int]:
    number: Any
    for partition, number in positions.items():
        log = topic.partition(partition)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= log.end:
            raise BadInput(f"position {number!r} of partition {partition}: expected a number from 0 to {log.end}")
    return dict(positions)
