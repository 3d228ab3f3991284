"""A stream: every message once, from the checkpoint on; limits, new partitions and topics, and lost data."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from tests.support.fakes import VERSIONS
from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.spark.archives import archived
from tests.support.spark.reads import ALL, NUMBERS, Query, sent, stream_reader
from tests.support.store.stores import quick_store
from warren.errors import BadInput, DataLost, NoSuchTopic, NotALog, TopicLost
from warren.queue.store import Store
from warren.spark.read.batch_limits import number_within, shares, size_between
from warren.spark.read.start_and_end import OpenLogs
from warren.spark.read.stream_offsets import NOT_BEGUN
from warren.spark.store_access.access import ReadableLog, TopicPartition
from warren.spark.store_access.files import FileLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with quick_store(tmp_path / "store", clock=SimulatedClock()) as opened:
        yield opened


def put(store: Store, count: int, *, topic: str = "orders", partition: int = 0) -> None:
    store.topic(topic).partition(partition).append_many([b"x"] * count)


def places(partition: int, *numbers: int, topic: str = "orders") -> list[tuple[str, int, int]]:
    return [(topic, partition, number) for number in numbers]


# --- The start of a stream ---


def test_a_stream_returns_existing_messages_and_then_new_ones(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 3)
    query = Query(store)

    assert query.step() == places(0, 0, 1, 2)
    assert query.step() is None
    put(store, 1, partition=1)
    assert query.step() == places(1, 0)
    assert query.step() is None


def test_a_stream_that_starts_at_the_latest_misses_nothing_from_its_first_batch_on(store: Store) -> None:
    store.topic("orders")
    put(store, 3)
    query = Query(store, startingOffsets="latest")

    assert query.step() == []
    put(store, 2)
    assert query.step() == places(0, 3, 4)


def test_a_crash_in_the_first_batch_does_not_move_the_start(store: Store) -> None:
    store.topic("orders")
    put(store, 3)
    query = Query(store, startingOffsets="latest")
    query.plan()
    put(store, 2)
    query.restart()

    assert query.step() == []
    assert query.step() == places(0, 3, 4)


def test_the_initial_offset_of_a_stream_is_a_constant(store: Store) -> None:
    store.topic("orders")
    before = stream_reader(store.path, topics="orders").initialOffset()
    put(store, 3)

    assert stream_reader(store.path, topics="orders").initialOffset() == before == NOT_BEGUN


def test_a_stream_can_start_at_a_number_or_a_time(store: Store) -> None:
    store.topic("orders")
    put(store, 3)
    assert isinstance(store.clock, SimulatedClock)
    store.clock.pass_ns(5_000_000_000)
    put(store, 2)

    assert Query(store, startingOffsets='{"orders": {"0": 2}}').step() == places(0, 2, 3, 4)
    at_ms = START_NS // 1_000_000 + 5000
    assert Query(store, startingTimestamp=at_ms).step() == places(0, 3, 4)


def test_a_missing_topic_is_an_error_when_a_stream_starts(store: Store) -> None:
    with pytest.raises(NoSuchTopic, match="orders"):
        Query(store).plan()


def test_a_checkpoint_of_another_source_is_an_error(store: Store) -> None:
    store.topic("orders")
    reader = stream_reader(store.path, topics="orders")

    with pytest.raises(BadInput, match="not an offset of a Warren stream"):
        reader.latestOffset({"logOffset": 5}, ALL)


def test_offsets_are_plain_json_that_a_person_can_read(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 3)
    query = Query(store)
    query.step()
    put(store, 1)
    query.step()

    data = json.loads(query.log[1])
    assert data["topics"] == {"orders": {"0": 4, "1": 0}}
    assert list(data) == ["topics", "ids"]


# --- Restarts ---


def test_a_stream_continues_at_its_checkpoint_with_any_options(store: Store) -> None:
    store.topic("orders")
    put(store, 3)
    query = Query(store)
    query.step()
    put(store, 2)
    query.restart()
    query.reader = stream_reader(store.path, NUMBERS, topics="orders", startingOffsets="latest")

    assert query.step() == places(0, 3, 4)


def test_a_batch_that_is_run_again_has_the_same_messages(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 3)
    query = Query(store)
    query.plan(ReadMaxRows(2))
    first = query.run()
    put(store, 5, partition=1)
    query.restart()

    assert query.run() == first == places(0, 0, 1)


# --- Limits ---


def test_a_limit_of_rows_is_shared_in_proportion(store: Store) -> None:
    store.topic("orders", partitions=3)
    put(store, 100)
    put(store, 50, partition=1)
    query = Query(store)

    first = query.step(ReadMaxRows(30))

    assert first == [*places(0, *range(20)), *places(1, *range(10))]
    assert len(query.all(ReadMaxRows(30))) == 120


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ({"a": 10, "b": 5}, 20, {"a": 10, "b": 5}),
        ({"a": 10, "b": 0}, 5, {"a": 5, "b": 0}),
        ({"a": 1_000_000, "b": 1, "c": 1}, 100, {"a": 98, "b": 1, "c": 1}),
        ({"a": 5, "b": 9, "c": 7}, 2, {"a": 0, "b": 1, "c": 1}),
        ({"a": 3, "b": 3}, 5, {"a": 3, "b": 2}),
    ],
)
def test_a_small_partition_is_not_starved(sizes: dict[str, int], limit: int, expected: dict[str, int]) -> None:
    assert shares(sizes, limit) == expected


def test_a_limit_of_bytes_is_kept_with_whole_records(store: Store) -> None:
    log = store.topic("orders").partition(0)
    for number in range(20):
        log.append(b"%0100d" % number)
    size = size_between(FileLog(log), 0, 1)

    assert number_within(FileLog(log), 0, 20, 3 * size) == 3
    assert number_within(FileLog(log), 0, 20, 4 * size - 1) == 3
    assert number_within(FileLog(log), 5, 20, 1) == 6
    assert number_within(FileLog(log), 5, 20, 1 << 30) == 20
    assert Query(store).step(ReadMaxBytes(3 * size)) == places(0, 0, 1, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_limit_of_bytes_lets_every_stream_come_to_its_end(store: Store, version: int) -> None:
    topic = store.topic("orders", partitions=2, version=version, block_size=4096)
    for start in range(0, 100, 10):
        topic.partition(0).append_many([b"%050d" % number for number in range(start, start + 10)])
    topic.partition(1).append(b"one")

    query = Query(store)
    places_read = query.all(ReadMaxBytes(200))

    assert sorted(places_read) == [*places(0, *range(100)), *places(1, 0)]
    assert query.committed > 5


def test_a_limit_of_bytes_bears_a_log_in_which_nothing_is(store: Store) -> None:
    topic = store.topic("orders", partitions=2)
    topic.partition(0).append(b"one")
    assert topic.partition(1).end == 0

    assert Query(store).all(ReadMaxBytes(1)) == places(0, 0)


def test_limits_come_from_options_and_both_are_kept(store: Store) -> None:
    log = store.topic("orders").partition(0)
    for number in range(20):
        log.append(b"%0100d" % number)
    size = size_between(FileLog(log), 0, 1)

    rows = Query(store, maxOffsetsPerTrigger=7)
    both = Query(store, maxOffsetsPerTrigger=7, maxBytesPerTrigger=3 * size)
    only_bytes = Query(store, maxBytesPerTrigger=3 * size)

    assert rows.reader.getDefaultReadLimit() == ReadMaxRows(7)
    assert only_bytes.reader.getDefaultReadLimit() == ReadMaxBytes(3 * size)
    assert Query(store).reader.getDefaultReadLimit() == ALL
    assert rows.step(ReadMaxRows(7)) == places(0, *range(7))
    assert both.step(both.reader.getDefaultReadLimit()) == places(0, 0, 1, 2)
    assert both.step(ALL) == places(0, *range(3, 20))


def test_available_now_ends_at_the_messages_that_were_there(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 10)
    query = Query(store, topics=None, topicsPattern="orders.*")
    query.reader.prepareForTriggerAvailableNow()
    put(store, 5)
    store.topic("orders.late")
    put(store, 5, topic="orders.late")

    places_read = query.all(ReadMaxRows(4))

    assert places_read == places(0, *range(10))
    query.restart()
    assert len(query.all()) == 10


def test_the_progress_of_a_query_shows_the_ends_of_the_logs(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 10)
    query = Query(store)
    query.step(ReadMaxRows(4))

    assert query.reader.reportLatestOffset()["topics"] == {"orders": {"0": 10, "1": 0}}


def test_a_log_deleted_while_progress_is_reported_does_not_stop_a_query(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topic("orders", partitions=2)
    query = Query(store)
    query.step()
    log_of = OpenLogs.log

    def gone(logs: OpenLogs, place: TopicPartition, topic_id: str) -> ReadableLog:
        if place.partition == 1:
            raise NotALog("orders/1", "there is no index")
        return log_of(logs, place, topic_id)

    monkeypatch.setattr(OpenLogs, "log", gone)

    assert query.reader.reportLatestOffset()["topics"] == {"orders": {"0": 0}}
    with pytest.raises(TopicLost, match="deleted while"):
        query.plan()


# --- Partitions and topics that come ---


def test_a_partition_that_is_added_is_read_from_its_first_message(store: Store) -> None:
    store.topic("orders")
    put(store, 2)
    query = Query(store, startingOffsets="latest")
    query.step()
    store.configure_topic("orders", {"partitions": 3})
    put(store, 2, partition=2)

    assert query.step() == places(2, 0, 1)
    query.restart()
    put(store, 1, partition=1)
    assert query.step() == places(1, 0)


def test_a_topic_that_comes_later_is_read_from_its_first_message(store: Store) -> None:
    query = Query(store, topics=None, topicsPattern="orders.*", startingOffsets="latest")
    assert query.step() == []
    store.topic("orders.eu")
    put(store, 2, topic="orders.eu")
    store.topic("payments")
    put(store, 2, topic="payments")

    assert query.step() == places(0, 0, 1, topic="orders.eu")
    assert query.step() is None


def test_only_assigned_partitions_are_read(store: Store) -> None:
    store.topic("orders", partitions=3)
    for partition in range(3):
        put(store, 1, partition=partition)

    assert Query(store, topics=None, assign='{"orders": [1]}').all() == places(1, 0)


def test_a_topic_that_is_no_longer_requested_is_omitted(store: Store) -> None:
    for topic in ("orders", "payments"):
        store.topic(topic)
        put(store, 1, topic=topic)
    query = Query(store, topics="orders,payments")
    query.step()
    put(store, 1)
    put(store, 1, topic="payments")
    query.reader = stream_reader(store.path, NUMBERS, topics="orders")

    assert query.step() == places(0, 1)
    assert query.step() is None


# --- Lost messages ---


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_topic_deleted_under_a_stream_is_an_error(store: Store, is_replaced: bool) -> None:
    store.topic("orders")
    put(store, 2)
    query = Query(store)
    query.step()
    store.delete_topic("orders")
    if is_replaced:
        store.topic("orders")
        put(store, 5)

    with pytest.raises(TopicLost, match=r"topic 'orders' was deleted.*another checkpoint") as caught:
        query.step()
    assert caught.value.is_replaced == is_replaced


def test_a_stream_may_continue_with_a_topic_that_was_created_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.topic("orders")
    put(store, 2)
    query = Query(store, failOnDataLoss="false")
    query.step()
    store.delete_topic("orders")
    with caplog.at_level(logging.WARNING):
        assert query.step() == []
    store.topic("orders")
    put(store, 3)

    assert query.step() == places(0, 0, 1, 2)
    assert "was deleted while a query reads it" in caplog.text


def retired_under(store: Store, query: Query) -> int:
    """Lets retention overtake a query. Returns the first remaining number."""
    log = store.topic("orders", block_size=4096).partition(0)
    log.append(b"0")
    query.step()
    for number in range(200):
        log.append(b"%0100d" % number)
    return log.retire(before=150)


def test_retired_messages_stop_a_stream_with_advice(store: Store) -> None:
    store.topic("orders", block_size=4096)
    query = Query(store)
    first = retired_under(store, query)

    with pytest.raises(DataLost, match=r"message 1 of partition 0 of topic 'orders'.*failOnDataLoss=false") as caught:
        query.step()
    assert (caught.value.wanted, caught.value.first, caught.value.end) == (1, first, 201)


def test_a_stream_may_continue_after_retired_messages(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.topic("orders", block_size=4096)
    query = Query(store, failOnDataLoss="false")
    first = retired_under(store, query)

    with caplog.at_level(logging.WARNING):
        places_read = query.step()

    assert places_read == places(0, *range(first, 201))
    assert f"continues from {first}" in caplog.text


def test_messages_retired_before_a_batch_is_rerun_are_detected(store: Store) -> None:
    log = store.topic("orders", block_size=4096).partition(0)
    for number in range(200):
        log.append(b"%0100d" % number)
    query = Query(store)
    query.plan()
    first = log.retire(before=150)
    query.restart()

    with pytest.raises(DataLost, match=f"message 0 of .* the messages {first} to 200"):
        query.run()


def test_a_store_older_than_the_checkpoint_is_an_error(store: Store) -> None:
    store.topic("orders")
    put(store, 5)
    query = Query(store)
    query.step()
    data = json.loads(query.log[0])
    data["topics"]["orders"]["0"] = 9
    query.log[0] = json.dumps(data)

    with pytest.raises(DataLost, match="message 9 of"):
        query.step()


# --- Archives ---


def test_a_stream_reads_retired_messages_from_an_archive(store: Store, tmp_path: Path) -> None:
    log = store.topic("orders", block_size=4096).partition(0)
    for number in range(200):
        log.append(b"%0100d" % number)
    archived(Path(store.path), tmp_path / "archive", "orders")
    first = log.retire(before=150)
    log.append(b"behind the archive")
    query = Query(store, archive=tmp_path / "archive")

    first_places = query.step(ReadMaxRows(50))
    more = query.step(ReadMaxBytes(10_000))
    last_places = query.all()

    assert first > 50
    assert first_places == places(0, *range(50))
    assert more is not None
    assert len(more) < 100
    assert first_places + more + last_places == places(0, *range(201))


# --- Groups ---


def test_the_lag_of_a_stream_is_that_of_its_group(store: Store) -> None:
    store.topic("orders", partitions=2)
    put(store, 5)
    query = Query(store, group="spark")
    query.step()

    query.plan()
    query.reader.stop()

    with store.topic("orders").group("spark") as group:
        assert group.positions() == {0: 5, 1: 0}


def test_unfinished_messages_of_a_stream_count_as_lag(store: Store) -> None:
    store.topic("orders")
    put(store, 5)
    query = Query(store, group="spark")
    query.step(ReadMaxRows(3))
    query.plan(ReadMaxRows(3))
    query.run()
    query.reader.stop()

    with store.topic("orders").group("spark") as group:
        assert group.positions() == {0: 3}


def test_a_group_that_cannot_show_a_stream_does_not_stop_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.topic("orders").group("spark", mode="queue").close()
    put(store, 5)
    query = Query(store, group="spark")

    with caplog.at_level(logging.WARNING):
        places_read = query.all()

    assert places_read == places(0, *range(5))
    assert "does not follow the stream" in caplog.text
    query.reader.stop()


def test_a_reader_is_pickled_without_its_open_files(store: Store) -> None:
    store.topic("orders")
    put(store, 5)
    query = Query(store, group="spark")
    query.all()

    copy = sent(query.reader)

    assert copy.initialOffset() == NOT_BEGUN
    query.reader.stop()
