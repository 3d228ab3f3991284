"""Producers that number their batches: a repeated batch is written once, also across a restart of the broker."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller, numbered_batch
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.kafka.producers import registry
from warren.broker.kafka.producers.sequences import SEQUENCE_END
from warren.broker.services import batch_checks
from warren.errors import StorageFull
from warren.protocol.api_keys import ApiKey
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_CHECKED_AT, KafkaBatchHead

PRODUCER = 7, 0


@pytest.fixture(params=["os", "commit"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(durability: str, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=durability) as running:
        yield running


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for log in broker.broker.store.topic(topic).logs for message in log.read(0, limit=100_000)]


def test_a_batch_that_comes_twice_is_written_once_and_gets_the_same_number(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        first = caller.produce("orders", numbered_batch(PRODUCER, 0, b"a", b"b"))
        caller.produce("orders", numbered_batch((8, 0), 0, b"of another"))
        caller.produce("orders", numbered_batch(PRODUCER, 2, b"c"))

        again = caller.produce("orders", numbered_batch(PRODUCER, 0, b"a", b"b"))

    assert first == again == (0, 0)
    assert bodies(broker) == [b"a", b"b", b"of another", b"c"]


def test_batches_out_of_order_or_of_an_old_epoch_are_refused(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        caller.produce("orders", numbered_batch((7, 1), 0, b"a"))

        assert caller.produce("orders", numbered_batch((7, 1), 2, b"c"))[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert caller.produce("orders", numbered_batch((7, 0), 1, b"b"))[0] == Code.INVALID_PRODUCER_EPOCH
        assert caller.produce("orders", numbered_batch((7, 2), 1, b"b"))[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert caller.produce("orders", numbered_batch((7, 2), 0, b"b"))[0] == Code.NONE

    assert bodies(broker) == [b"a", b"b"]


def test_two_batches_of_a_producer_for_one_partition_are_refused(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        both = numbered_batch(PRODUCER, 0, b"a") + numbered_batch(PRODUCER, 1, b"b")

        assert caller.produce("orders", both)[0] == Code.INVALID_RECORD

    assert bodies(broker) == []


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_batch_is_recognised_after_a_restart(
    durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    if not is_noted:
        monkeypatch.setattr(registry.Producers, "close", lambda self: None)
    batches = [numbered_batch(PRODUCER, number, b"%d" % number) for number in (SEQUENCE_END - 1, 0, 1)]
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        for batch in batches:
            assert caller.produce("orders", batch)[0] == Code.NONE
    assert (tmp_path / "data/topics/orders/0/sequences.json").exists() == is_noted

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        answers = [caller.produce("orders", batch) for batch in batches]
        skipped = caller.produce("orders", numbered_batch(PRODUCER, 3, b"too soon"))
        following = caller.produce("orders", numbered_batch(PRODUCER, 2, b"2"))

        assert answers == [(0, 0), (0, 1), (0, 2)]
        assert skipped[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert following == (0, 3)
        assert bodies(broker) == [b"%d" % (SEQUENCE_END - 1), b"0", b"1", b"2"]


def test_batches_after_the_last_note_are_known_too(
    durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.Producers, "close", lambda self: None)
    batches = [numbered_batch(PRODUCER, number, b"%d" % number) for number in range(9)]
    note = tmp_path / "data/topics/orders/0/sequences.json"
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        with monkeypatch.context() as often:
            often.setattr(registry, "SEQUENCES_NOTE_BATCHES", 3)
            for batch in batches[:6]:
                caller.produce("orders", batch)
            until(note.exists)
        for batch in batches[6:]:
            caller.produce("orders", batch)

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        answers = [caller.produce("orders", batch) for batch in batches[-5:]]

        assert 0 < json.loads(note.read_text())["end"] < 9
        assert answers == [(0, number) for number in range(4, 9)]
        assert len(bodies(broker)) == 9


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"end": 1, "producers": [[1]]}', '{"end": 99, "producers": []}']
)
def test_a_damaged_note_is_rebuilt_from_the_log(durability: str, tmp_path: Path, text: str) -> None:
    batch = numbered_batch(PRODUCER, 0, b"a")
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        caller.produce("orders", batch)
    (tmp_path / "data/topics/orders/0/sequences.json").write_text(text)

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == (0, 0)
        assert bodies(broker) == [b"a"]


@pytest.mark.parametrize("others", [[], [b"x", b"y", b"z"]])
def test_a_note_about_lost_records_is_ignored(durability: str, tmp_path: Path, others: list[bytes]) -> None:
    batches = [numbered_batch(PRODUCER, number, b"%d" % number) for number in range(3)]
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        caller.produce("orders", batches[0])
    shutil.copytree(tmp_path / "data/topics/orders/0", tmp_path / "before")
    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        for batch in batches[1:]:
            caller.produce("orders", batch)
    note = (tmp_path / "data/topics/orders/0/sequences.json").read_bytes()
    shutil.rmtree(tmp_path / "data/topics/orders/0")
    shutil.move(tmp_path / "before", tmp_path / "data/topics/orders/0")
    (tmp_path / "data/topics/orders/0/sequences.json").write_bytes(note)
    with warren.open(tmp_path / "data") as store:
        for body in others:
            store.topic("orders").put(body)

    with running_broker(tmp_path / "data", durability=durability) as broker, Caller(broker) as caller:
        answers = [caller.produce("orders", batch) for batch in batches]

        end = 1 + len(others)
        assert answers == [(0, 0), (0, end), (0, end + 1)]
        assert bodies(broker) == [b"0", *others, b"1", b"2"]


def test_batches_after_a_failed_one_are_not_stored_before_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Caller(broker) as caller:
        caller.produce("orders", numbered_batch((8, 0), 0, b"other"))
        log = broker.broker.store.topic("orders").partition(0)
        with monkeypatch.context() as broken:
            for way in ("append_packed", "append_record", "settle"):
                broken.setattr(log, way, raising(StorageFull("log", 1)))
            assert caller.produce("orders", numbered_batch(PRODUCER, 0, b"a"))[0] == Code.STORAGE_ERROR

        assert caller.produce("orders", numbered_batch(PRODUCER, 1, b"b"))[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert caller.produce("orders", numbered_batch(PRODUCER, 0, b"a"))[0] == Code.NONE
        assert caller.produce("orders", numbered_batch(PRODUCER, 1, b"b"))[0] == Code.NONE
        assert bodies(broker) == [b"other", b"a", b"b"]


def raising(error: Exception) -> Any:
    def fail(*arguments: Any) -> Any:
        raise error

    return fail


def test_ids_are_assigned_once_also_across_restarts(tmp_path: Path) -> None:
    answers = []
    for _ in range(3):
        with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
            answers += [caller.init(version=version) for version in (0, 1, 2, 3, 4)]

    assert {(error, epoch) for error, _, epoch in answers} == {(0, 0)}
    assert len({id for _, id, _ in answers}) == len(answers)


def test_confluent_kafka_writes_each_message_once(broker: RunningBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    out = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "log_level": 0, "enable.idempotence": True, "linger.ms": 1}
    )

    for number in range(2000):
        out.produce("orders", b"%d" % number)
        out.poll(0)

    assert out.flush(PATIENCE_S) == 0
    assert bodies(broker) == [b"%d" % number for number in range(2000)]


def test_kafka_python_is_served_as_it_comes(broker: RunningBroker) -> None:
    kafka = pytest.importorskip("kafka")
    out = kafka.KafkaProducer(bootstrap_servers=broker.address)

    sent = [out.send("orders", b"%d" % number) for number in range(200)]
    numbers = [future.get(PATIENCE_S).offset for future in sent]
    out.close()

    assert numbers == list(range(200))
    assert bodies(broker) == [b"%d" % number for number in range(200)]


def test_aiokafka_is_served_with_idempotence(broker: RunningBroker) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def send() -> list[int]:
        out = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
        await out.start()
        try:
            return [(await out.send_and_wait("orders", b"%d" % number)).offset for number in range(20)]
        finally:
            await out.stop()

    assert asyncio.run(send()) == list(range(20))
    assert bodies(broker) == [b"%d" % number for number in range(20)]


def test_unreadable_records_are_refused_in_the_first_batches_and_then_in_samples(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_checks, "BATCHES_LOOKED_INTO_FIRST", 2)
    monkeypatch.setattr(batch_checks, "BATCHES_LOOKED_INTO_EACH", 4)
    good = batch_of([(None, b"a", [])])

    with Caller(broker) as caller:
        errors = [caller.produce("orders", unreadable(good))[0] for _ in range(9)]
        torn = caller.produce("orders", good[:-1] + b"x")[0]

    is_refused = [error == Code.CORRUPT_MESSAGE for error in errors]
    assert is_refused == [True, True, False, False, True, False, False, False, True]
    assert torn == Code.CORRUPT_MESSAGE


def unreadable(batch: bytes) -> bytes:
    """Returns the batch with a record whose length is too large, and a matching checksum."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    records = b"\x7e" + batch[KAFKA_BATCH_HEAD.size + 1 :]
    checked = (KAFKA_BATCH_HEAD.pack(*head) + records)[KAFKA_CHECKED_AT:]
    return KAFKA_BATCH_HEAD.pack(*head._replace(checksum=crc32c(checked))) + records


def test_clients_get_a_producer_id(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        answer = caller.call(ApiKey.API_VERSIONS, 2, {})

    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert served[ApiKey.INIT_PRODUCER_ID] == (0, 4)
