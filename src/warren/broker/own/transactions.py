"""Transactions and numbered puts for clients of our own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.own.answering import checked_choice, none_where, session_of
from warren.broker.own.groups import HeldStream, held_group, named_all
from warren.broker.own.parking import columns_of, due_options, put_of
from warren.broker.own.sessions import Held, Stand
from warren.broker.topics import found_or_made
from warren.errors import TransactionError
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY, positions_of
from warren.protocol.own_arrow import arrow_batches
from warren.queue.topic import Topic
from warren.storage.columns import Batch
from warren.transaction.producer import Producer
from warren.transaction.states import State
from warren.transaction.transaction import Transaction

ACTIONS: Final = ("prepare", "commit", "abort", "state")
RECOVERIES: Final = ("recover", "abort_prepared", "last_version", "last_failure")


class HeldTransaction(Held):
    """A transaction that a client has open: aborted when the client is gone, unless it was prepared."""

    def __init__(self, transaction: Transaction, given_id: str) -> None:
        self.transaction, self._given_id = transaction, given_id

    @property
    def stand(self) -> Stand:
        return Stand(id=self._given_id)

    def close(self) -> None:
        # It may be over by now.
        with suppress(TransactionError):
            if self.transaction.last_state is State.OPEN:
                self.transaction.abort()

    def is_over(self) -> bool:
        return self.transaction.state in (State.DONE, State.ABORTED, State.UNKNOWN)


class HeldProducer(Held):
    """A producer that a client has open, which nobody else can open meanwhile."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    @property
    def stand(self) -> Stand:
        return Stand(id=self.producer.name)

    def close(self) -> None:
        self.producer.close()


async def begin_transaction(call: Call, asked: Fields) -> Values:
    """Begin a transaction. A negative `prepared_timeout` is none."""
    session, store = session_of(call), call.broker.store

    def begin() -> Values:
        prepared = None if asked.prepared_timeout < 0 else asked.prepared_timeout
        transaction = store.transaction(asked.timeout, asked.id, prepared)
        session.hold(asked.handle, HeldTransaction(transaction, asked.id or ""))
        return {"id": transaction.id}

    return await call.broker.in_thread(begin)


async def change_transaction(call: Call, asked: Fields) -> Values:
    """Messages for a topic, or positions or acknowledgements of a group, become part of a transaction."""
    transaction = session_of(call).find(asked.handle, HeldTransaction).transaction
    if asked.topic:
        topic = await found_or_made(call, asked.topic)
        await call.broker.in_thread(_put, topic, transaction, asked)
        memory = call.broker.transaction_memory
        if not memory.count(transaction, call.peer.owner):
            await call.broker.in_thread(transaction.spill)
            memory.count(transaction, call.peer.owner)
    if asked.group:
        held = held_group(call, asked.group)
        if isinstance(held, HeldStream):
            positions = None if asked.positions is None else positions_of(asked.positions)
            await call.broker.in_thread(transaction.commit, held.group, positions)
        else:
            work = held.group
            await call.broker.in_thread(lambda: transaction.ack(work, named_all(work.topic, asked.places)))
    return {}


def _put(topic: Topic, transaction: Transaction, asked: Fields) -> None:
    partition = none_where(asked.partition, ANY)
    if asked.arrow:
        for arrow in arrow_batches(asked.arrow):
            transaction.put_columns(topic, arrow, partition=partition)
        return
    batch = put_of(topic, asked)
    if asked.due == ANY:
        transaction.put_many(topic, batch.bodies, partition=partition, **columns_of(batch))
    else:
        _park(transaction, topic, batch, partition, asked)


def _park(transaction: Transaction, topic: Topic, batch: Batch, partition: int | None, asked: Fields) -> None:
    names = {"tags": "tag", "keys": "key", "ids": "id", "headers": "headers", "corr_offsets": "corr_offset"}
    columns = {names[name]: column for name, column in columns_of(batch).items() if column is not None}
    for row, body in enumerate(batch.bodies):
        fields: dict[str, Any] = {name: column[row] for name, column in columns.items()}
        transaction.put(topic, body, partition=partition, **fields, **due_options(asked))


async def end_transaction(call: Call, asked: Fields) -> Values:
    """Prepare, commit or abort a transaction: one that is open here by its handle, any other by its id."""
    action = checked_choice("action", asked.action, ACTIONS)
    if not asked.handle:
        store = call.broker.store
        by_id = {"commit": store.commit, "abort": store.abort, "state": store.transaction_state}
        decide = by_id[checked_choice("action", action, tuple(by_id))]
        return {"state": str(await call.broker.in_thread(decide, asked.id))}
    transaction = session_of(call).find(asked.handle, HeldTransaction).transaction
    if action != "state":
        try:
            await call.broker.in_thread(getattr(transaction, action))
        finally:
            call.broker.transaction_memory.count(transaction, call.peer.owner)
    return {"state": str(await call.broker.in_thread(lambda: transaction.state))}


async def commit_batch(call: Call, asked: Fields) -> Values:
    """Commit prepared transactions together, for an application or for nobody who would come back."""
    store = call.broker.store
    if asked.application is None:
        return {"state": str(await call.broker.in_thread(store.commit_all, asked.ids))}
    state = await call.broker.in_thread(store.commit_batch, asked.application, asked.version, asked.ids)
    return {"state": str(state)}


async def recover(call: Call, asked: Fields) -> Values:
    """What transactions were left: those that wait for a decision, and how far applications got."""
    store = call.broker.store
    action = checked_choice("action", asked.action, RECOVERIES)
    if action == "recover":
        return {"prepared": [each._asdict() for each in await call.broker.in_thread(store.recover)]}
    if action == "abort_prepared":
        return {"ids": await call.broker.in_thread(store.abort_prepared, asked.name, asked.before)}
    if action == "last_failure":
        return {"failure": call.told(store.last_failure)}
    version = await call.broker.in_thread(store.last_version, asked.name)
    return {"version": ANY if version is None else version}


async def open_producer(call: Call, asked: Fields) -> Values:
    """A producer that numbers its puts; ProducerBusy while it is open anywhere."""
    session, store = session_of(call), call.broker.store

    def opened() -> Values:
        producer = store.producer(asked.producer)
        session.hold(asked.handle, HeldProducer(producer))
        return {"sequence": producer.sequence}

    return await call.broker.in_thread(opened)


async def numbered_put(call: Call, asked: Fields) -> Values:
    """Put messages under one number; nothing is written where that was written before."""
    producer = session_of(call).find(asked.handle, HeldProducer).producer
    return await call.broker.in_thread(_numbered, await found_or_made(call, asked.topic), producer, asked)


def _numbered(topic: Topic, producer: Producer, asked: Fields) -> Values:
    batch = put_of(topic, asked)
    options = {"sequence": none_where(asked.sequence, ANY), "partition": none_where(asked.partition, ANY)}
    places = producer.put_many(topic, batch.bodies, **columns_of(batch), **options)
    if places is None:
        return {"is_written": False, "sequence": producer.sequence}
    at = topic.partition(places[0].partition).at(places[0].number) if places[0].number >= 0 else None
    return {
        "is_written": True,
        "sequence": producer.sequence,
        "partitions": [place.partition for place in places],
        "numbers": [place.number for place in places],
        "offset": ANY if at is None else at.offset,
        "timestamp": ANY if at is None else at.timestamp,
    }
