"""The header `warren.deliver-at`: records of Kafka clients with it wait until they are due, once;
other records do not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.services.batch_checks import BATCHES_LOOKED_INTO_FIRST
from warren.broker.settings import BrokerSettings
from warren.errors import BadRecord
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka import delayed_records
from warren.protocol.kafka.delayed_records import may_be_delayed, split_delayed
from warren.protocol.kafka.record_batch import RecordBatch, split
from warren.protocol.wire_struct import WireStruct
from warren.queue.state import paths

NAME = "warren.deliver-at"
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
TOMORROW = b"%d" % round((datetime.now(UTC) + timedelta(1)).timestamp() * 1000)
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
ALL = BrokerSettings(deliver_at="all")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", settings=ALL) as running:
        yield running


def now_and_later(*, compression: int = NONE, base_sequence: int = 0, **producer: Any) -> bytes:
    """A batch of four records: the second and the fourth wait until tomorrow."""
    records: list[tuple[bytes | None, bytes | None, Sequence[Any]]] = [
        (b"k", b"first", [("trace", b"1")]),
        (b"k", b"second", [("warren.tag", b"eu.de"), (NAME, TOMORROW), ("trace", b"2")]),
        (None, None, [(NAME, b"1000")]),
        (None, b"fourth", [(NAME, TOMORROW)]),
    ]
    numbers: dict[str, Any] = {"base_sequence": base_sequence, **producer} if producer else {}
    return batch_of(records, compression=compression, **numbers)


def answer_to(caller: Caller, topic: str, batch: bytes, transactional_id: str | None = None) -> Any:
    """The answer for the partition of a Produce of one batch."""
    values = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 1000}
    parts = [{"index": 0, "records": batch}]
    answer = caller.call(ApiKey.PRODUCE, 9, values | {"topic_data": [{"name": topic, "partition_data": parts}]})
    (stored,) = answer.responses[0].partition_responses
    assert isinstance(stored, WireStruct)
    return stored


def bodies(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for log in broker.broker.store.topic(topic).logs for message in log.read(0, limit=1000)]


def waiting(broker: RunningBroker, topic: str = "orders") -> list[bytes]:
    return [each.body for each in broker.broker.store.topic(topic).scheduled()]


# --- With a client ---


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_client_delays_some_of_its_messages_in_every_compression(broker: RunningBroker, compression: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    deliveries: list[tuple[Any, int]] = []
    settings = {"bootstrap.servers": broker.address, "log_level": 0, "linger.ms": 200, "enable.idempotence": True}
    producer = confluent_kafka.Producer({**settings, "compression.type": compression})
    soon = b"%d" % round((time.time() + 0.5) * 1000)
    for value, when in ((b"now", b""), (b"soon", soon), (b"tomorrow", TOMORROW), (b"too", b"")):
        headers = [(NAME, when)] if when else [("other", b"1")]
        producer.produce(
            "orders",
            value * 100,
            b"k",
            headers=headers,
            on_delivery=lambda error, m: deliveries.append((error, m.offset())),
        )

    assert producer.flush(PATIENCE_S) == 0

    assert [error for error, _ in deliveries] == [None] * 4
    # On a slow machine it may be due before it arrives.
    until(lambda: sorted(bodies(broker)) == [b"now" * 100, b"soon" * 100, b"too" * 100])
    # A delivered message is in the log a moment before the delivery is noted.
    until(lambda: waiting(broker) == [b"tomorrow" * 100])
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.address, "log_level": 0, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(values) < 3 and time.monotonic() < deadline_s:
        values += [message.value() for message in consumer.consume(3, 0.2)]
    consumer.close()
    assert values == bodies(broker)


def test_a_transaction_parks_its_delayed_messages_at_the_commit(broker: RunningBroker) -> None:
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


def test_a_parked_message_is_unchanged_and_the_answer_has_no_offset(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        assert caller.produce("orders", now_and_later()) == (Code.NONE, -1)
        assert caller.produce("orders", batch_of([(None, b"next", [])])) == (Code.NONE, 2)

    first, third, _ = broker.broker.store.topic("orders").partition(0).read(0)
    (second, _) = broker.broker.store.topic("orders").scheduled()
    assert (first.body, first.key, dict(first.headers)) == (b"first", b"k", {"trace": b"1"})
    # A record that was due before it arrived is not delayed, and is not changed.
    assert dict(third.headers) == {NAME: b"1000", "warren.null-body": b""}
    assert (second.body, second.key, second.tag, dict(second.headers)) == (b"second", b"k", "eu.de", {"trace": b"2"})
    assert (second.partition, round(second.due.timestamp() * 1000)) == (0, int(TOMORROW))


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_batch_that_comes_again_is_parked_once_also_across_restarts(tmp_path: Path, is_noted: bool) -> None:
    batch = now_and_later(compression=ZSTD, **PRODUCER)
    with running_broker(tmp_path / "data", settings=ALL) as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == caller.produce("orders", batch) == (Code.NONE, -1)
        path = broker.broker.store.topic("orders").partition(0).path
    if not is_noted:
        Path(paths.sequences_file(path)).unlink()
    with running_broker(tmp_path / "data", settings=ALL) as broker, Caller(broker) as caller:
        assert caller.produce("orders", batch) == (Code.NONE, -1)
        following = now_and_later(base_sequence=4, **PRODUCER)
        assert caller.produce("orders", following) == caller.produce("orders", following) == (Code.NONE, -1)
        late = batch_of([(None, b"x", [(NAME, TOMORROW)])], base_sequence=9, **PRODUCER)
        assert caller.produce("orders", late)[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER

        assert bodies(broker) == [b"first", b"", b"first", b""]
        assert sorted(waiting(broker)) == [b"fourth", b"fourth", b"second", b"second"]


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"1e12", b"2026-13-01", b"9" * 15, b"9" * 400, b"\xff"])
def test_a_malformed_time_is_refused_by_name_and_nothing_is_stored(broker: RunningBroker, value: bytes) -> None:
    batch = batch_of([(None, b"a", []), (None, b"b", [(NAME, value)])])

    with Caller(broker) as caller:
        stored = answer_to(caller, "orders", batch)

    assert stored.error_code == Code.INVALID_RECORD
    assert stored.error_message.startswith("record 1 of the batch is not valid: the header warren.deliver-at is ")
    assert len(stored.error_message) < 300
    assert (bodies(broker), waiting(broker)) == ([], [])


# --- Switched on by the topic, or by the broker for topics that do not say ---


@pytest.mark.parametrize("kind", ["plain", "idempotent", "transactional"])
def test_by_default_a_delayed_record_is_refused_and_the_error_says_how_to_switch_delays_on(
    tmp_path: Path, kind: str
) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        producer: dict[str, Any] = {} if kind == "plain" else PRODUCER
        id = None
        if kind == "transactional":
            id, (_, producer_id, epoch) = "t", caller.init("t")
            caller.add((id, producer_id, epoch), "orders", 0)
            producer = {"producer_id": producer_id, "producer_epoch": epoch, "is_transactional": True}
        for _ in range(BATCHES_LOOKED_INTO_FIRST + 1):
            stored = answer_to(caller, "orders", now_and_later(**producer), id)

            assert stored.error_code == Code.INVALID_RECORD
            assert stored.error_message == (
                "record 1 of the batch is not valid: its header warren.deliver-at delays records only if that is "
                "switched on for topic 'orders': set deliver_at of the topic (warren.deliver.at for Kafka clients) or "
                "broker.deliver_at to plain or all"
            )

        assert (bodies(broker), waiting(broker)) == ([], [])


@pytest.mark.parametrize("compression", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("setting", [None, "none", "plain"])
def test_a_compressed_batch_is_not_unpacked_unless_the_topic_requires_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: int, setting: str | None
) -> None:
    def unpacked(*arguments: Any) -> Any:
        raise AssertionError("a batch was unpacked to look for the header")

    monkeypatch.setattr(delayed_records, "records_of", unpacked)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders", deliver_at=setting)

        assert caller.produce("orders", now_and_later(compression=compression)) == (Code.NONE, 0)

        messages = broker.broker.store.topic("orders").partition(0).read(0)
        assert [message.headers.get(NAME) for message in messages] == [None, TOMORROW, b"1000", TOMORROW]
        assert waiting(broker) == []


def test_texts_like_the_header_and_times_in_the_past_are_stored_without_the_setting(tmp_path: Path) -> None:
    past = batch_of([(None, b"the header warren.deliver-at", []), (None, b"past", [(NAME, b"1000")])])
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert caller.produce("orders", past) == (Code.NONE, 0)

        assert bodies(broker) == [b"the header warren.deliver-at", b"past"]


@pytest.mark.parametrize("default", ["none", "plain", "all"])
@pytest.mark.parametrize("setting", [None, "none", "plain", "all"])
@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_the_setting_of_the_topic_counts_and_without_one_that_of_the_broker(
    tmp_path: Path, default: str, setting: str | None, compression: int
) -> None:
    settings = BrokerSettings(deliver_at=default)
    with running_broker(tmp_path / "data", settings=settings) as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders", deliver_at=setting)

        code, offset = caller.produce("orders", now_and_later(compression=compression))

        choice = setting or default
        is_delayed = choice == "all" or (choice == "plain" and compression == NONE)
        is_refused = choice == "none" and compression == NONE
        assert (code, offset) == ((Code.INVALID_RECORD, -1) if is_refused else (Code.NONE, -1 if is_delayed else 0))
        assert len(waiting(broker)) == (2 if is_delayed else 0)


def test_a_topic_starts_to_delay_when_its_setting_is_changed(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        topic = broker.broker.store.topic("orders")
        before = caller.produce("orders", now_and_later())
        topic.configure(deliver_at="plain")

        assert (before[0], caller.produce("orders", now_and_later())) == (Code.INVALID_RECORD, (Code.NONE, -1))


# --- Batches ---


def batch_with(value: bytes, compression: int, count: int) -> RecordBatch:
    body = b'{"deliver-at": "warren", "text": "%s"}' % (b"warren.deliver" * 7)
    records: list[tuple[bytes | None, bytes | None, Sequence[Any]]] = [(None, body, [("warren.tag", b"eu")])] * count
    (batch,) = split(
        memoryview(batch_of([*records, (None, body, [(NAME, value)] if value else [])], compression=compression))
    )
    return batch


@pytest.mark.parametrize("compression", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("count", [0, 3, 2000])
def test_the_header_is_found_at_every_position_and_nothing_else_counts_as_it(compression: int, count: int) -> None:
    now_us = round(time.time() * 1_000_000)

    without, with_one = (batch_with(value, compression, count) for value in (b"", TOMORROW))

    # A large compressed batch may be delayed: `split_delayed` unpacks it and looks.
    assert not may_be_delayed(without, sees_compressed=True) or (count == 2000 and compression != NONE)
    assert split_delayed(without, now_us) is None
    assert may_be_delayed(with_one, sees_compressed=True)
    assert may_be_delayed(with_one, sees_compressed=False) == (compression == NONE)
    parts = split_delayed(with_one, now_us)
    assert parts is not None
    assert (len(parts.delayed), parts.delayed[0].due_us) == (1, int(TOMORROW) * 1000)
    assert sum(each.head.record_count for batches in parts.rest for each in split(memoryview(batches))) == count


def test_a_time_may_be_written_as_a_date_or_in_milliseconds() -> None:
    now_us = round(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp() * 1_000_000)
    texts = (b"2026-03-01T12:00:00+02:00", b"2026-03-01T10:00", b"%d" % (now_us // 1000 + 3_600_000))

    splits = [split_delayed(batch_with(text, NONE, 0), now_us) for text in texts]

    assert [parts and parts.delayed[0].due_us for parts in splits] == [now_us + 3_600_000_000] * 3
    # A due record is not delayed.
    assert split_delayed(batch_with(texts[0], NONE, 0), now_us + 3_600_000_000) is None
    with pytest.raises(BadRecord):
        split_delayed(batch_with(b"tomorrow", NONE, 0), now_us)
