"""RemoteTransaction and RemoteProducer: puts that happen together or not at all, and numbered puts,
over the network.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, Unpack

from warren import api
from warren.api.values import ColumnOptions, FieldOptions, MessageFields, When
from warren.client.groups import QueueWorker, StreamMember, wire_leases
from warren.client.handle import Handle
from warren.client.net.session import same
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
from warren.protocol.native.calls import ANY, wire_positions
from warren.protocol.native.records import pack, wire_record
from warren.protocol.native_messages import (
    BeginTransactionRequest,
    ChangeTransactionRequest,
    EndTransactionRequest,
    NumberedPutRequest,
    NumberedPutResponse,
    OpenProducerRequest,
    OpenProducerResponse,
    WireRecord,
)
from warren.queue.state.waits import checked_delay_s
from warren.storage.format.columns import Batch
from warren.transaction.states import Event, State, next_state

if TYPE_CHECKING:
    import pyarrow

    from warren.client.remote_view import RemoteStoreView, RemoteTopicView


G = TypeVar("G", StreamMember, QueueWorker[Any])


def single_batch(body: bytes, fields: MessageFields) -> Batch:
    """Returns a batch of one message."""
    key, tag, headers, id, corr_offset = fields
    return Batch(
        [body],
        [tag] if tag else None,
        None if key is None else [key],
        [id] if id else None,
        [headers] if headers else None,
        None if corr_offset == NO_CORR_OFFSET else [corr_offset],
    )


def wire_records(batch: Batch, tag: str) -> list[WireRecord]:
    """Returns the records of a put whose messages the broker unpacks."""
    return [wire_record(0, packed) for packed in pack(batch, tag)]


class Due(NamedTuple):
    """When a message is due: at a time, or after a delay, in µs; ANY for neither."""

    due: int
    is_delay: bool


def due_of(delay: Duration | None, deliver_at: When | None) -> Due:
    """Returns when a message is due. Raises BadInput if both are given, or if one is out of range."""
    if delay is not None and deliver_at is not None:
        raise BadInput("pass either delay, in seconds, or deliver_at, a time")
    if delay is not None:
        return Due(round(checked_delay_s(delay) * 1_000_000), is_delay=True)
    return Due(ANY if deliver_at is None else microseconds(deliver_at), is_delay=False)


class RemoteTransaction:
    """A transaction at a broker. Any thread may use it.

    As a context manager it is committed at the end of the block, and aborted if an exception leaves the block. A
    transaction that was prepared in the block keeps waiting for a decision. If the client loses all connections while
    the transaction is open, the broker aborts it.
    """

    def __init__(
        self, store: RemoteStoreView[object], timeout: Duration, id: str | None, prepared_timeout: Duration | None
    ) -> None:
        self._store = store
        self._number = store.calls.new_handle()
        request = BeginTransactionRequest(
            handle=self._number,
            id=id,
            timeout=seconds_of(timeout),
            prepared_timeout=ANY if prepared_timeout is None else seconds_of(prepared_timeout),
        )
        self.id = store.calls.call(request).id
        self.last_state = State.OPEN
        self._is_left = False
        self._topics: dict[str, None] = {}
        """The topics to which the transaction puts."""

    # --- What it is to do ---

    def put(
        self,
        topic: str | api.Topic,
        body: bytes,
        *,
        partition: int | None = None,
        delay: Duration | None = None,
        deliver_at: When | None = None,
        **fields: Unpack[FieldOptions],
    ) -> None:
        """Puts one message when the transaction is committed. The topic is created now if it does not exist."""
        batch = single_batch(body, MessageFields(**fields))
        self._put(self._name(topic), batch, "", partition, due_of(delay, deliver_at))

    def put_many(
        self,
        topic: str | api.Topic,
        bodies: Sequence[bytes],
        *,
        tag: str = "",
        partition: int | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> None:
        """Puts messages together when the transaction is committed. Without keys, all go to one partition."""
        batch = Batch(bodies, **columns)
        if tag and batch.tags is not None:
            raise BadInput("pass either tag, for all messages, or tags, one for each")
        batch.check()
        if bodies:
            self._put(self._name(topic), batch, tag, partition, due_of(None, None))

    def put_columns(self, topic: str | api.Topic, batch: pyarrow.RecordBatch, *, partition: int | None = None) -> None:
        """Puts the rows of an Arrow record batch when the transaction is committed, without a Python loop over them."""
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        # Any kind of buffer can be written.
        arrow: Any = memoryview(sink.getvalue())
        where = ANY if partition is None else partition
        self._change(ChangeTransactionRequest(topic=self._name(topic), partition=where, arrow=arrow, due=ANY))

    def _put(self, topic: str, batch: Batch, tag: str, partition: int | None, due: Due) -> None:
        where, records = ANY if partition is None else partition, wire_records(batch, tag)
        self._change(
            ChangeTransactionRequest(topic=topic, partition=where, due=due.due, is_delay=due.is_delay, records=records)
        )

    def _name(self, topic: str | api.Topic) -> str:
        if not isinstance(topic, str) and getattr(topic, "store", None) is not self._store:
            raise BadInput(f"{topic!r}: expected a topic of this store, or its name")
        return topic if isinstance(topic, str) else str(topic.name)

    def ack(self, group: api.QueueGroup, messages: Message | Sequence[Message]) -> None:
        """Acknowledges messages, which this client took and still holds, when the transaction is committed."""
        worker = self._checked_group(group, QueueWorker, "queue")
        batch = [messages] if isinstance(messages, Message) else list(messages)
        leases = wire_leases(worker.topic, batch)
        self._change(ChangeTransactionRequest(group=worker.handle.number, places=leases, due=ANY))

    def _checked_group(self, group: object, kind: type[G], mode: str) -> G:
        """Returns the group. Raises BadInput unless it is a group of this mode and of this store."""
        if not isinstance(group, kind) or group.topic.store is not self._store:
            raise BadInput(f"{group!r}: expected a {mode} group of this store")
        return group

    def _change(self, request: ChangeTransactionRequest) -> None:
        next_state(self.id, self.last_state, Event.CHANGE)
        if request.topic:
            self._topics[request.topic] = None
        try:
            request.handle = self._number
            self._store.calls.call(request)
        except NoSuchHandle as error:
            raise self._aborted() from error

    def _aborted(self) -> TransactionAborted:
        """Returns the error for a transaction that was still open, and so was aborted, when its session ended."""
        self.last_state = State.ABORTED
        return TransactionAborted(self.id)

    # --- What becomes of it ---

    @property
    def state(self) -> State:
        """Returns the current state. Any client or process may decide a prepared transaction."""
        if self.last_state in (State.PREPARED, State.COMMITTED):
            self._end("state")
        return self.last_state

    def _end(self, action: str) -> None:
        if self.last_state in (State.DONE, State.ABORTED):
            # The broker may have forgotten the transaction.
            self.last_state = next_state(self.id, self.last_state, Event(action))
            return
        is_open = self.last_state is State.OPEN
        try:
            request = EndTransactionRequest(handle=self._number, action=action)
            answer = self._store.calls.call(request, repeat=None if is_open else same)
            self.last_state = State(answer.state)
        except NoSuchHandle as error:
            if is_open:
                raise self._aborted() from error
            # A prepared transaction outlives the session.
            decide = {"commit": self._store.commit, "abort": self._store.abort}
            self.last_state = decide.get(action, self._store.transaction_state)(self.id)

    def prepare(self) -> None:
        """Writes everything to disk.

        From now on any client may commit or abort the transaction by its id, also after a crash.
        """
        self._is_left = True
        self._end("prepare")

    def commit(self, group: api.StreamGroup | None = None, positions: Mapping[int, int] | None = None) -> None:
        """Without a group: commits. All changes have happened when this returns.

        If the answer is lost, the client commits the transaction again by its id.

        With a group: adds to the transaction the positions up to which the member read, or `positions`. Positions only
        go forward. Raises NotOwner if a partition went to another member since it was read: abort, `rewind`, and read
        again.
        """
        if group is not None:
            member = self._checked_group(group, StreamMember, "stream")
            ends = member.delivered_ends() if positions is None else positions
            member.check_read()
            sent = None if ends is None else wire_positions(ends)
            self._change(ChangeTransactionRequest(group=member.handle.number, due=ANY, positions=sent))
            member.claimed()
            return
        self._is_left = True
        next_state(self.id, self.last_state, Event.COMMIT)
        try:
            self._end("commit")
        except ConnectionLost:
            self.last_state = self._store.commit(self.id)
        self._store.reads.learn(self._topics)

    def abort(self) -> None:
        """Aborts: none of the changes happen."""
        self._is_left = True
        try:
            self._end("abort")
        except TransactionAborted:
            self.last_state = State.ABORTED
        except OutcomeUnknown:
            # The transaction ended with the session, unless it was prepared.
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
    """Numbers its puts 1, 2, 3, … over all topics of a broker. It can be open once at a time. Any thread may use it."""

    def __init__(self, store: RemoteStoreView[object], name: str) -> None:
        self.name, self._store = name, store
        self._mutex = threading.Lock()
        self._handle: Handle[OpenProducerResponse] | None = Handle(
            store.calls, lambda number: OpenProducerRequest(number, name)
        )
        self._sequence = self._handle.opened.sequence

    @property
    def sequence(self) -> int:
        """Returns the number of the last put that was written, as were all before it; 0 if there was none."""
        self._open()
        return self._sequence

    def _open(self) -> Handle[OpenProducerResponse]:
        if self._store.is_closed:
            raise StoreClosed(self._store.calls.address)
        if self._handle is None:
            raise ProducerClosed(self.name)
        return self._handle

    def put(
        self,
        topic: str | RemoteTopicView,
        body: bytes,
        *,
        sequence: int | None = None,
        partition: int | None = None,
        **options: Unpack[FieldOptions],
    ) -> TopicReceipt | None:
        """Puts one message, and returns its receipt.

        If `sequence` was written before, writes nothing and returns None.
        """
        fields = MessageFields(**options)
        answer = self._put(topic, single_batch(body, fields), sequence, partition)
        if not answer.is_written:
            return None
        name = topic if isinstance(topic, str) else str(topic.name)
        return TopicReceipt(name, answer.partitions[0], answer.numbers[0], answer.offset, answer.timestamp, fields.id)

    def put_many(
        self,
        topic: str | RemoteTopicView,
        bodies: Sequence[bytes],
        *,
        sequence: int | None = None,
        partition: int | None = None,
        **columns: Unpack[ColumnOptions],
    ) -> Sequence[Place] | None:
        """Puts messages together, under one number, and returns their places.

        If `sequence` was written before, returns None.
        """
        batch = Batch(bodies, **columns)
        answer = self._put(topic, batch, sequence, partition)
        return list(map(Place, answer.partitions, answer.numbers)) if answer.is_written else None

    def _put(
        self, topic: str | RemoteTopicView, batch: Batch, sequence: int | None, partition: int | None
    ) -> NumberedPutResponse:
        number: object = sequence
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise BadInput(f"sequence {sequence!r}: expected a whole number of at least 1")
        name = topic if isinstance(topic, str) else str(topic.name)
        with self._mutex:
            handle = self._open()
            request = NumberedPutRequest(
                handle=handle.number,
                topic=name,
                # The number is always sent, because the broker recognises a repeated put by it.
                sequence=self._sequence + 1 if sequence is None else sequence,
                partition=ANY if partition is None else partition,
                records=wire_records(batch, ""),
            )
            answer = handle.call(request)
            self._sequence = answer.sequence
        places = zip(answer.partitions, answer.numbers, strict=True)
        # Numbers grow in each partition, so the last one stays.
        self._store.reads.note(name, {partition: number + 1 for partition, number in places})
        return answer

    def close(self) -> None:
        """Closes the producer, so that it can be opened elsewhere. Closing twice does no harm."""
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
