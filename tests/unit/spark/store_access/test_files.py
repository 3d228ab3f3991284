"""The catalog of a store that is read from its files: each file once, and never the files of a deleted topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.store.stores import quick_store
from warren.errors import NoSuchTopic
from warren.queue.state.json_file import read_json
from warren.spark.read.log_range import LogRange
from warren.spark.store_access import files
from warren.spark.store_access.files import FileAccess


@pytest.fixture
def topic_files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the paths of the `topic.json` files that are read, in order."""
    paths: list[str] = []

    def read(filesystem: Any, path: str) -> Any:
        if path.endswith("topic.json"):
            paths.append(path)
        return read_json(filesystem, path)

    monkeypatch.setattr(files, "read_json", read)
    return paths


def test_a_task_reads_the_file_of_a_topic_once(tmp_path: Path, topic_files_read: list[str]) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders").put(b"a")
    access = FileAccess(str(tmp_path))
    topic_id = access.catalog().topic_id("orders")
    topic_files_read.clear()

    log_range = LogRange(access=access, topic="orders", topic_id=topic_id, partition=0, start=0, end=1)
    (rows,) = log_range.read(["body"], None)

    assert rows.column("body").to_pylist() == [b"a"]
    assert len(topic_files_read) == 1


def test_a_catalog_answers_from_its_cache_until_it_is_refreshed(tmp_path: Path, topic_files_read: list[str]) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders")
        catalog = FileAccess(str(tmp_path)).catalog()
        first = catalog.topic_id("orders")
        store.delete_topic("orders")
        store.topic("orders", partitions=3)

        assert (catalog.topic_id("orders"), len(topic_files_read)) == (first, 1)
        catalog.refresh()
        assert (catalog.topic_id("orders") == first, catalog.partition_count("orders")) == (False, 3)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_log_is_not_taken_for_an_empty_one_after_its_topic_was_deleted(tmp_path: Path, is_replaced: bool) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders", partitions=2).put(b"a", partition=1)
        catalog = FileAccess(str(tmp_path)).catalog()
        catalog.topic_id("orders")
        store.delete_topic("orders")
        if is_replaced:
            store.topic("orders", partitions=1)

        with pytest.raises(NoSuchTopic):
            catalog.open_log("orders", 1)


def test_a_partition_without_a_message_is_an_empty_log(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("orders", partitions=2).put(b"a", partition=0)
        log = FileAccess(str(tmp_path)).catalog().open_log("orders", 1)

    assert (log.first, log.end, list(log.scan(0, 0, ["body"], None))) == (0, 0, [])
