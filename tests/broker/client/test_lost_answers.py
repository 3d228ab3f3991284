"""Lost answers: the call is sent again and carried out once, or its outcome is reported as unknown."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import warren
from tests.support.broker.running import RunningBroker
from tests.support.patience import WAIT_S, run
from warren.broker.native import sessions
from warren.broker.native.call_dedup import AnswerRoom, Answers
from warren.broker.services.memory_budget import MemoryBudget, MemoryKind
from warren.client.net.connection import Connection
from warren.client.net.known_brokers import KnownBrokers
from warren.client.store import RemoteStore
from warren.errors import ConnectionLost, NoSuchTopic, OutcomeUnknown, TransactionAborted
from warren.protocol.native_schemas import NUMBERED, NativeKey
from warren.protocol.wire_struct import WireRequest

Losing = Callable[..., list[int]]


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    """Loses the answer to the next call of each numbered kind, or of each kind in `keys`, after the broker sent it."""
    receive = Connection.receive

    def begin(keys: set[NativeKey] | None = None, then: Callable[[], object] = lambda: None) -> list[int]:
        lost: list[int] = []

        def lose(connection: Connection, request: WireRequest[Any]) -> Any:
            key = request.api_key
            answer = receive(connection, request)
            if key in (NUMBERED if keys is None else keys) and key not in lost:
                lost.append(key)
                then()
                raise connection.lost(OSError("lost on its way"))
            return answer

        monkeypatch.setattr(Connection, "receive", lose)
        return lost

    return begin


def test_an_item_whose_answer_was_lost_is_returned_again(store: RemoteStore, losing: Losing) -> None:
    jobs = store.queue("jobs")
    for number in range(3):
        jobs.put(number)
    lost = losing({NativeKey.USE_QUEUE})

    items = [jobs.get(timeout=WAIT_S) for _ in range(3)]

    assert lost
    assert items == [0, 1, 2]
    assert jobs.empty()
    for _ in items:
        jobs.task_done()


def test_an_item_is_put_once(store: RemoteStore, losing: Losing) -> None:
    jobs = store.queue("jobs", maxsize=1)
    lost = losing({NativeKey.USE_QUEUE})

    jobs.put("one", timeout=WAIT_S)

    assert lost
    assert jobs.qsize() == 1


def test_a_message_is_taken_once_and_settled_once(store: RemoteStore, losing: Losing) -> None:
    topic = store.topic("orders")
    topic.put_many([b"acked", b"nacked", b"rejected", b"extended"])
    work = topic.group("work", mode="queue", lease=600.0, attempts_max=0)

    def take(body: bytes) -> Any:
        losing({NativeKey.TAKE})
        message = work.take(wait=WAIT_S)
        assert message is not None
        assert (message.body, message.attempt) == (body, 1)
        assert losing({NativeKey.SETTLE}) == []
        return message

    work.ack(take(b"acked"))
    nacked = take(b"nacked")
    work.nack(nacked, delay=3600.0)
    work.reject(take(b"rejected"), "not wanted")
    work.extend(take(b"extended"), 60.0)

    assert work.in_flight() == 1
    assert [message.body for message in work.dead.last(5)] == [b"rejected"]
    losing({NativeKey.REDRIVE})
    assert work.redrive() == 1
    assert topic.last(1)[0].body == b"rejected"


def test_a_delayed_message_is_parked_and_cancelled_once_although_both_answers_are_lost(
    store: RemoteStore, losing: Losing
) -> None:
    topic = store.topic("orders")
    lost = losing()

    held = topic.put(b"later", delay=3600.0)

    assert [entry.id for entry in topic.scheduled()] == [held.id]
    assert held.cancel()
    assert lost == [NativeKey.PARK, NativeKey.CANCEL_PARKED]


def test_a_repeated_delete_succeeds(store: RemoteStore, losing: Losing) -> None:
    topic = store.topic("orders")
    topic.group("billing").close()
    lost = losing()

    topic.delete_group("billing")
    store.delete_topic("orders")

    assert lost == [NativeKey.DELETE_GROUP, NativeKey.DELETE_TOPIC]
    with pytest.raises(NoSuchTopic):
        topic.put(b"x")


def test_a_transaction_is_committed_once_although_its_answers_are_lost(store: RemoteStore, losing: Losing) -> None:
    lost = losing()

    with store.transaction(id="mine") as tx:
        tx.put("orders", b"one")
        tx.put("orders", b"two")

    assert lost == [NativeKey.BEGIN_TRANSACTION, NativeKey.CHANGE_TRANSACTION, NativeKey.END_TRANSACTION]
    assert [message.body for message in store.topic("orders").last(5)] == [b"one", b"two"]


def forgotten(store: RemoteStore) -> Callable[[], None]:
    """Makes the broker forget the client, as a restart does."""

    def forget() -> None:
        store.calls._session = uuid.uuid4().bytes

    return forget


def test_if_the_broker_has_dropped_the_client_the_outcome_is_reported_as_unknown(
    store: RemoteStore, losing: Losing
) -> None:
    jobs, topic = store.queue("jobs"), store.topic("orders")
    topic.put(b"x")
    work = topic.group("work", mode="queue")
    message = work.take(wait=WAIT_S)
    assert message is not None

    def is_unknown(call: Callable[[], object]) -> bool:
        losing(then=forgotten(store))
        with pytest.raises(OutcomeUnknown) as caught:
            call()
        return not caught.value.retryable

    assert is_unknown(lambda: work.ack(message))
    losing(set())
    # Opened again, by the new session.
    assert jobs.empty()
    assert is_unknown(lambda: jobs.put(1))
    assert is_unknown(lambda: topic.put(b"later", delay=3600.0))
    losing(set())
    assert jobs.get(timeout=WAIT_S) == 1
    with store.transaction(id="mine") as tx:
        losing({NativeKey.CHANGE_TRANSACTION}, then=forgotten(store))
        with pytest.raises(TransactionAborted):
            tx.put("orders", b"never")
        tx.abort()


def test_a_commit_whose_answer_is_lost_with_the_session_is_found_by_its_id(store: RemoteStore, losing: Losing) -> None:
    tx = store.transaction(id="mine")
    tx.put("orders", b"one")
    losing({NativeKey.END_TRANSACTION}, then=forgotten(store))

    tx.commit()

    assert tx.last_state == "done"
    assert [message.body for message in store.topic("orders").last(5)] == [b"one"]


def test_a_put_without_an_answer_must_not_be_retried_and_a_read_may_be(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warren.connect(broker.address, timeout=0.3) as store:
        topic = store.topic("orders")
        topic.put(b"x")
        # No broker runs any more when the answer is lost.
        monkeypatch.setattr(store.calls, "_brokers", KnownBrokers("127.0.0.1:1"))
        for connection in store.calls._idle:
            connection.shut()
        with pytest.raises(OutcomeUnknown) as put:
            topic.put(b"y")
        with pytest.raises(ConnectionLost) as read:
            topic.last(1)

    assert (put.value.retryable, read.value.retryable) == (False, True)


def test_answers_are_kept_only_while_there_is_room() -> None:
    async def work() -> None:
        budget, done = MemoryBudget(200_000), list[int]()
        answers, others = Answers(AnswerRoom(budget, "ann")), Answers(AnswerRoom(budget, "bob"))

        async def ask(session: Answers, number: int, size: int, below: int = 0) -> int:
            async def give() -> tuple[list[bytes], bool]:
                done.append(number)
                await asyncio.sleep(0)
                return [bytes(size)], True

            parts = await session.answer(NativeKey.PARK, number, below, give)
            return len((parts or [b""])[0])

        assert list(await asyncio.gather(ask(answers, 1, 40_000), ask(answers, 1, 40_000))) == [40_000] * 2
        assert budget.sizes[MemoryKind.SESSIONS] == 40_000
        # One user has half of the memory for answers.
        assert await ask(others, 1, 60_000) == 60_000
        with pytest.raises(OutcomeUnknown):
            await ask(others, 1, 60_000)
        assert await ask(answers, 2, 10, below=2) == 10
        with pytest.raises(OutcomeUnknown):
            await ask(answers, 1, 40_000)
        assert budget.sizes[MemoryKind.SESSIONS] < 10_000
        assert await ask(others, 2, 40_000) == 40_000
        answers.close()
        assert await ask(others, 2, 40_000) == 40_000
        assert done == [1, 1, 2, 2]
        others.close()
        assert (budget.size, budget.refusals) == (0, 1)

    run(work())


def test_the_messages_of_a_vanished_client_are_free_after_its_session_has_expired(
    broker: RunningBroker, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "NATIVE_SESSION_S", 0.05)
    topic = store.topic("orders")
    topic.put(b"x")
    with warren.connect(broker.address, timeout=WAIT_S) as gone:
        leased = gone.topic("orders").group("work", mode="queue", lease=600.0).take(wait=WAIT_S)
        assert leased is not None
        gone.calls._drop_idle()

        message = topic.group("work", mode="queue").take(wait=WAIT_S)

    assert message is not None
    assert message.number == leased.number
