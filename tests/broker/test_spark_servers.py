"""Spark's option `servers`, without Spark itself: reading and writing through a broker equals reading and writing
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, StringStartsWith
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.spark.reads import NUMBERS, batch_reader, read_rows, rows_of, stream_reader, stream_rows
from tests.support.spark.writes import Query, bodies, waiting
from warren.errors import BrokerUnreached, DataLost, LoginFailed, NotAStore, TopicLost
from warren.spark.read.stream_reader import StreamReader
from warren.spark.store_access.store_cache import process_brokers

BATCH = 30
EVERYTHING = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, tag string"


@pytest.fixture(autouse=True)
def connections_closed_after() -> Iterator[None]:
    yield
    process_brokers().close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "store") as running:
        yield running


def fill(broker: RunningBroker, count: int = 300) -> None:
    with warren.connect(broker.address) as store:
        topic = store.topic("orders", partitions=2)
        for partition in range(2):
            for start in range(0, count, BATCH):
                numbers = range(start, min(start + BATCH, count))
                tags = [("eu.de", "eu.fr", "us")[number % 3] for number in numbers]
                topic.partition(partition).append_many([b"%d" % number for number in numbers], tags=tags)


# --- Batches ---


@pytest.mark.parametrize(
    ("options", "filters"),
    [
        ({}, []),
        ({"tag": "eu.*", "minPartitions": 7}, [GreaterThanOrEqual(("offset",), 100), EqualTo(("partition",), 1)]),
        ({"startingOffsets": '{"orders": {"0": 290, "1": -2}}'}, [StringStartsWith(("tag",), "eu.")]),
        ({"startingTimestamp": "-1 hour"}, [GreaterThanOrEqual(("timestamp",), datetime.now(UTC) - timedelta(1))]),
        ({"topics": "", "topicsPattern": "ord.*", "endingTimestamp": "-1 hour"}, []),
    ],
)
def test_a_batch_equals_that_of_the_files(
    broker: RunningBroker, tmp_path: Path, options: dict[str, Any], filters: list[Filter]
) -> None:
    fill(broker)
    selection = {"topics": "orders", **options}

    through = rows_of(batch_reader(None, EVERYTHING, servers=broker.address, **selection), filters)
    files = rows_of(batch_reader(tmp_path / "store", EVERYTHING, **selection), filters)

    assert through == files
    assert bool(files) == ("endingTimestamp" not in options)


def test_a_stream_has_the_offsets_of_the_files_and_may_take_over_a_checkpoint(
    broker: RunningBroker, tmp_path: Path
) -> None:
    fill(broker, 3)

    files, through = stream_reader(tmp_path / "store", topics="orders"), stream_reader(None, **at(broker))

    with stopping(files, through):
        assert through.reportLatestOffset() == files.reportLatestOffset()


def at(broker: RunningBroker, **options: object) -> dict[str, Any]:
    return {"servers": broker.address, "topics": "orders", "startingOffsets": "earliest", **options}


def stopping(*readers: StreamReader) -> ExitStack:
    stack = ExitStack()
    for reader in readers:
        stack.callback(reader.stop)
    return stack


# --- Streams ---


def test_a_stream_takes_its_share_of_a_backlog_and_shows_it_in_a_group(broker: RunningBroker) -> None:
    fill(broker)
    reader = stream_reader(None, NUMBERS, **at(broker, group="spark"))
    begun = reader.initialOffset()

    first = reader.latestOffset(begun, ReadMaxRows(100))
    second = reader.latestOffset(first, ReadMaxBytes(1))
    rows = stream_rows(reader, begun, first)
    reader.commit(second)

    assert first["topics"] == {"orders": {"0": 50, "1": 50}}
    assert 100 < sum(second["topics"]["orders"].values()) < 600
    assert [row["offset"] for row in rows] == [*range(50), *range(50)]
    with warren.connect(broker.address) as store:
        assert sum(store.topic("orders").group("spark").lag().values()) == 600 - sum(
            second["topics"]["orders"].values()
        )


def test_a_stream_continues_when_its_broker_was_away(tmp_path: Path) -> None:
    with running_broker(tmp_path / "store") as broker:
        fill(broker, 10)
        port = int(broker.address.rpartition(":")[2])
        reader = stream_reader(None, NUMBERS, **at(broker, group="spark"))
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1000))
    with running_broker(tmp_path / "store", port=port) as broker:
        fill(broker, 5)
        following = reader.latestOffset(end, ReadMaxRows(1000))

        assert len(stream_rows(reader, end, following)) == 10


def test_retired_messages_at_the_broker_are_reported_as_for_files(broker: RunningBroker) -> None:
    fill(broker, 10)
    reader = stream_reader(None, NUMBERS, **at(broker))
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1000))
    with warren.connect(broker.address) as store:
        store.delete_topic("orders")

    with pytest.raises(TopicLost, match="deleted while"):
        reader.latestOffset(end, ReadMaxRows(1000))
    fill(broker, 1)
    with pytest.raises(TopicLost, match="created again"):
        stream_rows(reader, reader.initialOffset(), end)
    with pytest.raises(DataLost, match="message 7"):
        read_rows(None, NUMBERS, **at(broker, startingOffsets='{"orders": {"0": 7, "1": 0}}'))


# --- Writing ---


def test_a_batch_that_is_repeated_is_written_once_and_leaves_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    query = Query(monkeypatch, tmp_path, "value string", path=None, servers=broker.address, topic="orders")
    query.write_batch(0, [("a",), ("b",)], [("c",)])

    query.write_batch(0, [("a",), ("b",)], [("c",)])
    query.write_batch(1, [("d",)])
    lost = query.stream_writer()
    query.run(lost, [("e",)], "query-1", 2)
    lost.abort([query.run(lost, [("e",)], "query-1", 2)], 2)

    assert sorted(bodies(tmp_path)) == [b"a", b"b", b"c", b"d"]
    assert waiting(tmp_path) == []


def test_rows_for_later_and_large_ones_go_through_a_broker_too(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    large = "x" * (1 << 20)
    later = Query(monkeypatch, tmp_path, "value string, deliver_at timestamp", path=None, **at_topic(broker))
    now = Query(monkeypatch, tmp_path, "value string, key string", path=None, **at_topic(broker, partitions=3))

    now.write([(f"{number}{large}", f"key-{number}") for number in range(9)])
    later.write([("tomorrow", datetime.now(UTC) + timedelta(1))])

    with warren.connect(broker.address) as store:
        assert [each.body for each in store.topic("orders").scheduled()] == [b"tomorrow"]
        assert store.describe("orders").messages == 9
        assert len(store.describe("orders").partitions) == 3


def at_topic(broker: RunningBroker, **options: object) -> dict[str, Any]:
    return {"servers": broker.address, "topic": "orders", **options}


def test_a_task_finds_out_that_its_broker_serves_another_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with running_broker(tmp_path / "store") as broker:
        port = int(broker.address.rpartition(":")[2])
        query = Query(monkeypatch, tmp_path, "value string", path=None, **at_topic(broker))
        writer = query.batch_writer()
    with running_broker(tmp_path / "other", port=port), pytest.raises(NotAStore, match="another store than when"):
        query.run(writer, [("a",)])


# --- Refused logins ---


def test_a_broker_that_does_not_answer_is_named_with_the_host_that_asked() -> None:
    with pytest.raises(BrokerUnreached, match=r"the host \S+ gets no answer from the broker at 127.0.0.1:1: .*refused"):
        batch_reader(None, NUMBERS, servers="127.0.0.1:1", topics="orders", timeout=0.1).partitions()


def test_a_wrong_password_is_not_shown(broker: RunningBroker) -> None:
    with pytest.raises(LoginFailed) as failure:
        read_rows(None, NUMBERS, **at(broker, user="spark", password="open sesame"))

    assert "sesame" not in str(failure.value)
