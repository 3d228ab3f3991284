"""Archives: verification finds each kind of damage, and only verified messages are retired."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.spark.archives import archived, reasons, verified
from tests.support.store.stores import quick_store
from warren.queue.state.retention import ARCHIVE_GROUP
from warren.queue.store import Store
from warren.spark.archive import paths
from warren.spark.archive.manifest import ArchivedFile, load_manifest
from warren.spark.archive.retire import retire
from warren.spark.archive.write import file_checksum

BLOCK = 4096


def filled(store: Store, rounds: int = 10) -> None:
    topic = store.topic("orders", block_size=BLOCK)
    for _ in range(rounds):
        topic.put_many([b"x" * 100] * 20, tag="eu")


def path_of(archive: Path, index: int = 0) -> Path:
    return archive / load_manifest(str(archive)).files[index].path


def recorded(archive: Path, files: list[ArchivedFile]) -> None:
    """Replaces the manifest by one of these files, valid or not."""
    import warren.spark.archive.manifest as module

    for number in range(1, load_manifest(str(archive)).number + 1):
        os.remove(paths.manifest_file(str(archive), number))
    from warren.clock import SYSTEM_CLOCK

    assert module._create(str(archive), module.Manifest(number=1, files=files), SYSTEM_CLOCK)


def test_an_archive_that_is_whole_is_good(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")

        report = verified(tmp_path / "s", tmp_path / "a")

    assert report.is_good
    assert [(part.messages, part.compared, part.verified_end) for part in report.partitions] == [(200, 200, 200)]


def test_retired_messages_are_checked_by_the_manifest_alone(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        first = store.topic("orders").partition(0).retire(before=100)

        report = verified(tmp_path / "s", tmp_path / "a")
        alone = verified(None, tmp_path / "a")

    assert 0 < first <= 100
    assert report.is_good
    assert report.partitions[0].compared == 200 - first
    assert (alone.is_good, alone.partitions[0].compared) == (True, 0)


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        path_of(tmp_path / "a").unlink()

        report = verified(tmp_path / "s", tmp_path / "a")

    assert reasons(report) == ["the file is missing"]
    assert report.partitions[0].verified_end == 0


def test_any_changed_byte_is_found(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
    path = path_of(tmp_path / "a")
    data = path.read_bytes()

    for position in range(0, len(data), len(data) // 23):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])

        assert reasons(verified(None, tmp_path / "a")) == ["the bytes of the file differ from those that were archived"]

    path.write_bytes(data[:-1])
    assert reasons(verified(None, tmp_path / "a"))[0].startswith(f"the file has {len(data) - 1:,} bytes")


def test_a_file_with_other_messages_is_found_even_if_the_manifest_was_made_for_it(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        manifest = archived(tmp_path / "s", tmp_path / "a", "orders")
        path = path_of(tmp_path / "a")
        table = pq.ParquetFile(path).read()
        index = table.schema.get_field_index("value")
        values = table.column("value").to_pylist()
        values[7] = b"y" * 100
        changed = table.set_column(index, table.schema.field(index), [values])

        pq.write_table(changed, path, store_schema=False)
        size, crc = file_checksum(str(path))
        recorded(tmp_path / "a", [dataclasses.replace(manifest.files[0], size=size, crc=crc)])
        by_manifest = reasons(verified(tmp_path / "s", tmp_path / "a"))
        pq.write_table(table.slice(0, 150), path, store_schema=False)
        size, crc = file_checksum(str(path))
        recorded(tmp_path / "a", [dataclasses.replace(manifest.files[0], size=size, crc=crc)])
        too_few = reasons(verified(tmp_path / "s", tmp_path / "a"))

    assert by_manifest == ["value: different from the manifest"]
    assert too_few == ["the file has the messages 0 to 149, not 0 to 199"]


def test_a_difference_from_the_log_is_found(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store, quick_store(tmp_path / "t") as other:
        filled(store)
        manifest = archived(tmp_path / "s", tmp_path / "a", "orders")
        filled(other, rounds=9)
        other.topic("orders").put_many([b"z" * 100] * 20, tag="us")
        from warren.spark.store_access.files import FileCatalog

        other_id = FileCatalog(str(tmp_path / "t")).topic_id("orders")
        recorded(tmp_path / "a", [dataclasses.replace(file, topic_id=other_id) for file in manifest.files])

        differences = reasons(verified(tmp_path / "t", tmp_path / "a"))

    assert differences == ["timestamp, value, tag: different from the log"]


def test_a_gap_and_an_overlap_are_found(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        for _ in range(3):
            filled(store, rounds=1)
            archived(tmp_path / "s", tmp_path / "a", "orders")
        first, second, third = load_manifest(str(tmp_path / "a")).files

        recorded(tmp_path / "a", [first, third])
        gap = verified(tmp_path / "s", tmp_path / "a")
        recorded(tmp_path / "a", [first, dataclasses.replace(second, first=15), third])
        overlap = verified(tmp_path / "s", tmp_path / "a")

    assert [(finding.first, finding.end, finding.reason) for finding in gap.findings] == [
        (20, 40, "missing between two files")
    ]
    assert gap.partitions[0].verified_end == 20
    assert (15, 20, "in two files") in [(finding.first, finding.end, finding.reason) for finding in overlap.findings]
    assert overlap.partitions[0].verified_end == 20


def test_messages_in_neither_are_found(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store, rounds=1)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        filled(store)
        first = store.topic("orders").partition(0).retire(before=200)

        report = verified(tmp_path / "s", tmp_path / "a")

    assert [(finding.first, finding.end) for finding in report.findings] == [(20, first)]
    assert "neither" in reasons(report)[0]


# --- Retiring ---


def test_only_verified_messages_are_retired(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        filled(store)
        path_of(tmp_path / "a", 1).unlink()

        (retired,) = retire(str(tmp_path / "s"), verified(tmp_path / "s", tmp_path / "a"))

        assert (retired.verified_end, retired.was_first, retired.held_by) == (200, 0, "")
        assert 0 < retired.first <= 200
        assert store.topic("orders").partition(0).first == retired.first


def test_messages_that_a_group_still_needs_are_kept(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        with store.topic("orders").group("billing") as billing:
            billing.commit({0: 50})
            archived(tmp_path / "s", tmp_path / "a", "orders")

            (retired,) = retire(str(tmp_path / "s"), verified(tmp_path / "s", tmp_path / "a"))

    assert retired.held_by == "billing"
    assert 0 < retired.first <= 50


def test_young_messages_are_kept_on_request(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path / "s", clock=clock) as store:
        filled(store)
        clock.pass_ns(3_600 * 10**9)
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")

        (retired,) = retire(str(tmp_path / "s"), verified(tmp_path / "s", tmp_path / "a"), keep_s=1_800.0, clock=clock)

    assert 0 < retired.first <= 200


@pytest.mark.parametrize("settings", [{"retention_age_s": 1.0}, {"retention_bytes": 1}, {"retention_consumed": True}])
def test_retention_goes_no_further_than_the_verified_archive(tmp_path: Path, settings: dict[str, object]) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path / "s", clock=clock) as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        retire(str(tmp_path / "s"), verified(tmp_path / "s", tmp_path / "a"), clock=clock)
        filled(store)
        topic = store.topic("orders")
        topic.configure(**settings)
        clock.pass_ns(3_600 * 10**9)

        topic.retire()

        assert ARCHIVE_GROUP in topic.groups()
        assert topic.partition(0).first <= 200


def test_nothing_is_retired_of_a_topic_that_replaced_the_archived_one(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        filled(store)
        archived(tmp_path / "s", tmp_path / "a", "orders")
        report = verified(tmp_path / "s", tmp_path / "a")
        store.delete_topic("orders")
        filled(store)

        retired = retire(str(tmp_path / "s"), report)

        assert retired == []
        assert store.topic("orders").partition(0).first == 0
