"""Optimisations change nothing that users see: topics from memory, and puts that share a commit."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller, batch, fetched
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.services.batch_checks import BATCHES_LOOKED_INTO_FIRST
from warren.broker.settings import BrokerSettings
from warren.message import Receipt
from warren.protocol.api_keys import ApiKey
from warren.protocol.headers import Request, request_frame
from warren.protocol.kafka import record_batch
from warren.protocol.kafka.byte_search import check_and_search
from warren.protocol.primitives import INT32
from warren.storage.format.checksum import crc32c
from warren.storage.format.kafka_batch import pack_kafka

CLIENTS = 20
LARGE = 100_000
"""A request of this size has its own buffer."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    settings = BrokerSettings(auto_create_topics=False)
    with running_broker(tmp_path / "data", settings=settings) as running:
        running.broker.store.topic("orders")
        yield running


def test_a_topic_that_another_process_deletes_no_longer_exists(broker: RunningBroker, tmp_path: Path) -> None:
    with Caller(broker) as caller:
        assert (caller.produce("orders", batch(b"a")), fetched(caller, "orders")) == ((Code.NONE, 0), Code.NONE)

        with warren.open(tmp_path / "data", keeps=False) as other:
            other.delete_topic("orders")

        assert caller.produce("orders", batch(b"b"))[0] == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert fetched(caller, "orders") == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_puts_to_a_recreated_topic_are_stored(broker: RunningBroker) -> None:
    store = broker.broker.store
    with Caller(broker) as caller:
        caller.produce("orders", batch(b"old"))
        store.delete_topic("orders")
        store.topic("orders")

        answer = caller.produce("orders", batch(b"new"))

        assert answer == (Code.NONE, 0)
        assert [message.body for message in store.topic("orders").partition(0).read(0)] == [b"new"]


def test_a_partition_that_another_process_adds_takes_puts_immediately(broker: RunningBroker, tmp_path: Path) -> None:
    with Caller(broker) as caller:
        caller.produce("orders", batch(b"a"))
        with warren.open(tmp_path / "data", keeps=False) as other:
            other.configure_topic("orders", {"partitions": 2})
            other.topic("orders")

        answer = caller.produce("orders", batch(b"b"), partition=1)

        assert answer == (Code.NONE, 0)


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("name", ["o", "or", "ord", "orders"])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_large_batch_is_stored_as_a_small_one(tmp_path: Path, durability: str, name: str, version: int) -> None:
    bodies = [b"%d" % number * LARGE for number in range(BATCHES_LOOKED_INTO_FIRST + 3)]
    with running_broker(tmp_path / "data", durability=durability) as running, Caller(running) as caller:
        log = running.broker.store.topic(name).partition(0)

        answers = [caller.produce(name, batch(body, b"and"), version=version) for body in bodies]

        assert answers == [(Code.NONE, 2 * place) for place in range(len(bodies))]
        assert [message.body for message in log.read(0)] == [part for body in bodies for part in (body, b"and")]
        assert log.verify().messages == 2 * len(bodies)


def test_a_client_that_goes_while_it_waits_gives_its_bytes_back_once(broker: RunningBroker) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    values = {"replica_id": -1, "max_wait_ms": 200, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    body = encode_request(ApiKey.FETCH, 11, values | {"topics": [{"topic": "orders", "partitions": [part]}]})
    frame = request_frame(Request(ApiKey.FETCH, 11, 1, "test", memoryview(body)), is_flexible=False)
    running = broker.broker

    with socket.create_connection(running.advertised) as client:
        client.sendall(INT32.pack(len(frame)) + frame)
        until(lambda: running.long_polls.parked_count == 1)
    until(lambda: not running.connections and not running.long_polls.parked_count)

    assert running.budget.size == 0


def test_puts_of_many_clients_get_numbers_of_their_own(tmp_path: Path) -> None:
    def put(number: int) -> list[tuple[int, int]]:
        with Caller(running) as caller:
            return [caller.produce("orders", batch(b"%d" % number, b"and")) for _ in range(10)]

    with running_broker(tmp_path / "data", durability="commit") as running:
        running.broker.store.topic("orders")

        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = list(clients.map(put, range(CLIENTS)))

        log = running.broker.store.topic("orders").partition(0)
        bodies = [message.body for message in log.read(0, limit=1000)]
        assert {error for each in answers for error, _ in each} == {Code.NONE}
        assert sorted(start for each in answers for _, start in each) == list(range(0, 20 * CLIENTS, 2))
        for number, each in enumerate(answers):
            assert [bodies[start] for _, start in each] == [b"%d" % number] * 10


@pytest.mark.parametrize("durability", ["commit", "os", "interval:10ms"])
def test_a_put_that_fits_no_block_fails_alone(tmp_path: Path, durability: str) -> None:
    with warren.open(tmp_path / "data", durability=durability, block_size=4 << 10, keeps=False) as store:
        log = store.topic("orders").partition(0)
        puts = [[pack_kafka(batch(body))] for body in (b"a", bytes(8 << 10), b"b")]

        first, large, second = log.settle([*puts[:2], [*puts[2], *puts[2]]])

        assert isinstance(first, Receipt)
        assert isinstance(second, Receipt)
        assert (first.number, second.number, log.end) == (0, 1, 3)
        assert isinstance(large, warren.errors.TooLarge)


class CheckCount:
    """Counts the batches whose checksum the broker computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(record_batch, "crc32c", self._counted(crc32c))
        monkeypatch.setattr(record_batch, "check_and_search", self._counted(check_and_search))

    def _counted(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count += 1
            return check(*arguments)

        return counted


@pytest.mark.parametrize(("size", "compression"), [(10, 0), (LARGE, 0), (LARGE, 1)])
@pytest.mark.parametrize("kind", ["plain", "idempotent", "delayed", "two partitions", "wrong"])
def test_the_checksum_of_a_batch_is_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, compression: int, kind: str
) -> None:
    count = BATCHES_LOOKED_INTO_FIRST + 3
    headers = [("warren.deliver-at", b"2100-01-01T00:00Z")] if kind == "delayed" else []
    settings = BrokerSettings(deliver_at="all")
    with running_broker(tmp_path / "data", durability="commit", settings=settings) as running:
        running.broker.store.topic("orders", partitions=2)
        checks = CheckCount(monkeypatch)
        with Caller(running) as caller:
            for number in range(count):
                numbers: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
                producer = numbers if kind == "idempotent" else {}
                data = batch_of([(None, bytes(size), headers)], compression=compression, **producer)
                if kind == "wrong":
                    data = data[:-1] + bytes([data[-1] ^ 1])
                parts = [{"index": index, "records": data} for index in range(2 if kind == "two partitions" else 1)]
                values = {"transactional_id": None, "acks": -1, "timeout_ms": 1000}
                topics = [{"name": "orders", "partition_data": parts}]
                answer = caller.call(ApiKey.PRODUCE, 9, {**values, "topic_data": topics})

                codes = {stored.error_code for stored in answer.responses[0].partition_responses}
                assert codes == {Code.CORRUPT_MESSAGE if kind == "wrong" else Code.NONE}

        assert checks.count == count * (2 if kind == "two partitions" else 1)


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_one_partition_is_answered_as_several_are(tmp_path: Path, durability: str) -> None:
    """The branch for one partition and the general way store and answer the same."""
    kinds = [
        batch(b"a"),
        batch(b"b", b"c"),
        batch_of([(b"k", b"zipped" * 100, [("h", b"v")])], compression=1),
        batch(bytes(LARGE)),
        batch(b"d")[:-1],
        batch(b"e")[:-1] + b"?",
        batch(b"f") + batch(b"g"),
        batch_of([(None, b"numbered", [])], producer_id=7, producer_epoch=0, base_sequence=0),
        batch_of([(None, b"numbered", [])], producer_id=7, producer_epoch=0, base_sequence=0),
        batch_of([(None, b"numbered", [])], producer_id=7, producer_epoch=0, base_sequence=5),
        batch_of([(None, bytes(LARGE), [])], producer_id=7, producer_epoch=0, base_sequence=1),
        batch_of([(None, bytes(LARGE), [])], producer_id=7, producer_epoch=0, base_sequence=1),
        batch_of([(None, bytes(200_000), [])], producer_id=7, producer_epoch=0, base_sequence=2),
        batch_of([(None, b"numbered again", [])], producer_id=7, producer_epoch=0, base_sequence=2),
        batch_of([(None, b"text: warren.deliver-at", [])], producer_id=7, producer_epoch=0, base_sequence=3),
        batch(b"text: warren.deliver-at"),
        batch(bytes(200_000)),
        b"",
    ]
    with running_broker(tmp_path / "data", durability=durability) as running, Caller(running) as caller:
        for name in ("single", "several"):
            running.broker.store.topic(name, partitions=2, message_size_max=150_000)
        for number in range(BATCHES_LOOKED_INTO_FIRST):
            caller.produce("warm", batch(b"%d" % number))

        single = [caller.produce("single", data) for data in kinds]
        several = []
        for data in kinds:
            parts = [{"index": 0, "records": data}, {"index": 7, "records": batch(b"x")}]
            topics = [{"name": "several", "partition_data": parts}]
            values = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": topics}
            stored, missing = caller.call(ApiKey.PRODUCE, 9, values).responses[0].partition_responses
            assert missing.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
            several.append((stored.error_code, stored.base_offset))

        assert single == several
        logs = [running.broker.store.topic(name).partition(0) for name in ("single", "several")]
        bodies = [[(message.number, message.key, message.body) for message in log.read(0)] for log in logs]
        assert bodies[0] == bodies[1]
        assert len(bodies[0]) == 12
