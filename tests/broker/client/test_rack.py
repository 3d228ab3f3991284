"""A client with a rack reads from a broker without replicas as any other client does, and notes the known ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from warren.client.net.known_ends import KnownEnds
from warren.client.store import RemoteStore
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[RemoteStore]:
    with warren.connect(broker.address, rack="b") as connected:
        yield connected


def known_end(store: RemoteStore, partition: int = 0) -> int:
    """Returns the highest end of the partition that the client has noted."""
    ends: KnownEnds = store.reads._ends
    return next(number for number in range(1000) if not ends.are_past("orders", {partition: number}))


def test_a_broker_without_replicas_serves_all_reads_of_a_client_with_a_rack(
    broker: RunningBroker, store: RemoteStore
) -> None:
    topic = store.topic("orders")
    topic.put_many([b"a", b"b", b"c"])
    log = topic.partition(0)

    assert [each.body for each in log.read(0)] == [b"a", b"b", b"c"]
    assert [each.body for each in log.backwards()] == [b"c", b"b", b"a"]
    assert [each.body for each in topic.since(0)] == [b"a", b"b", b"c"]
    assert sum(batch.num_rows for batch in log.scan()) == 3
    assert [each.body for each in topic.broadcast(start=0, wait=0.0)] == [b"a", b"b", b"c"]
    assert repr(store) == f"<RemoteStore {broker.address}>"


def test_every_kind_of_put_moves_the_end_that_the_client_knows(store: RemoteStore) -> None:
    topic = store.topic("orders", partitions=2)
    topic.put(b"a", partition=0)
    assert known_end(store) == 1
    topic.partition(0).append_many([b"b", b"c"])
    assert known_end(store) == 3
    with store.producer("loader") as producer:
        producer.put_many(topic, [b"d", b"e"], partition=0)
    assert known_end(store) == 5
    with store.transaction() as transaction:
        transaction.put("orders", b"f", partition=0)
        assert known_end(store) == 5
    assert known_end(store) == 6
    assert known_end(store, 1) == 0


def test_the_client_notes_the_ends_in_the_answers_of_the_broker(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders")
    here = broker.broker.store.topic("orders")
    here.put_many([b"a", b"b"])
    assert topic.find_time(SYSTEM_CLOCK.now_ns() // 1000 + 60_000_000) == {0: 2}
    assert known_end(store) == 2
    here.put(b"c")
    assert topic.partition(0).end == 3
    assert known_end(store) == 3

    store.delete_topic("orders")

    assert known_end(store) == 0


def test_a_rack_that_is_no_name_is_refused_before_the_client_connects() -> None:
    with pytest.raises(BadInput, match="rack ''"):
        warren.connect("127.0.0.1:1", rack="")
