"""Transactions and numbered puts for Warren's own clients."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from warren.broker.native.call import Call
from warren.broker.native.delays import columns_of, due_options, put_of
from warren.broker.native.groups import held_group, named_all
from warren.broker.native.handler import checked_choice, none_where, session_of
from warren.broker.native.held_stream import HeldStream
from warren.broker.native.sessions import HeldObject
from warren.broker.security.broker_view import HandleNames
from warren.broker.services.topics import found_or_made
from warren.errors import TransactionError
from warren.protocol.native.arrow import arrow_batches
from warren.protocol.native.calls import ANY, positions_of
from warren.protocol.native_messages import (
    BeginTransactionRequest,
    BeginTransactionResponse,
    ChangeTransactionRequest,
    ChangeTransactionResponse,
    CommitBatchRequest,
    CommitBatchResponse,
    EndTransactionRequest,
    EndTransactionResponse,
    NumberedPutRequest,
    NumberedPutResponse,
    OpenProducerRequest,
    OpenProducerResponse,
    RecoverRequest,
    RecoverResponse,
    RecoverResponsePrepared,
)
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch
from warren.transaction.producer import Producer
from warren.transaction.states import State
from warren.transaction.transaction import Transaction

ACTIONS: Final = ("prepare", "commit", "abort", "state")
RECOVERIES: Final = ("recover", "abort_prepared", "last_version", "last_failure")


class HeldTransaction(HeldObject):
    """A transaction that a client has open: aborted when the client has disconnected, unless it was prepared."""

    def __init__(self, transaction: Transaction, given_id: str) -> None:
        self.transaction, self._given_id = transaction, given_id

    @property
    def names(self) -> HandleNames:
        return HandleNames(id=self._given_id)

    def close(self) -> None:
        # The transaction may be over by now.
        with suppress(TransactionError):
            if self.transaction.last_state is State.OPEN:
                self.transaction.abort()

    def is_over(self) -> bool:
        return self.transaction.state in (State.DONE, State.ABORTED, State.UNKNOWN)


class HeldProducer(HeldObject):
    """A producer that a client has open. No other client can open it at the same time."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    @property
    def names(self) -> HandleNames:
        return HandleNames(id=self.producer.name)

    def close(self) -> None:
        self.producer.close()


async def begin_transaction(call: Call, request: BeginTransactionRequest) -> BeginTransactionResponse:
    """Begins a transaction. A negative `prepared_timeout` means none."""
    session, store = session_of(call), call.broker.store

    def begin() -> BeginTransactionResponse:
        prepared = None if request.prepared_timeout < 0 else request.prepared_timeout
        transaction = store.transaction(request.timeout, request.id, prepared)
        session.hold(request.handle, HeldTransaction(transaction, request.id or ""))
        return BeginTransactionResponse(id=transaction.id)

    return await call.broker.in_thread(begin)


async def change_transaction(call: Call, request: ChangeTransactionRequest) -> ChangeTransactionResponse:
    """Adds messages for a topic, or positions or acknowledgements of a group, to a transaction."""
    transaction = session_of(call).find(request.handle, HeldTransaction).transaction
    if request.topic:
        topic = await found_or_made(call, request.topic)
        await call.broker.in_thread(_put, topic, transaction, request)
        memory = call.broker.transaction_memory
        if not memory.count(transaction, call.peer.owner):
            await call.broker.in_thread(transaction.spill)
            memory.count(transaction, call.peer.owner)
    if request.group:
        held = held_group(call, request.group)
        if isinstance(held, HeldStream):
            positions = None if request.positions is None else positions_of(request.positions)
            await call.broker.in_thread(transaction.commit, held.group, positions)
        else:
            work = held.group
            await call.broker.in_thread(lambda: transaction.ack(work, named_all(work.topic, request.places)))
    return ChangeTransactionResponse()


def _put(topic: Topic, transaction: Transaction, request: ChangeTransactionRequest) -> None:
    partition = none_where(request.partition, ANY)
    if request.arrow:
        for arrow in arrow_batches(request.arrow):
            transaction.put_columns(topic, arrow, partition=partition)
        return
    batch = put_of(topic, request.records)
    if request.due == ANY:
        transaction.put_many(topic, batch.bodies, partition=partition, **columns_of(batch))
    else:
        _park(transaction, topic, batch, partition, request)


def _park(
    transaction: Transaction, topic: Topic, batch: Batch, partition: int | None, request: ChangeTransactionRequest
) -> None:
    names = {"tags": "tag", "keys": "key", "ids": "id", "headers": "headers", "corr_offsets": "corr_offset"}
    columns = {names[name]: column for name, column in columns_of(batch).items() if column is not None}
    for row, body in enumerate(batch.bodies):
        fields: dict[str, Any] = {name: column[row] for name, column in columns.items()}
        transaction.put(topic, body, partition=partition, **fields, **due_options(request))


async def end_transaction(call: Call, request: EndTransactionRequest) -> EndTransactionResponse:
    """Prepares, commits or aborts a transaction: an open one by its handle, any other by its id."""
    action = checked_choice("action", request.action, ACTIONS)
    if not request.handle:
        store = call.broker.store
        by_id = {"commit": store.commit, "abort": store.abort, "state": store.transaction_state}
        decide = by_id[checked_choice("action", action, tuple(by_id))]
        return EndTransactionResponse(state=str(await call.broker.in_thread(decide, request.id)))
    transaction = session_of(call).find(request.handle, HeldTransaction).transaction
    if action != "state":
        try:
            await call.broker.in_thread(getattr(transaction, action))
        finally:
            call.broker.transaction_memory.count(transaction, call.peer.owner)
    return EndTransactionResponse(state=str(await call.broker.in_thread(lambda: transaction.state)))


async def commit_batch(call: Call, request: CommitBatchRequest) -> CommitBatchResponse:
    """Commits prepared transactions together, with or without an application and its version."""
    store = call.broker.store
    if request.application is None:
        return CommitBatchResponse(state=str(await call.broker.in_thread(store.commit_all, request.ids)))
    state = await call.broker.in_thread(store.commit_batch, request.application, request.version, request.ids)
    return CommitBatchResponse(state=str(state))


async def recover(call: Call, request: RecoverRequest) -> RecoverResponse:
    """Returns or aborts transactions that wait for a decision; or returns the last failure or version."""
    store = call.broker.store
    action = checked_choice("action", request.action, RECOVERIES)
    if action == "recover":
        return RecoverResponse(
            prepared=[RecoverResponsePrepared(*each) for each in await call.broker.in_thread(store.recover)]
        )
    if action == "abort_prepared":
        return RecoverResponse(ids=await call.broker.in_thread(store.abort_prepared, request.name, request.before))
    if action == "last_failure":
        return RecoverResponse(failure=call.client_message(store.last_failure))
    version = await call.broker.in_thread(store.last_version, request.name)
    return RecoverResponse(version=ANY if version is None else version)


async def open_producer(call: Call, request: OpenProducerRequest) -> OpenProducerResponse:
    """Opens a producer that numbers its puts. Raises ProducerBusy while another client has it open."""
    session, store = session_of(call), call.broker.store

    def opened() -> OpenProducerResponse:
        producer = store.producer(request.producer)
        session.hold(request.handle, HeldProducer(producer))
        return OpenProducerResponse(sequence=producer.sequence)

    return await call.broker.in_thread(opened)


async def numbered_put(call: Call, request: NumberedPutRequest) -> NumberedPutResponse:
    """Puts messages under one number. Writes nothing if that number was written before."""
    producer = session_of(call).find(request.handle, HeldProducer).producer
    return await call.broker.in_thread(_numbered, await found_or_made(call, request.topic), producer, request)


def _numbered(topic: Topic, producer: Producer, request: NumberedPutRequest) -> NumberedPutResponse:
    batch = put_of(topic, request.records)
    options = {"sequence": none_where(request.sequence, ANY), "partition": none_where(request.partition, ANY)}
    places = producer.put_many(topic, batch.bodies, **columns_of(batch), **options)
    if places is None:
        return NumberedPutResponse(is_written=False, sequence=producer.sequence)
    at = topic.partition(places[0].partition).at(places[0].number) if places[0].number >= 0 else None
    return NumberedPutResponse(
        is_written=True,
        sequence=producer.sequence,
        partitions=[place.partition for place in places],
        numbers=[place.number for place in places],
        offset=ANY if at is None else at.offset,
        timestamp=ANY if at is None else at.timestamp,
    )
