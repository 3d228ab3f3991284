"""DeleteRecords: no client can read messages before the number, also later."""

from __future__ import annotations

from pathlib import Path

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.errors import NumberRetired
from warren.protocol.api_keys import ApiKey

BODIES = [b"%d" % number for number in range(10)]
EARLIEST = -2
TO_THE_END = -1
NONE = -1


def delete(caller: Caller, before: int, topic: str = "orders") -> tuple[int, int]:
    """Returns the error, and the first remaining number."""
    parts = [{"partition_index": 0, "offset": before}]
    values = {"timeout_ms": 1000, "topics": [{"name": topic, "partitions": parts}]}
    (part,) = caller.call(ApiKey.DELETE_RECORDS, 2, values).topics[0].partitions
    return part.error_code, part.low_watermark


def earliest(caller: Caller) -> int:
    part = {"partition_index": 0, "timestamp": EARLIEST}
    answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": "orders", "partitions": [part]}]})
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def fetched(caller: Caller, number: int) -> tuple[int, int]:
    """Returns the error of a fetch, and the start of the log."""
    part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [part]}]
    values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
    (partition,) = caller.call(ApiKey.FETCH, 11, values).responses[0].partitions
    return partition.error_code, partition.log_start_offset


def test_the_log_starts_with_the_requested_number_also_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, body, []) for body in BODIES]))

        assert delete(caller, 4) == (Code.NONE, 4)

        assert earliest(caller) == 4
        assert fetched(caller, 3) == (Code.OFFSET_OUT_OF_RANGE, 4)
        assert fetched(caller, 4) == (Code.NONE, 4)
        with warren.connect(broker.address) as client:
            log = client.topic("orders").partition(0)
            assert [message.body for message in log.read(4)] == BODIES[4:]
            with pytest.raises(NumberRetired):
                log.read(3)

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert earliest(caller) == 4
        assert caller.produce("orders", batch_of([(None, b"10", [])])) == (Code.NONE, 10)
    with warren.open(tmp_path / "data") as store:
        assert [message.body for message in store.topic("orders").last(100)] == [*BODIES[4:], b"10"]


def test_without_an_offset_all_records_are_deleted(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, body, []) for body in BODIES]))

        assert delete(caller, TO_THE_END) == (Code.NONE, 10)

        assert earliest(caller) == 10
        assert caller.produce("orders", batch_of([(None, b"10", [])])) == (Code.NONE, 10)
        assert fetched(caller, 10) == (Code.NONE, 10)


def test_deleting_deleted_records_is_no_error_and_future_ones_is(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, body, []) for body in BODIES]))
        delete(caller, 4)

        assert delete(caller, 2) == (Code.NONE, 4)
        assert delete(caller, 11) == (Code.OFFSET_OUT_OF_RANGE, NONE)
        assert delete(caller, -2) == (Code.OFFSET_OUT_OF_RANGE, NONE)
        assert delete(caller, 1, topic="nothing") == (Code.UNKNOWN_TOPIC_OR_PARTITION, NONE)
        assert earliest(caller) == 4


def test_a_topic_of_version_1_loses_whole_blocks(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        topic = store.topic("orders", version=1, block_size=4096)
        for _ in range(10):
            topic.put(b"x" * 1000)
        second = topic.partition(0).inspect().blocks[1].base_number

    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        assert delete(caller, second - 1) == (Code.NONE, 0)
        assert delete(caller, second + 1) == (Code.NONE, second)
        assert earliest(caller) == second
