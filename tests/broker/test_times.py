"""Which message is the first of a time: by the time that its producer gave it, where it came from a Kafka client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.broken_batches import broken_batch
from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import CLIENT_TIME_MS, batch_of
from warren.broker.kafka import offsets
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import ApiKey
from warren.storage.format.kafka_batch import records_of

STEP_MS = 37
FAR_MS = 1 << 52


def first_of(caller: Caller, timestamp_ms: int) -> tuple[int, int]:
    """Number and time of what is found."""
    part = {"partition_index": 0, "timestamp": timestamp_ms}
    answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": "orders", "partitions": [part]}]})
    (found,) = answer.topics[0].partitions
    return found.offset, found.timestamp


@pytest.mark.parametrize("compression", range(5))
def test_a_time_lookup_uses_the_timestamp_of_the_producer(tmp_path: Path, compression: int) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        for _ in range(2):
            caller.produce("orders", batch_of([(None, b"%d" % row, []) for row in range(3)], compression=compression))

        found = [first_of(caller, CLIENT_TIME_MS + after_ms) for after_ms in (-1000, 0, 1, STEP_MS, 2 * STEP_MS, 1000)]

        assert found[:3] == [(0, CLIENT_TIME_MS), (0, CLIENT_TIME_MS), (1, CLIENT_TIME_MS + STEP_MS)]
        assert found[3:] == [(1, CLIENT_TIME_MS + STEP_MS), (2, CLIENT_TIME_MS + 2 * STEP_MS), (-1, -1)]


def test_other_messages_have_the_time_of_storing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, b"old", [])]))
        put = broker.broker.store.topic("orders").put(b"now")

        found = first_of(caller, CLIENT_TIME_MS + 1)

        assert found == (1, put.timestamp // 1000)
        assert first_of(caller, FAR_MS) == (-1, -1)


def largest(caller: Caller) -> tuple[int, int]:
    return first_of(caller, -3)


def timed_batch(*times_ms: int) -> bytes:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for place, time_ms in enumerate(times_ms):
        builder.append(place, time_ms, None, b"v", [])
    return bytes(builder.build())


def test_the_message_with_the_largest_time_is_found_wherever_it_stands(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        assert largest(caller) == (-1, -1)
        assert caller.produce("orders", timed_batch(1000, 5000, 5000, 2000)) == (0, 0)
        first = largest(caller)
        assert caller.produce("orders", timed_batch(3000, 5000)) == (0, 4)
        same = largest(caller)
        assert caller.produce("orders", timed_batch(3000, 6000, 4000)) == (0, 6)
        later = largest(caller)
        for _ in range(3):
            assert caller.produce("orders", timed_batch(10))[0] == 0

        assert (first, same, later, largest(caller)) == ((1, 5000), (1, 5000), (7, 6000), (7, 6000))


def test_the_largest_time_is_looked_for_in_steps_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "TIME_STEP", 2)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        for time_ms in (9000, 1000, 1000, 1000, 8000, 1000, 1000):
            assert caller.produce("orders", timed_batch(time_ms, 500))[0] == 0
        whole = largest(caller)
        monkeypatch.setattr(offsets, "TIME_LARGEST_BATCHES_MAX", 5)

        assert (whole, largest(caller)) == ((0, 9000), (8, 8000))


def test_a_large_batch_is_unpacked_once_for_the_largest_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []

    def counted(batch: memoryview, count: int) -> bytes | memoryview:
        unpacked.append(count)
        return records_of(batch, count)

    monkeypatch.setattr(offsets, "records_of", counted)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        count = 100_000
        assert caller.produce("orders", batch_of([(None, b"", [])] * count, compression=4)) == (0, 0)

        found = largest(caller)

        assert found == (count - 1, CLIENT_TIME_MS + (count - 1) * STEP_MS)
        assert unpacked == [count]


def test_the_search_for_the_largest_time_unpacks_a_bounded_number_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "TIME_LARGEST_MESSAGES_MAX", 3)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        for _ in range(4):
            assert caller.produce("orders", timed_batch(1000, 1000))[0] == 0

        # Sorted by number within a step, so the first two batches are looked at.
        assert largest(caller) == (0, 1000)
        monkeypatch.setattr(offsets, "TIME_STEP", 2)
        assert largest(caller) == (2, 1000)


def test_a_search_for_a_time_ends_when_the_broker_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        assert caller.produce("orders", timed_batch(1000))[0] == 0
        turn = offsets._turn

        def stopping(*arguments: Any) -> Any:
            # As if SIGTERM came while the search is under way.
            broker.broker.is_stopping = True
            try:
                return turn(*arguments)
            finally:
                broker.broker.is_stopping = False

        monkeypatch.setattr(offsets, "_turn", stopping)
        part = {"partition_index": 0, "timestamp": -3}
        answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": "orders", "partitions": [part]}]})

        (row,) = answer.topics[0].partitions
        assert (row.error_code, row.offset) == (Code.REQUEST_TIMED_OUT, -1)


def test_a_time_lookup_uses_the_time_of_storing_for_other_messages(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        topic = broker.broker.store.topic("orders")
        assert caller.produce("orders", timed_batch(1000)) == (0, 0)
        put = topic.put(b"now")
        assert largest(caller) == (1, put.timestamp // 1000)
        assert caller.produce("orders", timed_batch(FAR_MS)) == (0, 2)
        topic.put(b"later")

        assert largest(caller) == (2, FAR_MS)


def test_an_unreadable_batch_has_no_largest_time(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        for number in range(3):
            assert caller.produce("orders", timed_batch(1000)) == (0, number)
        assert caller.produce("orders", broken_batch(3)) == (0, 3)

        assert largest(caller) == (0, 1000)
