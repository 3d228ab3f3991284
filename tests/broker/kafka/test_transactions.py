"""Transactions of Kafka clients: readers see all of a committed transaction and nothing of any other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from tests.support.broker.calls import Caller, numbered_batch
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.patience import SHORT_S, until
from warren.broker.kafka.errors import Code
from warren.broker.kafka.producers.ids import ProducerIds
from warren.broker.kafka.transactions import identities
from warren.broker.kafka.transactions.open_transaction import OpenTransaction
from warren.broker.kafka.transactions.requests import KAFKA_TRANSACTION_TIMEOUT_S_MAX
from warren.broker.kafka.transactions.states import TRANSITIONS, WAITING, TransactionEvent, TransactionState, next_state
from warren.errors import StorageFull
from warren.transaction.coordinator import Coordinator
from warren.transaction.transaction import Transaction

Who = tuple[str, int, int]


@pytest.fixture(params=["os", "commit"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(durability: str, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=durability) as running:
        running.broker.store.topic("orders", 2)
        yield running


@pytest.fixture
def caller(broker: RunningBroker) -> Iterator[Caller]:
    with Caller(broker) as caller:
        yield caller


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for log in broker.broker.store.topic(topic).logs for message in log.read(0, limit=1000)]


def begun(caller: Caller, transactional_id: str = "mine", **values: Any) -> Who:
    error, producer_id, epoch = caller.init(transactional_id, **values)
    assert error == Code.NONE
    return transactional_id, producer_id, epoch


def put(caller: Caller, who: Who, sequence: int, *values: bytes, partition: int = 0) -> tuple[int, int]:
    batch = numbered_batch(who[1:], sequence, *values, is_transactional=True)
    return caller.produce("orders", batch, partition=partition, transactional_id=who[0])


def test_uncommitted_messages_are_visible_to_no_reader_and_committed_ones_to_all(
    broker: RunningBroker, caller: Caller
) -> None:
    who = begun(caller)

    assert caller.add(who, "orders", 0, 1) == [0, 0]
    assert put(caller, who, 0, b"a", b"b") == (0, 0)
    assert put(caller, who, 2, b"c") == (0, 2)
    assert put(caller, who, 0, b"d", partition=1) == (0, 0)
    before = bodies(broker)
    assert caller.end(who, committed=True) == Code.NONE

    assert before == []
    assert bodies(broker) == [b"a", b"b", b"c", b"d"]


def test_an_aborted_transaction_leaves_nothing_and_the_next_one_works(broker: RunningBroker, caller: Caller) -> None:
    who = begun(caller)
    caller.add(who, "orders", 0)
    put(caller, who, 0, b"no")

    assert caller.end(who, committed=False) == Code.NONE
    caller.add(who, "orders", 0)
    assert put(caller, who, 1, b"yes") == (0, 0)
    assert caller.end(who, committed=True) == Code.NONE

    assert bodies(broker) == [b"yes"]


def test_a_batch_that_comes_twice_is_in_a_transaction_once(broker: RunningBroker, caller: Caller) -> None:
    who = begun(caller)
    caller.add(who, "orders", 0)

    answers = [put(caller, who, 0, b"a"), put(caller, who, 1, b"b"), put(caller, who, 0, b"a")]
    caller.end(who, committed=True)

    assert answers == [(0, 0), (0, 1), (0, 0)]
    assert bodies(broker) == [b"a", b"b"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_repeated_end_is_answered_as_done(caller: Caller, committed: bool) -> None:
    who = begun(caller)
    caller.add(who, "orders", 0)
    put(caller, who, 0, b"a")

    assert caller.end(who, committed=committed) == Code.NONE
    assert caller.end(who, committed=committed) == Code.NONE
    assert caller.end(who, committed=not committed) == Code.INVALID_TXN_STATE


def test_the_same_transactional_id_keeps_its_producer_id_and_fences_the_one_before(
    broker: RunningBroker, caller: Caller
) -> None:
    old = begun(caller)
    caller.add(old, "orders", 0)
    put(caller, old, 0, b"of the old one")

    new = begun(caller)

    assert new == ("mine", old[1], old[2] + 1)
    assert put(caller, old, 1, b"more")[0] == Code.INVALID_PRODUCER_EPOCH
    assert caller.add(old, "orders", 1) == [Code.PRODUCER_FENCED]
    assert caller.add(old, "orders", 1, version=1) == [Code.INVALID_PRODUCER_EPOCH]
    assert caller.end(old, committed=True) == Code.PRODUCER_FENCED
    assert caller.end(old, committed=True, version=1) == Code.INVALID_PRODUCER_EPOCH
    assert caller.add_group(old, "readers") == Code.PRODUCER_FENCED
    assert caller.commit_position(old, "readers", "orders", 0) == Code.INVALID_PRODUCER_EPOCH
    assert bodies(broker) == []


def test_only_the_current_producer_or_one_that_lost_the_answer_may_raise_the_epoch(caller: Caller) -> None:
    _, producer_id, _ = begun(caller)

    raised = caller.init("mine", producer_id=producer_id, producer_epoch=0)
    again = caller.init("mine", producer_id=producer_id, producer_epoch=0)
    caller.init("mine", producer_id=producer_id, producer_epoch=1)
    late = caller.init("mine", producer_id=producer_id, producer_epoch=0)
    late_before_4 = caller.init("mine", version=3, producer_id=producer_id, producer_epoch=0)
    another = caller.init("mine", producer_id=producer_id + 1, producer_epoch=2)

    assert raised == again == (0, producer_id, 1)
    assert late[0] == another[0] == Code.PRODUCER_FENCED
    assert late_before_4[0] == Code.INVALID_PRODUCER_EPOCH


def test_the_epoch_and_the_id_outlast_the_broker(tmp_path: Path) -> None:
    producers = []
    for _ in range(3):
        with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
            producers.append(begun(caller))

    assert [epoch for _, _, epoch in producers] == [0, 1, 2]
    assert len({id for _, id, _ in producers}) == 1


def test_when_epochs_run_out_there_is_a_new_producer_id(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "EPOCH_MAX", 1)

    producers = [begun(caller) for _ in range(3)]

    assert [epoch for _, _, epoch in producers] == [0, 1, 0]
    assert producers[1][1] == producers[0][1] != producers[2][1]


def test_the_number_of_transactional_ids_has_a_limit(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "TRANSACTIONAL_IDS_MAX", 2)

    errors = [caller.init(name)[0] for name in ("a", "b", "c", "a")]

    assert errors == [Code.NONE, Code.NONE, Code.POLICY_VIOLATION, Code.NONE]


def test_invalid_transaction_requests_are_refused(broker: RunningBroker, caller: Caller) -> None:
    who = begun(caller)
    too_long = round(KAFKA_TRANSACTION_TIMEOUT_S_MAX * 1000) + 1

    assert caller.init("")[0] == Code.INVALID_REQUEST
    assert caller.init("x" * 2000)[0] == Code.INVALID_REQUEST
    assert caller.init("mine", transaction_timeout_ms=0)[0] == Code.INVALID_TRANSACTION_TIMEOUT
    assert caller.init("mine", transaction_timeout_ms=too_long)[0] == Code.INVALID_TRANSACTION_TIMEOUT
    assert caller.end(who, committed=True) == Code.INVALID_TXN_STATE
    assert put(caller, who, 0, b"a")[0] == Code.INVALID_TXN_STATE
    assert caller.add(("unknown", 1, 0), "orders", 0) == [Code.INVALID_PRODUCER_ID_MAPPING]
    assert caller.add(("mine", who[1] + 1, 0), "orders", 0) == [Code.INVALID_PRODUCER_ID_MAPPING]
    assert put(caller, ("unknown", 1, 0), 0, b"a")[0] == Code.INVALID_PRODUCER_ID_MAPPING
    errors = caller.add(who, "orders", 0, 9)
    assert errors == [Code.OPERATION_NOT_ATTEMPTED, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert caller.add(who, "orders", 0) == [Code.NONE]
    assert put(caller, who, 0, b"a", partition=1)[0] == Code.INVALID_TXN_STATE
    assert caller.commit_position(who, "readers", "orders", 0) == Code.INVALID_TXN_STATE
    assert bodies(broker) == []


def test_a_transaction_whose_time_is_over_is_aborted_and_its_producer_fenced(
    broker: RunningBroker, caller: Caller
) -> None:
    who = begun(caller, transaction_timeout_ms=100)
    caller.add(who, "orders", 0)
    put(caller, who, 0, b"too late")

    until(lambda: caller.add(who, "orders", 1) == [Code.PRODUCER_FENCED])

    assert caller.end(who, committed=True) == Code.PRODUCER_FENCED
    until(lambda: caller.init("mine", producer_id=who[1], producer_epoch=who[2]) == (0, who[1], who[2] + 1))
    assert bodies(broker) == []


def test_positions_are_committed_with_the_transaction(broker: RunningBroker, caller: Caller) -> None:
    store, who = broker.broker.store, begun(caller)
    topic = store.topic("orders")
    for number in range(5):
        topic.put(b"%d" % number, partition=0)
    committed = []

    assert caller.add_group(who, "readers") == Code.NONE
    assert caller.commit_position(who, "readers", "orders", 4) == Code.NONE
    committed.append(broker.broker.positions.find(topic, "readers").get(0))
    undecided = store.undecided("orders", "readers")
    caller.end(who, committed=True)
    committed.append(broker.broker.positions.find(topic, "readers").get(0))

    assert committed == [None, (4, 0, "a note")]
    assert undecided == {0}
    assert store.undecided("orders", "readers") == set()


def test_positions_of_an_aborted_transaction_stay(broker: RunningBroker, caller: Caller) -> None:
    topic, who = broker.broker.store.topic("orders"), begun(caller)
    topic.put(b"a", partition=0)
    caller.add_group(who, "readers")
    caller.commit_position(who, "readers", "orders", 1)

    caller.end(who, committed=False)

    assert broker.broker.positions.find(topic, "readers") == {}
    assert caller.add_group(who, "no name of a group/") == Code.NONE
    assert caller.commit_position(who, "no name of a group/", "orders", 1) == Code.INVALID_GROUP_ID


def test_requests_during_the_end_of_a_transaction_get_a_retryable_error(
    broker: RunningBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, go, reached = begun(caller), threading.Event(), threading.Event()
    caller.add(who, "orders", 0)
    put(caller, who, 0, b"a")
    commit = Transaction.commit

    def wait(transaction: Transaction) -> None:
        reached.set()
        go.wait(PATIENCE_S)
        commit(transaction)

    monkeypatch.setattr(Transaction, "commit", wait)
    ending = threading.Thread(target=lambda: caller.end(who, committed=True))
    ending.start()
    assert reached.wait(PATIENCE_S)
    with Caller(broker) as other:
        errors = [other.add(who, "orders", 1)[0], other.end(who, committed=True), other.init("mine")[0]]
        refused = put(other, who, 1, b"b")[0]
    go.set()
    ending.join(PATIENCE_S)

    assert errors == [Code.CONCURRENT_TRANSACTIONS] * 3
    assert refused == Code.INVALID_TXN_STATE
    assert bodies(broker) == [b"a"]


def test_batches_that_wait_while_the_transaction_ends_are_not_part_of_it(
    broker: RunningBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, go, reached = begun(caller), threading.Event(), threading.Event()
    caller.add(who, "orders", 0)
    stage, commit = OpenTransaction.put, OpenTransaction.commit

    def wait(*arguments: Any) -> None:
        reached.set()
        go.wait(PATIENCE_S)
        stage(*arguments)

    def commit_slowly(*arguments: Any) -> None:
        sleep(SHORT_S)
        commit(*arguments)

    monkeypatch.setattr(OpenTransaction, "put", wait)
    monkeypatch.setattr(OpenTransaction, "commit", commit_slowly)
    with ThreadPoolExecutor(3) as pool, Caller(broker) as second, Caller(broker) as third:
        on_its_way = pool.submit(put, caller, who, 0, b"a")
        assert reached.wait(PATIENCE_S)
        behind_it = pool.submit(put, second, who, 1, b"b")
        sleep(SHORT_S)
        ended = pool.submit(third.end, who, committed=True)
        sleep(SHORT_S)
        go.set()

        assert on_its_way.result(PATIENCE_S) == (Code.NONE, 0)
        assert ended.result(PATIENCE_S) == Code.NONE
        assert behind_it.result(PATIENCE_S)[0] == Code.INVALID_TXN_STATE
    assert bodies(broker) == [b"a"]


def test_a_transaction_that_cannot_be_committed_is_aborted_with_an_error(
    broker: RunningBroker, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = begun(caller)
    caller.add(who, "orders", 0)
    put(caller, who, 0, b"a")
    with monkeypatch.context() as full:
        full.setattr(Coordinator, "_commit_open", raising(StorageFull("journal", 1)))
        assert caller.end(who, committed=True) == Code.INVALID_TXN_STATE

    assert caller.end(who, committed=True) == Code.INVALID_TXN_STATE
    assert caller.end(who, committed=False) == Code.NONE
    assert bodies(broker) == []


def raising(error: Exception) -> Any:
    def fail(*arguments: Any) -> Any:
        raise error

    return fail


# --- A broker that dies ---


def test_an_open_transaction_is_lost_with_its_broker_and_never_half_committed(durability: str, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders", 2)
        who = begun(caller)
        caller.add(who, "orders", 0)
        put(caller, who, 0, b"first half")

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        assert caller.add(who, "orders", 1) == [Code.PRODUCER_FENCED]
        assert put(caller, who, 0, b"second half", partition=1)[0] == Code.INVALID_PRODUCER_EPOCH
        assert caller.end(who, committed=True) == Code.PRODUCER_FENCED
        assert caller.init("mine", producer_id=who[1], producer_epoch=who[2]) == (0, who[1], who[2] + 1)
        assert bodies(broker) == []
        store = broker.broker.store
        identity_file = identities.Identities(store.filesystem, store.path, ProducerIds(store.filesystem, store.path))
        assert getattr(identity_file.find("mine"), "epoch", None) == who[2] + 1


def test_a_commit_whose_answer_was_lost_with_the_broker_is_answered_as_done(durability: str, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders", 2)
        who = begun(caller)
        caller.add(who, "orders", 0)
        put(caller, who, 0, b"a")
        caller.end(who, committed=True)

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        assert caller.end(who, committed=True) == Code.NONE
        assert caller.end(who, committed=False) == Code.INVALID_TXN_STATE
        assert caller.add(who, "orders", 0) == [Code.NONE]
        assert put(caller, who, 1, b"b") == (0, 1)
        assert caller.end(who, committed=True) == Code.NONE
        assert bodies(broker) == [b"a", b"b"]


def test_an_abort_survives_a_restart_and_fences_no_producer(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders", 2)
        who = begun(caller)
        caller.add(who, "orders", 0)
        caller.end(who, committed=False)

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.end(who, committed=False) == Code.NONE
        assert caller.end(who, committed=True) == Code.INVALID_TXN_STATE
        assert caller.add(who, "orders", 0) == [Code.NONE]


# --- States ---


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("event", TransactionEvent)
def test_every_pair_of_state_and_event_has_an_answer(state: TransactionState, event: TransactionEvent) -> None:
    is_asked = event in (TransactionEvent.ADD, TransactionEvent.COMMIT, TransactionEvent.ABORT)
    refused = Code.CONCURRENT_TRANSACTIONS if state in WAITING and is_asked else Code.INVALID_TXN_STATE

    assert next_state(state, event) == TRANSITIONS.get((state, event), refused)


def test_a_pending_end_is_left_only_by_its_outcome() -> None:
    events = {event for state, event in TRANSITIONS if state in WAITING}

    assert events == {TransactionEvent.FINISH, TransactionEvent.FAIL}


def test_an_id_that_is_not_used_is_forgotten_and_one_with_an_open_transaction_is_not(broker: RunningBroker) -> None:
    broker.broker.store.topic("orders")
    with Caller(broker) as caller:
        _, id, epoch = caller.init("idle")
        idle = "idle", id, epoch
        _, id, epoch = caller.init("busy")
        busy = "busy", id, epoch
        caller.add(busy, "orders", 0)

        # As if seven days had passed.
        broker.broker.settings = replace(broker.broker.settings, transactional_id_s=-1.0)
        expired = asyncio.run_coroutine_threadsafe(broker.broker.transactions.expire(), broker.loop).result(PATIENCE_S)
        refused = caller.add(idle, "orders", 0)
        committed = caller.end(busy, committed=True)
        error, id, epoch = caller.init("idle")

    assert (expired, committed, error, epoch) == (1, 0, 0, 0)
    assert refused == [Code.INVALID_PRODUCER_ID_MAPPING]
    assert id != idle[1]
