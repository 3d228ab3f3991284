"""The header `warren.deliver-at`: what Kafka clients send with it waits until it is due, once; the rest does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.broker.calls import Caller
from tests.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.unit.patience import until
from warren.broker.kafka_errors import Code
from warren.broker.settings import BrokerSettings
from warren.errors import BadRecord
from warren.protocol.api import ApiKey
from warren.protocol.deliver_at import may_be_delayed, split_delayed
from warren.protocol.record_batch import Batch, split
from warren.queue import store_paths

NAME = "warren.deliver-at"
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
TOMORROW = b"%d" % round((datetime.now(UTC) + timedelta(1)).timestamp() * 1000)
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


def now_and_later(*, compression: int = NONE, base_sequence: int = 0, **producer: Any) -> bytes:
    """A batch of four: the second and the fourth wait until tomorrow."""
    records: list[tuple[bytes | None, bytes | None, Sequence[Any]]] = [
        (b"k", b"first", [("trace", b"1")]),
        (b"k", b"second", [("warren.tag", b"eu.de"), (NAME, TOMORROW), ("trace", b"2")]),
        (None, None, [(NAME, b"1000")]),
        (None, b"fourth", [(NAME, TOMORROW)]),
    ]
    numbers: dict[str, Any] = {"base_sequence": base_sequence, **producer} if producer else {}
    return batch_of(records, compression=compression, **numbers)


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for log in broker.broker.store.topic(topic).logs for message in log.read(0, limit=1000)]


def waiting(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [each.body for each in broker.broker.store.topic(topic).scheduled()]


# --- With a client ---


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_client_delays_some_of_what_it_sends_in_every_compression(broker: RunningBroker, compression: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    told: list[tuple[Any, int]] = []
    settings = {"bootstrap.servers": broker.address, "log_level": 0, "linger.ms": 200, "enable.idempotence": True}
    producer = confluent_kafka.Producer({**settings, "compression.type": compression})
    soon = b"%d" % round((time.time() + 0.5) * 1000)
    for value, when in ((b"now", b""), (b"soon", soon), (b"tomorrow", TOMORROW), (b"too", b"")):
        headers = [(NAME, when)] if when else [("other", b"1")]
        producer.produce(
            "orders", value * 100, b"k", headers=headers, on_delivery=lambda error, m: told.append((error, m.offset()))
        )

    assert producer.flush(PATIENCE_S) == 0

    assert [error for error, _ in told] == [None] * 4
    # On a slow machine it may be due before it comes.
    until(lambda: sorted(bodies(broker)) == [b"now" * 100, b"soon" * 100, b"too" * 100])
    # What is delivered is in the log a moment before it is noted as delivered.
    until(lambda: waiting(broker) == [b"tomorrow" * 100])
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "log_level": 0, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    heard: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(heard) < 3 and time.monotonic() < deadline_s:
        heard += [message.value() for message in consumer.consume(3, 0.2)]
    consumer.close()
    assert heard == bodies(broker)


def test_a_transaction_parks_what_it_holds_when_it_is_committed(broker: RunningBroker) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 0, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)

    for is_committed in (False, True):
        producer.begin_transaction()
        producer.produce("orders", b"now")
        producer.produce("orders", b"later", headers=[(NAME, TOMORROW)])
        producer.flush(PATIENCE_S)
        assert (bodies(broker), waiting(broker)) == ([], [])
        (producer.commit_transaction if is_committed else producer.abort_transaction)(PATIENCE_S)

    assert (bodies(broker), waiting(broker)) == ([b"now"], [b"later"])


# --- Request by request ---


def test_what_waits_is_the_message_it_was_and_the_answer_names_no_offset(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        assert caller.produce("orders", now_and_later()) == (Code.NONE, -1)
        assert caller.produce("orders", batch_of([(None, b"next", [])])) == (Code.NONE, 2)

    first, third, _ = broker.broker.store.topic("orders").partition(0).read(0)
    (second, _) = broker.broker.store.topic("orders").scheduled()
    assert (first.body, first.key, dict(first.headers)) == (b"first", b"k", {"trace": b"1"})
    # What was due before it came is not delayed, and stays as it was sent.
    assert dict(third.headers) == {NAME: b"1000", "warren.null-body": b""}
    assert (second.body, second.key, second.tag, dict(second.headers)) == (b"second", b"k", "eu.de", {"trace": b"2"})
    assert (second.partition, round(second.due.timestamp() * 1000)) == (0, int(TOMORROW))


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_batch_that_comes_again_is_parked_once_also_across_restarts(tmp_path: Path, is_noted: bool) -> None:
    batch = now_and_later(compression=ZSTD, **PRODUCER)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == caller.produce("orders", batch) == (Code.NONE, -1)
        path = broker.broker.store.topic("orders").partition(0).path
    if not is_noted:
        Path(store_paths.sequences_file(path)).unlink()
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == (Code.NONE, -1)
        following = now_and_later(base_sequence=4, **PRODUCER)
        assert caller.produce("orders", following) == caller.produce("orders", following) == (Code.NONE, -1)
        late = batch_of([(None, b"x", [(NAME, TOMORROW)])], base_sequence=9, **PRODUCER)
        assert caller.produce("orders", late)[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER

        assert bodies(broker) == [b"first", b"", b"first", b""]
        assert sorted(waiting(broker)) == [b"fourth", b"fourth", b"second", b"second"]


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"1e12", b"2026-13-01", b"9" * 15, b"9" * 400, b"\xff"])
def test_a_time_that_is_none_is_refused_by_its_name_and_nothing_is_stored(broker: RunningBroker, value: bytes) -> None:
    batch = batch_of([(None, b"a", []), (None, b"b", [(NAME, value)])])
    parts = [{"index": 0, "records": batch}]
    values = {"transactional_id": None, "acks": -1, "timeout_ms": 1000}

    with Caller(broker) as caller:
        asked = values | {"topic_data": [{"name": "orders", "partition_data": parts}]}
        (stored,) = caller.call(ApiKey.PRODUCE, 9, asked).responses[0].partition_responses

    assert stored.error_code == Code.INVALID_RECORD
    assert stored.error_message.startswith("record 1 of the batch cannot be taken: the header warren.deliver-at is ")
    assert len(stored.error_message) < 300
    assert (bodies(broker), waiting(broker)) == ([], [])


def test_where_the_broker_does_not_look_the_header_is_one_as_any_other(tmp_path: Path) -> None:
    settings = BrokerSettings(deliver_at="plain")
    with running_broker(tmp_path / "data", settings=settings) as broker, Caller(broker) as caller:
        assert caller.produce("packed", now_and_later(compression=GZIP)) == (Code.NONE, 0)
        assert caller.produce("plain", now_and_later()) == (Code.NONE, -1)

        assert (len(bodies(broker, "packed")), len(bodies(broker, "plain"))) == (4, 2)


# --- Batches ---


def batch_with(value: bytes, compression: int, count: int) -> Batch:
    body = b'{"deliver-at": "warren", "text": "%s"}' % (b"warren.deliver" * 7)
    records: list[tuple[bytes | None, bytes | None, Sequence[Any]]] = [(None, body, [("warren.tag", b"eu")])] * count
    (found,) = split(
        memoryview(batch_of([*records, (None, body, [(NAME, value)] if value else [])], compression=compression))
    )
    return found


@pytest.mark.parametrize("compression", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("count", [0, 3, 2000])
def test_the_header_is_found_wherever_it_stands_and_nothing_is_taken_for_it(compression: int, count: int) -> None:
    now_us = round(time.time() * 1_000_000)

    without, with_one = (batch_with(value, compression, count) for value in (b"", TOMORROW))

    # What takes long to find out is found out later.
    assert not may_be_delayed(without, sees_compressed=True) or (count == 2000 and compression != NONE)
    assert split_delayed(without, now_us) is None
    assert may_be_delayed(with_one, sees_compressed=True)
    assert may_be_delayed(with_one, sees_compressed=False) == (compression == NONE)
    found = split_delayed(with_one, now_us)
    assert found is not None
    assert (len(found.delayed), found.delayed[0].due_us) == (1, int(TOMORROW) * 1000)
    assert sum(each.head.record_count for rest in found.rest for each in split(memoryview(rest))) == count


def test_a_time_may_be_written_as_people_do() -> None:
    now_us = round(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp() * 1_000_000)
    texts = (b"2026-03-01T12:00:00+02:00", b"2026-03-01T10:00", b"%d" % (now_us // 1000 + 3_600_000))

    splits = [split_delayed(batch_with(text, NONE, 0), now_us) for text in texts]

    assert [found and found.delayed[0].due_us for found in splits] == [now_us + 3_600_000_000] * 3
    # What is due is not delayed.
    assert split_delayed(batch_with(texts[0], NONE, 0), now_us + 3_600_000_000) is None
    with pytest.raises(BadRecord):
        split_delayed(batch_with(b"tomorrow", NONE, 0), now_us)
