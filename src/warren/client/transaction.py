"""RemoteTransaction and RemoteProducer: puts that all happen or none, and puts with numbers, over the network."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from warren.client.calls import Repeat, same
from warren.client.groups import QueueWorker, StreamMember, place_values
from warren.client.handle import Handle
from warren.clock import Duration, microseconds, seconds_of
from warren.errors import (
    BadInput,
    ConnectionLost,
    NoSuchHandle,
    NoSuchTransaction,
    OutcomeUnknown,
    ProducerClosed,
    StoreClosed,
    TransactionAborted,
)
from warren.message import NO_CORR_OFFSET, Message, Place, TopicReceipt
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import ANY, position_values
from warren.protocol.own_records import pack, record_values
from warren.protocol.own_schemas import OwnKey
from warren.queue.waiting import checked_delay_s
from warren.storage.columns import Batch
from warren.transaction.states import Event, State, next_state

if TYPE_CHECKING:
    import pyarrow

    from warren.client.store import RemoteStore
    from warren.client.topic import RemoteTopic


def single(
    body: bytes, key: bytes | None, tag: str, headers: Mapping[str, bytes] | None, id: str, corr_offset: int
) -> Batch:
    """A batch of one message."""
    return Batch(
        [body],
        [tag] if tag else None,
        None if key is None else [key],
        [id] if id else None,
        [headers] if headers else None,
        None if corr_offset == NO_CORR_OFFSET else [corr_offset],
    )


def put_values(topic: str, batch: Batch, tag: str, partition: int | None) -> dict[str, Any]:
    """The fields of a put whose messages the broker takes apart."""
    return {
        "topic": topic,
        "partition": ANY if partition is None else partition,
        "records": [record_values(0, packed) for packed in pack(batch, tag)],
    }


def due_values(delay: Duration | None, deliver_at: datetime | float | int | None) -> dict[str, Any]:
    """The fields that say when a message is due; BadInput where they are both given, or cannot be."""
    if delay is not None and deliver_at is not None:
        raise BadInput("give either delay, in seconds, or deliver_at, a time")
    if delay is not None:
        return {"due": round(checked_delay_s(delay) * 1_000_000), "is_delay": True}
    return {"due": ANY if deliver_at is None else microseconds(deliver_at), "is_delay": False}


class RemoteTransaction:
    """A transaction at a broker. Any thread may use it.

    As a context manager it is committed at the end of the block, and aborted by an exception; one that was prepared in
    the block is left to whoever decides. Where all connections of the client are lost while it is open, it is aborted.
    """

    def __init__(
        self, store: RemoteStore, timeout: Duration, id: str | None, prepared_timeout: Duration | None
    ) -> None:
        self._store = store
        values = {
            "timeout": seconds_of(timeout),
            "id": id,
            "prepared_timeout": ANY if prepared_timeout is None else seconds_of(prepared_timeout),
        }
        self._number = store.calls.new_handle()
        values["handle"] = self._number
        self.id = str(store.calls.call(OwnKey.BEGIN_TRANSACTION, values).id)
        self.last_state = State.OPEN
        self._is_left = False

    # --- What it is to do ---

    def put(
        self,
        topic: str | RemoteTopic,
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
        """Put one message when the transaction is committed. The topic is made now where there is none."""
        batch = single(body, key, tag, headers, id, corr_offset)
        self._change(put_values(self._name(topic), batch, "", partition) | due_values(delay, deliver_at))

    def put_many(
        self,
        topic: str | RemoteTopic,
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
        batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
        batch.check()
        if bodies:
            self._change(put_values(self._name(topic), batch, tag, partition) | due_values(None, None))

    def put_columns(
        self, topic: str | RemoteTopic, batch: pyarrow.RecordBatch, *, partition: int | None = None
    ) -> None:
        """Put the rows of an Arrow record batch when the transaction is committed, without a Python loop over them."""
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        arrow = memoryview(sink.getvalue())
        where = ANY if partition is None else partition
        self._change({"topic": self._name(topic), "partition": where, "arrow": arrow, "due": ANY})

    def _name(self, topic: str | RemoteTopic) -> str:
        if not isinstance(topic, str) and getattr(topic, "store", None) is not self._store:
            raise BadInput(f"{topic!r}: expected a topic of this store, or its name")
        return topic if isinstance(topic, str) else str(topic.name)

    def ack(self, group: QueueWorker, messages: Message | Sequence[Message]) -> None:
        """Acknowledge messages, which this client took and still has, when the transaction is committed."""
        self._check_group(group, QueueWorker, "queue")
        given = [messages] if isinstance(messages, Message) else list(messages)
        self._change({"group": group.handle.number, "places": place_values(group.topic, given), "due": ANY})

    def _check_group(self, group: Any, kind: type[StreamMember | QueueWorker], mode: str) -> None:
        if not isinstance(group, kind) or group.topic.store is not self._store:
            raise BadInput(f"{group!r}: expected a {mode} group of this store")

    def _change(self, values: dict[str, Any]) -> None:
        next_state(self.id, self.last_state, Event.CHANGE)
        try:
            self._call(OwnKey.CHANGE_TRANSACTION, values)
        except NoSuchHandle as error:
            raise self._aborted() from error

    def _call(self, key: OwnKey, values: dict[str, Any], repeat: Repeat | None = None) -> Fields:
        return self._store.calls.call(key, {**values, "handle": self._number}, repeat=repeat)

    def _aborted(self) -> TransactionAborted:
        """It was open, and went with the session."""
        self.last_state = State.ABORTED
        return TransactionAborted(self.id)

    # --- What becomes of it ---

    @property
    def state(self) -> State:
        """Where it stands now. A prepared one may be decided by anybody."""
        if self.last_state in (State.PREPARED, State.COMMITTED):
            self._end("state")
        return self.last_state

    def _end(self, action: str) -> None:
        if self.last_state in (State.DONE, State.ABORTED):
            # The broker may know no more of it.
            self.last_state = next_state(self.id, self.last_state, Event(action))
            return
        is_open = self.last_state is State.OPEN
        try:
            found = self._call(OwnKey.END_TRANSACTION, {"action": action}, None if is_open else same)
            self.last_state = State(found.state)
        except NoSuchHandle as error:
            if is_open:
                raise self._aborted() from error
            # Prepared, it outlives the session.
            decide = {"commit": self._store.commit, "abort": self._store.abort}
            self.last_state = decide.get(action, self._store.transaction_state)(self.id)

    def prepare(self) -> None:
        """Everything is on disk: from now on anybody may commit or abort it by its id, also after a crash."""
        self._is_left = True
        self._end("prepare")

    def commit(self, group: StreamMember | None = None, positions: Mapping[int, int] | None = None) -> None:
        """With a group: what it read, or `positions`, is committed when the transaction is. It only goes forward.

        NotOwner where a partition went to another member since it was read: abort, `rewind`, and read again.
        Without one: everything happens, and is where it belongs when this returns. Where the answer is lost, the
        transaction is asked after by its id.
        """
        if group is not None:
            self._check_group(group, StreamMember, "stream")
            wanted = group.given() if positions is None else positions
            group.check_read()
            values = {"positions": None if wanted is None else position_values(wanted)}
            self._change({"group": group.handle.number, "due": ANY, **values})
            group.claimed()
            return
        self._is_left = True
        next_state(self.id, self.last_state, Event.COMMIT)
        try:
            self._end("commit")
        except ConnectionLost:
            self.last_state = self._store.commit(self.id)

    def abort(self) -> None:
        """Nothing happens."""
        self._is_left = True
        try:
            self._end("abort")
        except TransactionAborted:
            self.last_state = State.ABORTED
        except OutcomeUnknown:
            # Gone with the session, unless it was prepared.
            with suppress(NoSuchTransaction):
                self._store.abort(self.id)
            self.last_state = State.ABORTED

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
        return f"<RemoteTransaction {self.id}: {self.last_state}>"


class RemoteProducer:
    """Numbers its puts 1, 2, 3, … over all topics of a broker. One opening at a time; any thread may use it."""

    def __init__(self, store: RemoteStore, name: str) -> None:
        self.name, self._store = name, store
        self._mutex = threading.Lock()
        self._handle: Handle | None = Handle(store.calls, OwnKey.OPEN_PRODUCER, {"producer": name})
        self._sequence = int(self._handle.opened.sequence)

    @property
    def sequence(self) -> int:
        """The number of the last put that was written, with all before it; 0 before the first."""
        self._open()
        return self._sequence

    def _open(self) -> Handle:
        if self._store.is_closed:
            raise StoreClosed(self._store.calls.address)
        if self._handle is None:
            raise ProducerClosed(self.name)
        return self._handle

    def put(
        self,
        topic: str | RemoteTopic,
        body: bytes,
        *,
        sequence: int | None = None,
        key: bytes | None = None,
        tag: str = "",
        headers: Mapping[str, bytes] | None = None,
        id: str = "",
        corr_offset: int = NO_CORR_OFFSET,
        partition: int | None = None,
    ) -> TopicReceipt | None:
        """Put one message; its receipt. None, and nothing is written, where `sequence` was written before."""
        found = self._put(topic, single(body, key, tag, headers, id, corr_offset), sequence, partition)
        if not found.is_written:
            return None
        name = topic if isinstance(topic, str) else str(topic.name)
        return TopicReceipt(name, found.partitions[0], found.numbers[0], found.offset, found.timestamp, id)

    def put_many(
        self,
        topic: str | RemoteTopic,
        bodies: Sequence[bytes],
        *,
        sequence: int | None = None,
        tags: Sequence[str] | None = None,
        keys: Sequence[bytes | None] | None = None,
        ids: Sequence[str] | None = None,
        headers: Sequence[Mapping[str, bytes] | None] | None = None,
        corr_offsets: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> Sequence[Place] | None:
        """Put messages together, under one number; their places. None where `sequence` was written before."""
        batch = Batch(bodies, tags, keys, ids, headers, corr_offsets)
        found = self._put(topic, batch, sequence, partition)
        return list(map(Place, found.partitions, found.numbers)) if found.is_written else None

    def _put(self, topic: str | RemoteTopic, batch: Batch, sequence: int | None, partition: int | None) -> Fields:
        given: object = sequence
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
            raise BadInput(f"sequence {sequence!r}: expected a whole number from 1 on")
        name = topic if isinstance(topic, str) else str(topic.name)
        with self._mutex:
            handle = self._open()
            values = put_values(name, batch, "", partition)
            # The number is told in any case: one that is sent again is known by it.
            values["sequence"] = self._sequence + 1 if sequence is None else sequence
            found = handle.call(OwnKey.NUMBERED_PUT, values)
            self._sequence = int(found.sequence)
            return found

    def close(self) -> None:
        """From now on it can be opened elsewhere. Closing twice does no harm."""
        with self._mutex:
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteProducer {self.name}: {'closed' if self._handle is None else self._sequence}>"
