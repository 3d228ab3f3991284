"""Records that cannot be read, put through Produce: all readers of the broker skip them, and the metrics count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broken_batches import broken_batch, same_delta_batch
from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import WAIT_S
from warren.broker.kafka.errors import Code
from warren.protocol.native.calls import positions_of, wire_positions
from warren.protocol.native_messages import ReadRequest
from warren.storage import START
from warren.storage.format.kafka_batch import pack_kafka

GOOD = batch_of([(None, b"good", [])])


@pytest.fixture(params=[broken_batch(), same_delta_batch()], ids=["random bytes", "all of delta 0"])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Http]:
    """A broker to which a client put messages 0 to 2, a broken batch of 3 to 5, and message 6."""
    with running_http(tmp_path / "data") as server, Caller(server.running) as caller:
        server.running.broker.store.topic("orders")
        for number in (0, 1, 2):
            assert caller.produce("orders", GOOD) == (0, number)
        assert caller.produce("orders", request.param) == (0, 3)
        assert caller.produce("orders", GOOD) == (0, 6)
        yield server


def numbers(messages: Any) -> list[int]:
    return [message.number for message in messages]


def test_every_call_of_a_client_passes_over_unreadable_batches(served: Http) -> None:
    with warren.connect(served.running.address, timeout=WAIT_S) as store:
        topic = store.topic("orders")
        log = topic.partition(0)
        with topic.group("g") as group:
            assert numbers(group.read()) == [0, 1, 2, 6]
            assert group.commit() == {0: 7}
        with topic.group("w", mode="queue") as work:
            messages = work.take(100)
            work.ack_many(messages)
            assert (numbers(messages), work.lag()) == ([0, 1, 2, 6], {0: 0})
        assert numbers(log.read(0)) == [0, 1, 2, 6]
        assert numbers(log.backwards()) == [6, 2, 1, 0]
        assert (log.at(4), numbers(log.last(2))) == (None, [6])
        assert [row for batch in log.scan() for row in batch.column("number").to_pylist()] == [0, 1, 2, 6]
        assert numbers(topic.broadcast(start=START, wait=0.0)) == [0, 1, 2, 6]


@pytest.mark.parametrize("readable", [0, 3])
def test_a_read_backwards_over_the_network_ends_if_the_first_messages_cannot_be_read(
    tmp_path: Path, readable: int
) -> None:
    with running_broker(tmp_path / "data") as running, warren.connect(running.address, timeout=WAIT_S) as store:
        here = running.broker.store.topic("orders").partition(0)
        here.append_packed([pack_kafka(broken_batch())])
        for _ in range(readable):
            here.append(b"good")

        answer = store.calls.call(ReadRequest("orders", wire_positions({0: 2}), is_backwards=True, limit=100))

        assert positions_of(answer.positions) == {0: -1}
        assert numbers(store.topic("orders").partition(0).backwards()) == [5, 4, 3][:readable]


def test_a_read_backwards_over_the_network_ends_if_messages_are_retired_during_it(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running, warren.connect(running.address, timeout=WAIT_S) as store:
        here = running.broker.store.topic("orders").partition(0)
        here.append_many([b"%d" % number for number in range(1000)])
        reading = store.topic("orders").partition(0).backwards()

        first = next(reading)
        here.retire(before=900, exactly=True)
        answer = store.calls.call(ReadRequest("orders", wire_positions({0: 899}), is_backwards=True, limit=100))

        assert positions_of(answer.positions) == {0: -1}
        assert [first.number, *numbers(reading)] == list(range(999, 743, -1))


def test_http_passes_over_unreadable_batches_and_the_metrics_count_them(served: Http) -> None:
    whole = served.ask("GET", "/v1/topics/orders/messages?number=0").document
    back = served.ask("GET", "/v1/topics/orders/messages?backwards=true").document

    assert [message["number"] for message in whole["messages"]] == [0, 1, 2, 6]
    assert whole["next"] == 7
    assert [message["number"] for message in back["messages"]] == [6, 2, 1, 0]
    assert served.ask("GET", "/v1/topics/orders/messages/0/4").status == 404
    line = 'warren_partition_batches_passed_over_total{partition="0",topic="orders"} '
    text = served.ask("GET", "/metrics").data.decode()
    assert float(text.split(line)[1].split()[0]) >= 3


def test_a_topic_whose_batches_are_searched_refuses_every_batch_that_does_not_unpack(served: Http) -> None:
    served.running.broker.store.topic("orders").configure(deliver_at="all")

    with Caller(served.running) as caller:
        for _ in range(4):
            assert caller.produce("orders", broken_batch(compression=3)) == (Code.CORRUPT_MESSAGE, -1)
            assert caller.produce("orders", GOOD)[0] == Code.NONE
