"""Messages that are too large for any answer of the broker: an error names them, nothing is lost, and a client can skip
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import WAIT_S
from warren.broker.kafka.errors import Code
from warren.broker.native import held_stream
from warren.broker.native import read as reading
from warren.client.store import RemoteStore
from warren.errors import MessageTooLarge
from warren.protocol.native import records
from warren.storage.format.limits import KEY_SIZE_MAX
from warren.storage.read.messages import ScanRoom

LARGE_KEY = b"k" * (KEY_SIZE_MAX + 1)
"""A Kafka client may put such a key, but our own records cannot carry it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[RemoteStore]:
    with warren.connect(broker.address, timeout=WAIT_S) as connected:
        yield connected


def put_with_a_large_one(broker: RunningBroker, store: RemoteStore, *, partitions: int = 1) -> None:
    """Puts messages 0, 1 and 2, a large one with number 3, and number 4, into partition 0."""
    topic = store.topic("orders", partitions=partitions)
    topic.partition(0).append_many([b"0", b"1", b"2"])
    with Caller(broker) as caller:
        assert caller.produce("orders", batch_of([(LARGE_KEY, b"3", [])])) == (0, 3)
    topic.partition(0).append(b"4")


def numbers(messages: Any) -> list[int]:
    return [message.number for message in messages]


def named(error: MessageTooLarge) -> tuple[str, int, int]:
    return error.topic, error.partition, error.number


def test_a_stream_group_gets_the_messages_before_a_large_one_then_an_error_with_its_number(
    broker: RunningBroker, store: RemoteStore
) -> None:
    put_with_a_large_one(broker, store)
    group = store.topic("orders").group("g")

    first = group.read(100)
    with pytest.raises(MessageTooLarge):
        group.read(100)
    with pytest.raises(MessageTooLarge, match="continue from number 4") as caught:
        group.read(100)
    committed = group.commit()
    group.seek(caught.value.number + 1, caught.value.partition)

    assert numbers(first) == [0, 1, 2]
    assert (named(caught.value), committed) == (("orders", 0, 3), {0: 3})
    assert numbers(group.read(100)) == [4]


def test_iterating_over_a_stream_group_loses_nothing_before_a_large_message(
    broker: RunningBroker, store: RemoteStore
) -> None:
    put_with_a_large_one(broker, store)
    group = store.topic("orders").group("g")
    messages = iter(group)

    read = [next(messages).number for _ in range(3)]
    with pytest.raises(MessageTooLarge):
        next(messages)
    group.seek(4, 0)

    assert read == [0, 1, 2]
    assert next(iter(group)).number == 4


def test_other_partitions_do_not_wait_for_a_client_to_go_past_a_large_message(
    broker: RunningBroker, store: RemoteStore
) -> None:
    put_with_a_large_one(broker, store, partitions=2)
    group = store.topic("orders").group("g")
    assert numbers(group.read(100)) == [0, 1, 2]
    store.topic("orders").partition(1).append(b"there")

    with pytest.raises(MessageTooLarge):
        group.read(100)
    others = group.read(100)
    with pytest.raises(MessageTooLarge):
        group.read(100)

    assert [(message.partition, message.number) for message in others] == [(1, 0)]
    assert group.commit() == {0: 3, 1: 1}


def test_messages_of_a_failed_answer_are_read_again(
    broker: RunningBroker, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_with_a_large_one(broker, store)
    topic = broker.broker.store.topic("orders")
    stream: Any = topic.group("g")
    held = held_stream.HeldStream(stream)
    attempt = held_stream.Attempt()
    held.begin(1, attempt, 1)

    def broken(messages: object) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(held_stream, "carried", broken)
        with pytest.raises(MemoryError):
            held.read(1, attempt, 100, 1 << 20, ScanRoom())

    messages = held.read(1, attempt, 100, 1 << 20, ScanRoom())
    assert messages is not None
    assert messages.numbers == (0, 1, 2)
    held.close()


def test_a_worker_gets_an_error_for_a_large_message_and_can_reject_it(
    broker: RunningBroker, store: RemoteStore
) -> None:
    put_with_a_large_one(broker, store)
    group = store.topic("orders").group("g", mode="queue", attempts_max=1)

    first = group.take(100)
    with pytest.raises(MessageTooLarge, match="reject or ack") as caught:
        group.take(100)
    second = group.take(100)
    group.reject(caught.value.message, "too large")
    group.ack_many([*first, *second])

    assert (numbers(first), named(caught.value), caught.value.attempt) == ([0, 1, 2], ("orders", 0, 3), 1)
    assert [(message.number, message.attempt) for message in second] == [(4, 1)]
    assert (group.lag(), group.in_flight()) == ({0: 0}, 0)
    [letter] = list(store.topic("orders").dead_letters())
    assert b"key" in letter.message.headers["warren.damage"]
    assert group.redrive() == 0


def test_a_large_message_can_be_acknowledged_by_its_error(broker: RunningBroker, store: RemoteStore) -> None:
    put_with_a_large_one(broker, store)
    group = store.topic("orders").group("g", mode="queue")
    group.ack_many(group.take(100))

    with pytest.raises(MessageTooLarge) as caught:
        group.take(100)
    group.ack(caught.value.message)
    group.ack_many(group.take(100))

    assert group.lag() == {0: 0}


def test_a_worker_takes_no_more_than_an_answer_holds_and_the_rest_counts_no_attempt(
    broker: RunningBroker, store: RemoteStore
) -> None:
    store.topic("orders").put_many([bytes(1 << 20) for _ in range(40)])
    group = store.topic("orders").group("g", mode="queue", attempts_max=2)
    embedded: Any = broker.broker.store.topic("orders").group("g", mode="queue")
    sizes, attempts = [], []

    while messages := group.take(100):
        sizes.append(sum(len(message.body) for message in messages))
        attempts += [message.attempt for message in messages]
        in_flight = embedded.in_flight()
        assert in_flight == len(messages)
        group.ack_many(messages)

    assert (sum(sizes), set(attempts)) == (40 << 20, {1})
    assert max(sizes) <= 8 << 20
    embedded.close()


def test_a_read_by_number_returns_the_messages_before_a_large_one_in_both_directions(
    broker: RunningBroker, store: RemoteStore
) -> None:
    put_with_a_large_one(broker, store)
    log = store.topic("orders").partition(0)

    assert numbers(log.read(0, limit=3)) == [0, 1, 2]
    with pytest.raises(MessageTooLarge) as caught:
        log.read(3, limit=3)
    assert named(caught.value) == ("orders", 0, 3)
    assert numbers(log.read(4, limit=3)) == [4]
    backwards = log.backwards()
    assert next(backwards).number == 4
    with pytest.raises(MessageTooLarge):
        next(backwards)
    assert next(log.backwards(2)).number == 2


def test_an_answer_that_becomes_too_large_is_cut(
    broker: RunningBroker, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topic("orders").put_many([bytes(1000)] * 10)
    monkeypatch.setattr(records, "ANSWER_SIZE_MAX", 4000)
    messages = broker.broker.store.topic("orders").partition(0).read(0)

    sent, count = records.carried(messages)
    with pytest.raises(MessageTooLarge):
        records.carried([messages[0]._replace(body=bytes(5000))])

    assert (count, len(sent.numbers)) == (2, 2)
    assert len(store.topic("orders").group("g").read(10)) == 10


def test_a_scan_of_large_rows_comes_in_pieces_and_names_a_row_that_is_too_large(
    broker: RunningBroker, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topic("orders").put_many([bytes(1000)] * 10)
    monkeypatch.setattr(reading, "SCAN_PIECE_SIZE_MAX", 3000)
    monkeypatch.setattr(reading, "ANSWER_SIZE_MAX", reading.SCAN_OVERHEAD_MAX + 4000)
    log = store.topic("orders").partition(0)

    rows = [number for batch in log.scan() for number in batch.column("number").to_pylist()]
    store.topic("orders").put(bytes(5000))

    assert rows == list(range(10))
    with pytest.raises(MessageTooLarge) as caught:
        list(log.scan(start=10))
    assert named(caught.value) == ("orders", 0, 10)


@pytest.mark.parametrize("compression", range(1, 5))
def test_a_small_batch_that_unpacks_to_a_large_message_is_refused_in_every_request_of_a_connection(
    broker: RunningBroker, store: RemoteStore, compression: int
) -> None:
    topic = store.topic("orders", message_size_max=100_000)
    bomb = batch_of([(None, bytes(5 << 20), [])], compression=compression)
    many = batch_of([(None, bytes(90_000), [])] * 10, compression=compression)

    with Caller(broker) as caller:
        for number in range(4):
            assert caller.produce("orders", batch_of([(None, b"good", [])]))[0] == Code.NONE
            assert caller.produce("orders", bomb) == (Code.MESSAGE_TOO_LARGE, -1)
            assert topic.partition(0).end == number + 1
        assert caller.produce("orders", many)[0] == Code.NONE
