"""Topics that another process deletes: waiting requests get an error, and the broker continues."""

from __future__ import annotations

import gc
import signal
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from tests.support.broker.watched import watched_broker
from tests.support.kafka_batches import batch_of
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.services.topics import SWEPT_FROM
from warren.errors import NoSuchTopic
from warren.protocol.api_keys import ApiKey
from warren.queue.topic import Topic

FETCH_VERSION = 11
WAIT_MS = 20_000


def fetch_error(caller: Caller, topic: str, number: int) -> int:
    """Returns the error of a fetch that waits for a message which does not exist yet."""
    part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [part]}]
    values = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics}
    answer = caller.call(ApiKey.FETCH, FETCH_VERSION, values)
    error: int = answer.responses[0].partitions[0].error_code
    return error


def test_a_wait_for_a_deleted_topic_ends_with_an_error_and_others_are_served(tmp_path: Path) -> None:
    with watched_broker(tmp_path / "data") as broker, ThreadPoolExecutor(1) as pool:
        place = "127.0.0.1", broker.port
        with Caller(place) as waiting, Caller(place) as other:
            other.produce("orders", batch_of([(None, b"1", [])]))
            error = pool.submit(fetch_error, waiting, "orders", 1)
            # Only a topic that is in use is noticed: a request waits by now.
            other.produce("others", batch_of([(None, b"1", [])]))
            with warren.open(tmp_path / "data") as store:
                store.delete_topic("orders")

            assert error.result(60) != Code.NONE
            assert other.produce("others", batch_of([(None, b"2", [])])) == (0, 1)
        assert broker.end(signal.SIGTERM) == 0
        assert broker.errors() == []


def test_a_queue_whose_topic_is_deleted_raises(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, warren.connect(broker.address) as client:
        queue = client.queue("work")
        queue.put(1)
        client.delete_topic("work")

        with pytest.raises(NoSuchTopic):
            queue.get(timeout=0.1)


@pytest.mark.parametrize("use", ["put", "delay", "stream", "queue", "transaction", "kafka"])
def test_a_broker_holds_none_of_the_topics_that_were_deleted(tmp_path: Path, use: str) -> None:
    with running_broker(tmp_path / "data") as broker, warren.connect(broker.address) as client, Caller(broker) as kafka:
        made = list[weakref.ref[Topic]]()
        for number in range(3 * SWEPT_FROM):
            topic = client.topic(f"orders-{number}")
            if use == "put":
                topic.put(b"1")
            elif use == "delay":
                topic.put(b"1", delay=3600.0)
            elif use == "stream":
                topic.group("readers").close()
            elif use == "queue":
                topic.put(b"1")
                with topic.group("workers", mode="queue") as work:
                    assert work.take() is not None
            elif use == "transaction":
                with client.transaction() as tx:
                    tx.put_many(str(topic.name), [b"1", b"2"])
            else:
                assert kafka.produce(f"orders-{number}", batch_of([(None, b"1", [])])) == (0, 0)
                metadata = kafka.call(ApiKey.METADATA, 12, {"topics": [{"name": f"orders-{number}"}]})
                assert metadata.topics[0].error_code == Code.NONE
            made.append(weakref.ref(broker.broker.store.topic(f"orders-{number}")))
            client.delete_topic(f"orders-{number}")

        # The topics that were in use last may be kept open until others are.
        until(lambda: gc.collect() >= 0 and sum(each() is not None for each in made) <= SWEPT_FROM)


def test_topics_that_were_deleted_keep_no_file_open(tmp_path: Path) -> None:
    with watched_broker(tmp_path / "data") as broker, warren.connect(f"127.0.0.1:{broker.port}") as client:
        counts = []
        for _ in range(2):
            for number in range(20):
                client.topic(f"orders-{number}").put(b"1", delay=3600.0)
                client.delete_topic(f"orders-{number}")
            counts.append(broker.usage().files)

        assert counts[1] < counts[0] + 10
