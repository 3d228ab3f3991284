"""A batch read: its messages, by options and by filters, and its errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from tests.support.fakes import VERSIONS
from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.spark.reads import batch_reader, read_rows, rows_of, sent
from tests.support.store.stores import quick_store
from warren.errors import (
    BadOption,
    CorruptRecord,
    DataLost,
    NoSuchPartition,
    NoSuchTopic,
    NotAStore,
    TopicLost,
)
from warren.queue.store import Store
from warren.spark.read.filters import Narrowing, is_plain
from warren.storage.format.tags import TagFilter

SECOND_NS = 1_000_000_000
NUMBERS = "topic string, partition int, offset long"


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with quick_store(tmp_path / "store", clock=clock) as opened:
        yield opened


def fill(store: Store, clock: SimulatedClock, topic: str, *, partitions: int = 2, version: int = 2) -> None:
    """Ten messages in each partition, one each second, with tags in turn."""
    made = store.topic(topic, partitions=partitions, version=version)
    for partition in range(partitions):
        log = made.partition(partition)
        for number in range(10):
            log.append(b"%d" % number, tag=("eu.de", "eu.fr", "us", "eu", "")[number % 5])
            clock.pass_ns(SECOND_NS)


def numbers(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def places(topic: str, partition: int, *offsets: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, number) for number in offsets]


# --- Which topics ---


def test_topics_are_chosen_by_name_by_pattern_and_by_partition(store: Store, clock: SimulatedClock) -> None:
    for topic in ("orders", "orders.dead", "payments"):
        fill(store, clock, topic, partitions=2)

    def chosen(**options: str) -> set[tuple[str, int]]:
        return {(row["topic"], row["partition"]) for row in read_rows(store.path, NUMBERS, **options)}

    assert chosen(topics="orders,payments") == {(t, p) for t in ("orders", "payments") for p in (0, 1)}
    assert chosen(topicsPattern="orders.*") == {(t, p) for t in ("orders", "orders.dead") for p in (0, 1)}
    assert chosen(subscribePattern="order") == set()
    assert chosen(assign='{"orders": [1], "payments": [0]}') == {("orders", 1), ("payments", 0)}


def test_a_missing_topic_or_partition_is_an_error(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders")

    with pytest.raises(NoSuchTopic, match="nope"):
        read_rows(store.path, topics="orders,nope")
    with pytest.raises(NoSuchPartition, match="no partition 2"):
        read_rows(store.path, assign='{"orders": [2]}')


def test_a_topic_without_messages_is_empty(store: Store) -> None:
    store.topic("orders", partitions=3)

    assert read_rows(store.path, topics="orders") == []


def test_a_path_that_is_not_a_store_is_reported_with_the_host(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match=r"on the host .* it does not exist; on a cluster the path must be on storage"):
        read_rows(tmp_path / "nothing", topics="orders")


def test_a_worker_without_access_to_the_store_raises(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders")
    reader = batch_reader(store.path, topics="orders")
    (task,) = reader.partitions()
    store.close()
    shutil.rmtree(store.path)

    with pytest.raises(NotAStore, match="on the host"):
        list(sent(reader).read(sent(task)))


# --- Which messages ---


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_set_the_start_and_the_end(store: Store, clock: SimulatedClock, version: int) -> None:
    fill(store, clock, "orders", version=version)

    rows = read_rows(
        store.path,
        NUMBERS,
        topics="orders",
        startingOffsets='{"orders": {"0": 8, "1": -2}}',
        endingOffsets='{"orders": {"0": -1, "1": 2}}',
    )

    assert numbers(rows) == [*places("orders", 0, 8, 9), *places("orders", 1, 0, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_times_set_the_start_and_the_end_and_the_end_is_exclusive(
    store: Store, clock: SimulatedClock, version: int
) -> None:
    fill(store, clock, "orders", partitions=1, version=version)
    start_s = START_NS // SECOND_NS

    rows = read_rows(
        store.path,
        NUMBERS,
        topics="orders",
        startingTimestamp=str((start_s + 3) * 1000),
        endingTimestamp=datetime.fromtimestamp(start_s + 6, UTC).isoformat(),
    )

    assert numbers(rows) == places("orders", 0, 3, 4, 5)


def test_a_tag_filter_picks_messages(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders", partitions=1)

    rows = read_rows(store.path, NUMBERS, topics="orders", tag="eu.*")

    assert numbers(rows) == places("orders", 0, 0, 1, 5, 6)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"orders": {"0": 11}}'},
        {"endingOffsets": '{"orders": {"0": 11}}'},
    ],
)
def test_an_offset_that_is_not_there_is_an_error_unless_that_may_be(
    store: Store, clock: SimulatedClock, options: dict[str, str]
) -> None:
    fill(store, clock, "orders", partitions=1)

    with pytest.raises(DataLost, match=r"partition 0 of topic 'orders'.*messages 0 to 10") as caught:
        read_rows(store.path, topics="orders", **options)
    rows = read_rows(store.path, NUMBERS, topics="orders", failOnDataLoss="false", **options)

    assert (caught.value.first, caught.value.end) == (0, 10)
    assert len(rows) == (0 if "startingOffsets" in options else 10)


def test_retired_messages_are_an_error_with_advice_unless_loss_is_allowed(store: Store) -> None:
    log = store.topic("orders", block_size=4096).partition(0)
    for number in range(200):
        log.append(b"%0100d" % number)
    first = log.retire(before=150)
    start = '{"orders": {"0": 5}}'

    with pytest.raises(DataLost, match=f"message 5 of .* the messages {first} to 200"):
        read_rows(store.path, topics="orders", startingOffsets=start)
    rows = read_rows(store.path, NUMBERS, topics="orders", startingOffsets=start, failOnDataLoss="false")

    assert [row["offset"] for row in rows] == list(range(first, 200))
    assert [row["offset"] for row in read_rows(store.path, NUMBERS, topics="orders")] == list(range(first, 200))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_messages_retired_between_planning_and_reading_are_detected(store: Store, fails: str) -> None:
    log = store.topic("orders", block_size=4096).partition(0)
    for number in range(200):
        log.append(b"%0100d" % number)
    reader = batch_reader(store.path, NUMBERS, topics="orders", failOnDataLoss=fails)
    (task,) = reader.partitions()
    first = log.retire(before=150)

    def read() -> list[int]:
        return [row["offset"] for batch in reader.read(task) for row in batch.to_pylist()]

    if fails == "true":
        with pytest.raises(DataLost, match="message 0 of"):
            read()
    else:
        assert read() == list(range(first, 200))


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_topic_deleted_between_planning_and_reading_is_an_error(
    store: Store, clock: SimulatedClock, is_replaced: bool
) -> None:
    fill(store, clock, "orders")
    reader = batch_reader(store.path, topics="orders")
    (task,) = reader.partitions()
    store.delete_topic("orders")
    if is_replaced:
        fill(store, clock, "orders")

    with pytest.raises(TopicLost, match="created again" if is_replaced else "deleted while"):
        list(reader.read(task))


def test_damage_is_reported_with_its_position(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders", partitions=1)
    block = Path(store.topic("orders").partition(0).inspect().blocks[0].path)
    data = bytearray(block.read_bytes())
    place = data.rindex(b"us")
    data[place] ^= 1
    block.write_bytes(data)

    with pytest.raises(CorruptRecord, match=r"is damaged at byte .*warren log verify"):
        read_rows(store.path, topics="orders")


# --- Filters ---


def test_spark_takes_the_reader_with_push_down_off_and_on(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders")
    reader = batch_reader(store.path, topics="orders")

    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    assert list(reader.pushFilters([EqualTo(("offset",), 3)])) == []
    assert numbers(rows_of(sent(reader))) == [*places("orders", 0, 3), *places("orders", 1, 3)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("offset",), 4)], [4]),
        ([GreaterThan(("offset",), 4), LessThanOrEqual(("offset",), 6)], [5, 6]),
        ([GreaterThanOrEqual(("offset",), 8), IsNotNull(("offset",))], [8, 9]),
        ([LessThan(("offset",), 2)], [0, 1]),
        ([LessThan(("offset",), -2)], []),
        ([EqualTo(("topic",), "orders"), EqualTo(("partition",), 0), LessThan(("offset",), 1)], [0]),
        ([EqualTo(("topic",), "payments")], []),
        ([In(("partition",), (1, 2))], []),
        ([StringStartsWith(("topic",), "ord"), EqualTo(("offset",), 1)], [1]),
        ([EqualTo(("tag",), "eu"), IsNotNull(("tag",))], [3, 8]),
        ([In(("tag",), ("us", "eu.fr", "nope"))], [1, 2, 6, 7]),
        ([EqualTo(("tag",), "us"), EqualTo(("tag",), "eu")], []),
    ],
)
def test_filters_that_leave_nothing_to_spark(
    store: Store, clock: SimulatedClock, filters: list[Filter], expected: list[int]
) -> None:
    fill(store, clock, "orders", partitions=1)
    reader = batch_reader(store.path, NUMBERS + ", tag string", topics="orders")

    unhandled = list(reader.pushFilters(filters))

    assert unhandled == []
    assert [row["offset"] for row in rows_of(reader)] == expected


@pytest.mark.parametrize(
    ("filters", "read"),
    [
        ([In(("offset",), (2, 5))], [2, 3, 4, 5]),
        ([StringStartsWith(("tag",), "eu.")], [0, 1, 3, 5, 6, 8]),
        ([StringStartsWith(("tag",), "e")], range(10)),
        ([EqualTo(("tag",), "eu.*")], range(10)),
        ([EqualTo(("tag",), "a..b")], range(10)),
        ([EqualTo(("tag",), "")], range(10)),
        ([In(("tag",), ("us", None))], range(10)),
        ([In(("tag",), tuple("x" * 20 + str(number) for number in range(9)))], range(10)),
        ([Not(EqualTo(("offset",), 4))], range(10)),
        ([IsNull(("tag",))], range(10)),
        ([IsNotNull(("tag",))], range(10)),
        ([EqualTo(("value",), b"4")], range(10)),
        ([EqualTo(("headers", "x"), b"4")], range(10)),
        ([EqualTo(("offset",), 4.5)], range(10)),
    ],
)
def test_filters_that_spark_must_apply_again(
    store: Store, clock: SimulatedClock, filters: list[Filter], read: list[int]
) -> None:
    fill(store, clock, "orders", partitions=1)
    reader = batch_reader(store.path, topics="orders")

    unhandled = list(reader.pushFilters(filters))

    assert unhandled == filters
    assert [row["offset"] for row in rows_of(reader)] == list(read)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (GreaterThanOrEqual, [5, 6, 7, 8, 9]),
        (GreaterThan, [6, 7, 8, 9]),
        (LessThan, [0, 1, 2, 3, 4]),
        (LessThanOrEqual, [0, 1, 2, 3, 4, 5]),
        (EqualTo, [5]),
    ],
)
def test_a_filter_of_time_is_exact_to_the_microsecond(
    store: Store, clock: SimulatedClock, version: int, make: Any, expected: list[int]
) -> None:
    fill(store, clock, "orders", partitions=1, version=version)
    rows = read_rows(store.path, topics="orders")
    at: datetime = rows[5]["timestamp"]
    reader = batch_reader(store.path, topics="orders")

    assert list(reader.pushFilters([make(("timestamp",), at)])) == []

    assert [row["offset"] for row in rows_of(reader)] == expected
    nothing = batch_reader(store.path, topics="orders")
    assert rows_of(nothing, [EqualTo(("timestamp",), at + timedelta(microseconds=1))]) == []


def test_filters_narrow_the_selection_of_options_and_never_widen_it(store: Store, clock: SimulatedClock) -> None:
    fill(store, clock, "orders", partitions=1)

    def matches(filters: list[Filter], **options: str) -> list[int]:
        reader = batch_reader(store.path, NUMBERS + ", tag string", topics="orders", **options)
        return [row["offset"] for row in rows_of(reader, filters)]

    assert matches([GreaterThanOrEqual(("offset",), 2)], startingOffsets='{"orders": {"0": 7}}') == [7, 8, 9]
    assert matches([EqualTo(("tag",), "us")], tag="eu.#") == []
    assert matches([In(("tag",), ("us", "eu.de"))], tag="eu.#") == [0, 5]
    assert matches([StringStartsWith(("tag",), "us.")], tag="eu.#") == [0, 1, 3, 5, 6, 8]


def test_a_field_of_the_value_is_not_taken_for_a_column_of_the_message(store: Store) -> None:
    store.topic("orders").partition(0).append_many([b'{"offset": "a"}', b'{"offset": "b"}'])
    reader = batch_reader(store.path, "offset string", topics="orders", valueFormat="json")

    assert rows_of(reader, [EqualTo(("offset",), "b")]) == [{"offset": "a"}, {"offset": "b"}]


@given(tag=st.text(alphabet="ab.*#;", max_size=6), other=st.text(alphabet="ab.*#;", min_size=1, max_size=6))
def test_a_tag_that_becomes_a_filter_matches_itself_and_nothing_else(tag: str, other: str) -> None:
    narrowing = Narrowing()

    unhandled = narrowing.push([EqualTo(("tag",), tag)], {"tag"})

    if is_plain(tag):
        assert unhandled == []
        assert TagFilter.parse(narrowing.tag or "").matches(other) == (other == tag)
    else:
        assert (len(unhandled), narrowing.tag) == (1, None)


def test_a_typed_read_needs_a_schema(store: Store) -> None:
    with pytest.raises(BadOption, match=r"json needs a schema; pass one with \.schema"):
        batch_reader(store.path, topics="orders", valueFormat="json")
