"""Consumers whose connection ends during a wait: the broker keeps nothing of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.support.broker.calls import Caller
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import until
from warren.protocol.api_keys import ApiKey

FETCH_VERSION = 11
WAIT_MS = 60_000


def fetched(caller: Caller, size_min: int) -> None:
    """Waits for this many bytes, which never come."""
    part = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [part]}]
    values = {"max_wait_ms": WAIT_MS, "min_bytes": size_min, "max_bytes": 1 << 20, "topics": topics}
    # The test shuts the connection down.
    with suppress(AssertionError, OSError):
        caller.call(ApiKey.FETCH, FETCH_VERSION, values)


def parked(broker: RunningBroker) -> int:
    return broker.broker.long_polls.parked_count


def test_a_fetch_of_a_connection_that_ended_waits_no_longer(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, ThreadPoolExecutor(2) as pool, Caller(broker) as other:
        other.produce("orders", batch_of([(None, b"1", [])]))
        for size_min in (1, 1 << 20):
            with Caller(broker) as gone, Caller(broker) as alive:
                waiting = [pool.submit(fetched, caller, size_min) for caller in (gone, alive)]
                until(lambda: parked(broker) == 2)
                if size_min > 1:
                    # Woken with too few bytes: it waits once more.
                    other.produce("orders", batch_of([(None, b"2", [])]))

                gone.shut_down()

                waiting[0].result(WAIT_MS / 1000)
                until(lambda: parked(broker) == 1)
                alive.shut_down()
                waiting[1].result(WAIT_MS / 1000)
            until(lambda: parked(broker) == 0)
            assert not broker.broker.long_polls._waiting
