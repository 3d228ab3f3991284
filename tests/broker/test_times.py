"""Which message is the first of a time: by the time that its producer gave it, where it came from a Kafka client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.calls import Caller
from tests.broker.running import running_broker
from tests.support.kafka_batches import CLIENT_TIME_MS, batch_of
from warren.protocol.api import ApiKey

STEP_MS = 37
FAR_MS = 1 << 52


def first_of(caller: Caller, timestamp_ms: int) -> tuple[int, int]:
    """Number and time of what is found."""
    part = {"partition_index": 0, "timestamp": timestamp_ms}
    answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": "orders", "partitions": [part]}]})
    (found,) = answer.topics[0].partitions
    return found.offset, found.timestamp


@pytest.mark.parametrize("compression", range(5))
def test_the_first_message_of_a_time_is_found_by_what_its_producer_says(tmp_path: Path, compression: int) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        for _ in range(2):
            caller.produce("orders", batch_of([(None, b"%d" % row, []) for row in range(3)], compression=compression))

        found = [first_of(caller, CLIENT_TIME_MS + after_ms) for after_ms in (-1000, 0, 1, STEP_MS, 2 * STEP_MS, 1000)]

        assert found[:3] == [(0, CLIENT_TIME_MS), (0, CLIENT_TIME_MS), (1, CLIENT_TIME_MS + STEP_MS)]
        assert found[3:] == [(1, CLIENT_TIME_MS + STEP_MS), (2, CLIENT_TIME_MS + 2 * STEP_MS), (-1, -1)]


def test_what_was_put_otherwise_has_the_time_at_which_it_was_stored(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        caller.produce("orders", batch_of([(None, b"old", [])]))
        put = broker.broker.store.topic("orders").put(b"now")

        found = first_of(caller, CLIENT_TIME_MS + 1)

        assert found == (1, put.timestamp // 1000)
        assert first_of(caller, FAR_MS) == (-1, -1)
