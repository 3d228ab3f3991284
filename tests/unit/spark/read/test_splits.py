"""How a batch read is cut into tasks: as many as are useful, of similar length, at record boundaries, without loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import VERSIONS
from tests.support.spark.reads import batch_reader, read_rows
from tests.support.store.stores import quick_store
from warren.queue.store import Store
from warren.spark.read.log_range import LogRange
from warren.spark.read.splits import SPARK_TASK_ROWS_MAX, SPARK_TASK_ROWS_MIN, ReadRange, ReadTask, planned, task_count
from warren.spark.store_access.files import FileAccess


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with quick_store(tmp_path / "store") as opened:
        yield opened


def log_range(partition: int, start: int, end: int) -> LogRange:
    return LogRange(access=FileAccess("p"), topic="t", topic_id="i", partition=partition, start=start, end=end)


def exactly(part: LogRange, number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("rows", "cores", "count_max", "expected"),
    [
        (0, 8, None, 1),
        (SPARK_TASK_ROWS_MIN, 8, None, 1),
        (SPARK_TASK_ROWS_MIN + 1, 8, None, 2),
        (4_000_000, 2, None, 2),
        (4_000_000, 8, None, 8),
        (9 * SPARK_TASK_ROWS_MAX, 4, None, 12),
        (100, 2, 5, 5),
        (3, 2, 5, 3),
        (9 * SPARK_TASK_ROWS_MAX, 2, 5, 9),
    ],
)
def test_there_are_no_more_tasks_than_the_data_needs(
    rows: int, cores: int, count_max: int | None, expected: int
) -> None:
    assert task_count(rows, cores, count_max) == expected


def test_a_large_partition_is_split_into_equal_tasks() -> None:
    tasks = planned([log_range(0, 100, 4100)], 4, exactly)

    assert [[(read_range.start, read_range.end) for read_range in log_ranges(task)] for task in tasks] == [
        [(100, 1100)],
        [(1100, 2100)],
        [(2100, 3100)],
        [(3100, 4100)],
    ]


def test_small_partitions_are_packed_together() -> None:
    tasks = planned([log_range(partition, 0, 10) for partition in range(100)], 2, exactly)

    assert [len(task) for task in tasks] == [500, 500]
    assert all(len(read_range) == 10 for task in tasks for read_range in task.ranges)
    assert [len(task) for task in planned([log_range(0, 0, 100), log_range(1, 0, 900)], 2, exactly)] == [500, 500]


def test_if_records_do_not_allow_equal_tasks_the_nearest_cut_is_used() -> None:
    ranges = [log_range(0, 0, 30), log_range(1, 0, 30), log_range(2, 0, 30), log_range(3, 0, 40)]

    tasks = planned(ranges, 2, lambda part, number: number // 10 * 10)

    assert [len(task) for task in tasks] == [60, 70]


def test_nothing_to_read_is_no_task() -> None:
    assert planned([log_range(0, 5, 5)], 2, exactly) == []


def test_a_range_that_cannot_be_cut_stays_whole() -> None:
    class Whole:
        topic, partition = "t", 0

        def __len__(self) -> int:
            return 1000

        def read(self, columns: object, tag: object) -> Iterator[object]:
            return iter(())

    whole: ReadRange = Whole()
    tasks = planned([whole, log_range(0, 0, 1000)], 4, exactly)

    assert [[len(read_range) for read_range in task.ranges] for task in tasks] == [[1000], [500], [500]]
    assert tasks[0].ranges == (whole,)


@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=12),
    count=st.integers(1, 9),
    record=st.sampled_from([1, 7, 1000]),
)
def test_every_message_is_read_once_and_in_order_for_any_split(sizes: list[int], count: int, record: int) -> None:
    ranges = [log_range(partition, 50, 50 + size) for partition, size in enumerate(sizes)]

    tasks = planned(ranges, count, lambda part, number: number - number % record)

    read = [(p.partition, number) for task in tasks for p in log_ranges(task) for number in range(p.start, p.end)]
    assert read == [(p.partition, number) for p in ranges for number in range(p.start, p.end)]
    if record == 1 and sum(sizes) >= 100:
        assert len(tasks) <= count + 1
        assert max(len(task) for task in tasks) <= 1.5 * sum(sizes) / count + 1


def log_ranges(task: ReadTask) -> list[LogRange]:
    return [read_range for read_range in task.ranges if isinstance(read_range, LogRange)]


@pytest.mark.parametrize("version", VERSIONS)
def test_tasks_are_cut_between_records(store: Store, version: int) -> None:
    log = store.topic("orders", version=version).partition(0)
    for start in range(0, 1000, 100):
        log.append_many([b"%d" % number for number in range(start, start + 100)])

    reader = batch_reader(store.path, topics="orders", minPartitions=3)
    tasks = [task for task in reader.partitions() if isinstance(task, ReadTask)]

    cuts = [(read_range.start, read_range.end) for task in tasks for read_range in log_ranges(task)]
    assert cuts == ([(0, 300), (300, 600), (600, 1000)] if version == 2 else [(0, 333), (333, 667), (667, 1000)])


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_any_number_of_tasks_reads_the_same(store: Store, parts: int) -> None:
    topic = store.topic("orders", partitions=3)
    for partition, count in enumerate((1000, 0, 50)):
        topic.partition(partition).append_many([b"%d" % number for number in range(count)])
    topic.partition(2).append(b"one more")

    rows = read_rows(store.path, "partition int, offset long, value string", topics="orders", minPartitions=parts)

    assert [(row["partition"], row["offset"]) for row in rows] == [
        *((0, number) for number in range(1000)),
        *((2, number) for number in range(51)),
    ]
    assert rows[-1]["value"] == "one more"
