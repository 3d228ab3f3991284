"""Archives: each message once, by topic and day, in files of a bounded size, equal to the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.broken_batches import broken_batch
from tests.support.simulated_clock import SimulatedClock
from tests.support.spark.archives import archived, columns_of, staged_files, verified
from tests.support.store.stores import quick_store
from warren.message import Message
from warren.queue.topic import Topic
from warren.spark.archive import write
from warren.spark.archive.checksums import ContentChecksum
from warren.spark.archive.columns import shaped
from warren.spark.archive.errors import ArchiveGap, ArchiveOfAnother
from warren.spark.archive.plan import DayRange, tasks
from warren.spark.archive.staging import ArchiveRun
from warren.spark.archive.table import Archive, ArchiveAndLog, ArchivedPartition
from warren.spark.archive.verification import file_batches
from warren.spark.store_access.files import FileCatalog
from warren.storage.arrow.arrays import SCHEMA
from warren.storage.format.kafka_batch import pack_kafka

DAY_NS = 86_400 * 10**9


def put_all_kinds(topic: Topic, rounds: int = 3) -> None:
    """Messages with and without each field, singly and in batches."""
    for turn in range(rounds):
        topic.put(b"", partition=0)
        topic.put(b"one", key=b"", tag="eu.de", headers={"a": b"1", "b": b""}, id=f"x-{turn}", partition=0)
        topic.put_many([b"%d" % row for row in range(50)], tag="us", partition=0)
        topic.put_many(
            [b"b" * row for row in range(20)],
            tags=["", "eu.fr"] * 10,
            keys=[None, b"k"] * 10,
            headers=[None, {"trace": b"t"}] * 10,
            corr_offsets=[-1, 5] * 10,
            partition=0,
        )


def read_back(
    part: ArchivedPartition | ArchiveAndLog, start: int, end: int, tag: str | None = None
) -> list[list[object]]:
    archived_part = part.archived if isinstance(part, ArchiveAndLog) else part
    batches = [batch for part in archived_part.ranges(start, end) for batch in part.read(SCHEMA.names, tag)]
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


def rows_of(messages: list[Message]) -> list[list[object]]:
    return [columns_of(message) for message in messages]


def test_the_archive_has_the_messages_of_the_log(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders")
        put_all_kinds(topic)
        messages = topic.partition(0).read(0, limit=10_000)

        archived(tmp_path / "s", tmp_path / "a", "orders")

        part = Archive(str(tmp_path / "a")).partition("orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0)
        assert part is not None
        assert read_back(part, 0, 10_000) == rows_of(messages)
        assert read_back(part, 7, 60) == rows_of(messages[7:60])
        assert read_back(part, 0, 10_000, "eu.#") == rows_of([m for m in messages if m.tag.startswith("eu.")])


def test_a_log_of_version_1_is_archived_as_well(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders", version=1)
        topic.put(b"one", tag="eu", id="x")
        topic.put_many([b"two", b""])
        messages = topic.partition(0).read(0)

        archived(tmp_path / "s", tmp_path / "a", "orders")

        part = Archive(str(tmp_path / "a")).partition("orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0)
        assert part is not None
        assert read_back(part, 0, 10) == rows_of(messages)
        assert verified(tmp_path / "s", tmp_path / "a").is_good


def test_a_run_continues_after_the_last_one_in_each_partition(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders", partitions=2)
        topic.put_many([b"a"] * 10, partition=0)

        first = archived(tmp_path / "s", tmp_path / "a", "orders")
        topic.put_many([b"b"] * 5, partition=0)
        topic.put_many([b"c"] * 3, partition=1)
        second = archived(tmp_path / "s", tmp_path / "a", "orders")
        third = archived(tmp_path / "s", tmp_path / "a", "orders")

        assert [(file.partition, file.first, file.end) for file in first.files] == [(0, 0, 10)]
        assert [(file.partition, file.first, file.end) for file in second.files] == [(0, 0, 10), (0, 10, 15), (1, 0, 3)]
        assert third == second
        assert second.number == 2


def test_every_day_has_its_own_files(tmp_path: Path) -> None:
    clock = SimulatedClock(wall_ns=1_773_000_000 * 10**9)
    with quick_store(tmp_path / "s", clock=clock) as store:
        topic = store.topic("orders")
        for _ in range(3):
            topic.put_many([b"x"] * 4)
            clock.pass_ns(2 * DAY_NS)

        manifest = archived(tmp_path / "s", tmp_path / "a", "orders")

    assert [(file.date, file.first, file.end) for file in manifest.files] == [
        ("2026-03-08", 0, 4),
        ("2026-03-10", 4, 8),
        ("2026-03-12", 8, 12),
    ]
    path = tmp_path / "a" / "topic=orders" / "date=2026-03-10" / f"0-{4:020d}-{8:020d}.parquet"
    metadata = {key.decode(): value.decode() for key, value in pq.ParquetFile(path).metadata.metadata.items()}
    assert metadata["warren.first"] == "4"
    assert metadata["warren.end"] == "8"
    assert metadata["warren.count"] == "4"
    assert metadata["warren.topic"] == "orders"
    assert metadata["warren.content.value"] == manifest.files[1].content["value"]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ARCHIVE_FILE_SIZE_TARGET", 2_000)
    monkeypatch.setattr(write, "ARCHIVE_ROW_GROUP_COUNT_MAX", 100)
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"%d" % row for row in range(1_000)])

        manifest = archived(tmp_path / "s", tmp_path / "a", "orders")

    assert len(manifest.files) > 2
    assert [file.first for file in manifest.files] == [0, *(file.end for file in manifest.files[:-1])]
    assert manifest.files[-1].end == 1_000


def test_times_are_found_in_archive_and_log_as_in_one(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path / "s", clock=clock) as store:
        topic = store.topic("orders")
        for _ in range(40):
            topic.put(b"x")
            clock.pass_ns(DAY_NS // 4)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        for _ in range(10):
            topic.put(b"y")
            clock.pass_ns(DAY_NS // 4)
        log = topic.partition(0)
        part = Archive(str(tmp_path / "a")).partition("orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0)
        assert part is not None
        both = ArchiveAndLog(part, log, "orders", 0)

        times = [message.timestamp + shift for message in log.read(0) for shift in (-1, 0, 1)]

        assert [both.find_time(time) for time in times] == [log.find_time(time) for time in times]
        assert (both.first, both.end) == (0, 50)


def test_messages_that_were_retired_too_early_are_a_gap(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders", block_size=4096)
        topic.put_many([b"x" * 100] * 10)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        part = Archive(str(tmp_path / "a")).partition("orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0)
        for _ in range(10):
            topic.put_many([b"x" * 100] * 20)
        first = topic.partition(0).retire(before=100)

        with pytest.raises(ArchiveGap, match=f"messages 10 to {first - 1} of partition 0"):
            archived(tmp_path / "s", tmp_path / "a", "orders")

        assert part is not None
        with pytest.raises(ArchiveGap, match="retired before they were archived"):
            ArchiveAndLog(part, topic.partition(0), "orders", 0)


def test_a_topic_made_in_the_place_of_another_is_not_added_to_its_archive(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put(b"x")
        archived(tmp_path / "s", tmp_path / "a", "orders")
        store.delete_topic("orders")
        store.topic("orders").put(b"y")

        with pytest.raises(ArchiveOfAnother, match="use another directory"):
            archived(tmp_path / "s", tmp_path / "a", "orders")

        with pytest.raises(ArchiveOfAnother):
            Archive(str(tmp_path / "a")).partition("orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0)


def test_a_checksum_does_not_depend_on_the_size_of_batches(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders")
        put_all_kinds(topic)
        whole, parts, parquet = ContentChecksum(), ContentChecksum(), ContentChecksum()
        batches = [shaped(batch) for batch in topic.partition(0).scan()]
        together = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

        whole.add(together)
        for row in range(0, together.num_rows, 7):
            parts.add(together.slice(row, 7))
        manifest = archived(tmp_path / "s", tmp_path / "a", "orders")
        for batch in file_batches(str(tmp_path / "a" / manifest.files[0].path)):
            parquet.add(batch)

        assert whole.columns() == parts.columns() == parquet.columns() == manifest.files[0].content


@pytest.mark.parametrize("column", ["key", "value", "id", "tag", "corr_offset", "headers"])
def test_a_checksum_distinguishes_null_from_empty_and_different_values(column: str) -> None:
    messages = {
        "key": ([None, b""], [b"", None]),
        "value": ([b"a", b"b"], [b"ab", b""]),
        "id": ([None, "a"], ["a", None]),
        "tag": (["a", "b"], ["b", "a"]),
        "corr_offset": ([None, 1], [1, None]),
        "headers": ([[{"key": "a", "value": b""}], None], [None, [{"key": "a", "value": b""}]]),
    }[column]
    plain = {
        "offset": [0, 1],
        "timestamp": [0, 0],
        "key": [None] * 2,
        "value": [b""] * 2,
        "id": [None] * 2,
        "tag": [None] * 2,
        "corr_offset": [None] * 2,
        "byte_offset": [0, 0],
        "headers": [None] * 2,
    }
    checksums = []
    for values in messages:
        checksum = ContentChecksum()
        rows = pa.table(plain | {column: values}, schema=shaped_schema())
        checksum.add(rows.to_batches()[0])
        checksums.append(checksum.columns())

    assert checksums[0][column] != checksums[1][column]
    assert {name for name in checksums[0] if checksums[0][name] != checksums[1][name]} == {column}


def shaped_schema() -> pa.Schema:
    from warren.spark.archive.columns import CHECKED, schema_of

    return schema_of(CHECKED)


def test_large_pieces_are_cut_and_small_ones_put_together() -> None:
    large = DayRange("a", "id", 0, "2026-03-08", 0, 1_000_000, 400 << 20)
    small = [DayRange("b", "id", number, "2026-03-08", 0, 10, 1_000) for number in range(50)]

    planned = tasks([large, *small], 2)

    assert len(planned) == 2
    parts = sorted(day_range for task in planned for day_range in task if day_range.topic == "a")
    assert [(part.first, part.end) for part in parts] == [(0, 500_000), (500_000, 1_000_000)]
    assert sum(day_range.topic == "b" for task in planned for day_range in task) == 50


def test_a_task_says_how_far_it_has_come(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 100)

        with ArchiveRun(str(tmp_path / "a")) as run:
            before = run.done_count()
            staged_files(tmp_path / "s", run, ["orders"])
            after = run.done_count()

    assert (before, after) == (0, 100)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_unreadable_numbers_are_left_out_and_the_archive_is_whole(tmp_path: Path, at: int) -> None:
    with quick_store(tmp_path / "s") as store:
        topic = store.topic("orders")
        for place in range(3):
            if place == at:
                topic.partition(0).append_packed([pack_kafka(broken_batch(5))])
            topic.put_many([b"good"] * 4)

        archived(tmp_path / "s", tmp_path / "a", "orders")
        report = verified(tmp_path / "s", tmp_path / "a")
        topic.partition(0).append_packed([pack_kafka(broken_batch(5))])
        topic.put(b"last")
        archived(tmp_path / "s", tmp_path / "a", "orders")
        later = verified(tmp_path / "s", tmp_path / "a")

        partition = Archive(str(tmp_path / "a")).partition(
            "orders", FileCatalog(str(tmp_path / "s")).topic_id("orders"), 0
        )
        assert partition is not None
        assert [row[0] for row in read_back(partition, 0, 100)] == [m.number for m in topic.partition(0).read(0)]
    assert [(part.findings, part.first, part.verified_end) for part in report.partitions] == [([], 0, 17)]
    assert [(part.findings, part.first, part.verified_end) for part in later.partitions] == [([], 0, 23)]
