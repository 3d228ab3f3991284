"""Archives on a real Spark: exactly once, verified, retired, and read with the log as one table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.archives import reasons
from warren.spark.archive import archive, retire, verify
from warren.spark.archive.errors import ArchiveGap
from warren.spark.archive.manifest import load_manifest
from warren.spark.runtime.tasks import TaskFailed
from warren.transaction.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_of(spark: SparkSession, store: Path, directory: Path, **options: str) -> DataFrame:
    reader = spark.read.format("warren").option("path", str(store)).option("archive", str(directory))
    return reader.option("topics", "orders").options(**options).load()


def numbers_of(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def expected(*counts: int) -> list[tuple[int, int]]:
    return [(partition, number) for partition, count in enumerate(counts) for number in range(count)]


def test_archive_and_log_are_one_table_while_messages_move_from_one_to_the_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, directory = tmp_path / "s", tmp_path / "a"
    progress: list[tuple[int, int]] = []
    with Store(store, keeps=False) as opened:
        topic = opened.topic("orders", partitions=2, block_size=8192)
        for _ in range(10):
            topic.put_many([b"x" * 100] * 30, tag="eu.de", partition=0)
        topic.put_many([b"y"] * 7, tags=["us", "eu.fr"] * 3 + [""], partition=1)

        archived = archive(spark, str(store), str(directory), progress=lambda *done: progress.append(done))
        again = archive(spark, str(store), str(directory))
        for _ in range(5):
            topic.put_many([b"z" * 100] * 30, tag="eu.de", partition=0)
        checked = verify(spark, str(directory), str(store))
        retired = retire(str(store), checked)
        table = table_of(spark, store, directory)
        middle = table_of(
            spark, store, directory, startingOffsets='{"orders": {"0": 290, "1": 3}}', tag="eu.#", includeHeaders="true"
        )

        assert archived.count == 307
        assert progress[-1] == (307, 307)
        assert again.files == []
        assert checked.is_good
        assert sum(partition.compared for partition in checked.partitions) == 307
        assert topic.partition(0).first == retired[0].first > 0
        assert numbers_of(table) == expected(450, 7)
        assert numbers_of(table.where("offset >= 100 and partition = 0")) == expected(450)[100:]
        assert numbers_of(middle) == [*expected(450)[290:], (1, 3), (1, 5)]
        last = table.where("partition = 1 and offset = 6").collect()[0]
        assert (last.topic, bytes(last.value), last.key, last.tag, last.id) == ("orders", b"y", None, None, None)


def test_damage_and_gaps_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    store, directory = tmp_path / "s", tmp_path / "a"
    with Store(store, keeps=False) as opened:
        topic = opened.topic("orders", block_size=8192)
        topic.put_many([b"x" * 100] * 30)
        archive(spark, str(store), str(directory))
        for _ in range(10):
            topic.put_many([b"x" * 100] * 30)
        topic.partition(0).retire(before=200)
        with pytest.raises(ArchiveGap):
            archive(spark, str(store), str(directory))
        with pytest.raises(Exception, match="retired before they were archived"):
            table_of(spark, store, directory).count()

        (file,) = load_manifest(str(directory)).files
        os.remove(directory / file.path)
        checked = verify(spark, str(directory), str(store))

    assert reasons(checked)[0] == "the file is missing"
    assert [(each.topic, each.partition, each.verified_end) for each in checked.partitions] == [("orders", 0, 0)]


def test_a_task_that_fails_leaves_the_archive_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    store, directory = tmp_path / "s", tmp_path / "a"
    with Store(store, keeps=False) as opened:
        opened.topic("orders").put_many([b"x"] * 30)
        archive(spark, str(store), str(directory))
        for body in (b"x", b"y", b"z"):
            opened.topic("orders").put_many([body] * 30)
    (block,) = (store / "topics" / "orders" / "0").glob("*.block")
    data = bytearray(block.read_bytes())
    data[data.index(b"y" * 30)] ^= 1
    block.write_bytes(data)

    with pytest.raises(TaskFailed, match="is damaged at byte"):
        archive(spark, str(store), str(directory))

    assert load_manifest(str(directory)).ends() == {("orders", 0): 30}
    assert os.listdir(directory / "_staging") == []
