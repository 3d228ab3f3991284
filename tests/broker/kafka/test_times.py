"""The first message of a time: for messages of Kafka clients, by the time of their producer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.broken_batches import broken_batch
from tests.support.broker.calls import Caller
from tests.support.broker.memory import beginning, bomb
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import CLIENT_TIME_MS, batch_of
from tests.support.patience import until
from warren.broker.kafka import offsets
from warren.broker.kafka.errors import Code
from warren.broker.services.batch_checks import TRIED_SIZES
from warren.broker.services.memory_budget import MemoryKind
from warren.broker.settings import BrokerLimits
from warren.protocol.api_keys import ApiKey
from warren.storage.format.kafka_batch import records_of

MIB = 1 << 20
GZIP, ZSTD = 1, 4
STEP_MS = 37
FAR_MS = 1 << 52


def first_of(caller: Caller, timestamp_ms: int) -> tuple[int, int]:
    """Returns number and time of the found message."""
    part = {"partition_index": 0, "timestamp": timestamp_ms}
    answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": "orders", "partitions": [part]}]})
    (partition,) = answer.topics[0].partitions
    return partition.offset, partition.timestamp


@pytest.mark.parametrize("compression", range(5))
def test_a_time_lookup_uses_the_timestamp_of_the_producer(tmp_path: Path, compression: int) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        for _ in range(2):
            caller.produce("orders", batch_of([(None, b"%d" % row, []) for row in range(3)], compression=compression))

        pairs = [first_of(caller, CLIENT_TIME_MS + after_ms) for after_ms in (-1000, 0, 1, STEP_MS, 2 * STEP_MS, 1000)]

        assert pairs[:3] == [(0, CLIENT_TIME_MS), (0, CLIENT_TIME_MS), (1, CLIENT_TIME_MS + STEP_MS)]
        assert pairs[3:] == [(1, CLIENT_TIME_MS + STEP_MS), (2, CLIENT_TIME_MS + 2 * STEP_MS), (-1, -1)]


def test_other_messages_have_the_time_of_storing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, b"old", [])]))
        put = broker.broker.store.topic("orders").put(b"now")

        first = first_of(caller, CLIENT_TIME_MS + 1)

        assert first == (1, put.timestamp // 1000)
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

    def counted(batch: memoryview, count: int, size_max: int) -> bytes | memoryview:
        unpacked.append(count)
        return records_of(batch, count, size_max)

    monkeypatch.setattr(offsets, "records_of", counted)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        count = 100_000
        assert caller.produce("orders", batch_of([(None, b"", [])] * count, compression=4)) == (0, 0)

        last = largest(caller)

        assert last == (count - 1, CLIENT_TIME_MS + (count - 1) * STEP_MS)
        assert unpacked == [count]


def test_the_search_for_the_largest_time_unpacks_a_bounded_number_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "TIME_LARGEST_MESSAGES_MAX", 3)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        for _ in range(4):
            assert caller.produce("orders", timed_batch(1000, 1000))[0] == 0

        # Sorted by number within a step, so the first two batches are read.
        assert largest(caller) == (0, 1000)
        monkeypatch.setattr(offsets, "TIME_STEP", 2)
        assert largest(caller) == (2, 1000)


def test_a_search_for_a_time_ends_when_the_broker_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        assert caller.produce("orders", timed_batch(1000))[0] == 0
        turn = offsets._turn

        def stopping(*arguments: Any) -> Any:
            # As if SIGTERM came during the search.
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


# --- Memory ---


@pytest.mark.parametrize("timestamp_ms", [-3, CLIENT_TIME_MS])
@pytest.mark.parametrize("compression", [GZIP, ZSTD])
def test_a_search_by_time_takes_memory_before_it_unpacks_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamp_ms: int, compression: int
) -> None:
    sizes: list[tuple[int, int]] = []
    with running_broker(tmp_path / "data", limits=BrokerLimits(memory_size_max=128 * MIB)) as broker:
        budget = broker.broker.budget

        def watched(batch: memoryview, count: int, size_max: int) -> bytes | memoryview:
            sizes.append((size_max, budget.sizes[MemoryKind.UNPACKED]))
            return records_of(batch, count, size_max)

        broker.broker.store.topic("orders")
        with Caller(broker) as caller:
            assert caller.produce("orders", bomb(20 * MIB, compression)) == (0, 0)
            monkeypatch.setattr(offsets, "records_of", watched)

            assert first_of(caller, timestamp_ms) == (0, CLIENT_TIME_MS)

            until(lambda: not budget.sizes[MemoryKind.UNPACKED])
    assert sizes[0][0] == TRIED_SIZES[0]
    assert len(sizes) == 2
    assert all(size == held for size, held in sizes)


def test_a_search_by_time_keeps_only_what_it_has_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "TIME_MESSAGES_AT_ONCE", 10)
    monkeypatch.setattr(offsets, "STEPS_AT_ONCE", 1)
    turn, sizes = offsets._turn, list[int]()

    def watched(steps: Any, count_max: int, size: int) -> Any:
        sizes.append(size)
        return turn(steps, count_max, size)

    monkeypatch.setattr(offsets, "_turn", watched)
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        rows: list[Any] = [(None, bytes(1000), [])] * 100
        assert caller.produce("orders", batch_of(rows, compression=GZIP)) == (0, 0)
        size = len(records_of(memoryview(batch_of(rows)), 100))

        assert largest(caller)[0] == 99

    assert sizes.count(size) >= 100 // 10
    assert sizes[:2] == [0, 0]


def put_large(broker: RunningBroker, caller: Caller, kind: str) -> None:
    topic = broker.broker.store.topic("orders")
    if kind == "own":
        topic.put(bytes(10 * MIB))
    else:
        assert caller.produce("orders", bomb(10 * MIB, GZIP)) == (0, 0)


@pytest.mark.parametrize("timestamp_ms", [-3, 0])
@pytest.mark.parametrize("kind", ["own", "kafka"])
def test_a_search_by_time_waits_for_memory(tmp_path: Path, kind: str, timestamp_ms: int) -> None:
    limits = BrokerLimits(memory_size_max=32 * MIB, frame_size_max=12 * MIB)
    with running_broker(tmp_path / "data", limits=limits) as broker, Caller(broker) as caller:
        budget = broker.broker.budget
        put_large(broker, caller, kind)
        with ThreadPoolExecutor(1) as pool:
            with beginning(broker.broker.advertised, 12 * MIB, MIB):
                until(lambda: budget.sizes[MemoryKind.FRAMES] == 12 * MIB)
                searched = pool.submit(first_of, caller, timestamp_ms)
                until(lambda: budget.is_waited_for)
                assert not budget.sizes[MemoryKind.UNPACKED]

            assert searched.result(PATIENCE_S)[0] == 0
        until(lambda: not budget.size)


def test_a_search_by_time_whose_client_has_gone_gives_its_memory_back(
    tmp_path: Path,
) -> None:
    limits = BrokerLimits(memory_size_max=32 * MIB, frame_size_max=12 * MIB)
    with running_broker(tmp_path / "data", limits=limits) as broker, Caller(broker) as caller:
        budget = broker.broker.budget
        put_large(broker, caller, "kafka")
        with beginning(broker.broker.advertised, 12 * MIB, MIB), ThreadPoolExecutor(1) as pool:
            until(lambda: budget.sizes[MemoryKind.FRAMES] == 12 * MIB)
            searched = pool.submit(first_of, caller, -3)
            until(lambda: budget.is_waited_for)
            caller.shut_down()

            with pytest.raises(AssertionError, match="closed the connection"):
                searched.result(PATIENCE_S)
            until(lambda: not budget.is_waited_for)
            assert budget.size == 12 * MIB
