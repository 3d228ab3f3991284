"""Archives: a manifest makes files part of an archive, all or none, despite kills and concurrent runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support.spark.archives import archived, staged_files
from tests.support.store.stores import quick_store
from warren.spark.archive import manifest, paths, staging
from warren.spark.archive.errors import ArchiveConflict, ArchiveDamaged, NotAnArchive
from warren.spark.archive.manifest import (
    ARCHIVE_MANIFESTS_KEPT,
    ArchivedFile,
    Manifest,
    commit_files,
    load_manifest,
    require_manifest,
)
from warren.spark.archive.staging import ArchiveRun, located


def file_of(topic: str, first: int, end: int, *, topic_id: str = "id") -> ArchivedFile:
    return ArchivedFile(
        topic=topic,
        topic_id=topic_id,
        partition=0,
        date="2026-03-08",
        first=first,
        end=end,
        first_timestamp=0,
        last_timestamp=1,
        size=1,
        crc="0",
        content={"value": "0"},
        path=paths.file_path(topic, 0, "2026-03-08", first, end),
        staged=paths.staged_path("run", f"{topic}-{first}"),
    )


def files_below(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*.parquet"))


def ends_of(committed: Manifest) -> dict[str, int]:
    return {topic: end for (topic, _), end in committed.ends().items()}


def killed(run: ArchiveRun) -> None:
    """The process of the run has died: its lock is free, and nothing was tidied."""
    assert run._lock is not None
    run._lock.close()


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = [file_of("b", 0, 5), file_of("a", 7, 9), file_of("a", 3, 7)]

    written = commit_files(str(tmp_path), files)

    assert load_manifest(str(tmp_path)) == written
    assert [(file.topic, file.first) for file in written.files] == [("a", 3), ("a", 7), ("b", 0)]


def test_files_that_do_not_follow_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    commit_files(str(tmp_path), [file_of("a", 0, 5)])

    for files in (
        [file_of("a", 0, 5)],
        [file_of("a", 6, 8)],
        [file_of("b", 0, 2), file_of("a", 4, 8)],
        [file_of("a", 5, 8, topic_id="another")],
        [file_of("a", 5, 8), file_of("a", 9, 10)],
    ):
        with pytest.raises(ArchiveConflict, match="nothing of this run was kept"):
            commit_files(str(tmp_path), files)

    assert load_manifest(str(tmp_path)).number == 1


def test_concurrent_runs_archive_each_message_once(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def commit(topic: str) -> None:
        try:
            commit_files(str(tmp_path), [file_of(topic, 0, 5)])
            outcomes.append(topic)
        except ArchiveConflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=commit, args=(topic,)) for topic in ["a", "a", "b", "b", "c"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["a", "b", "c", "conflict", "conflict"]
    assert ends_of(load_manifest(str(tmp_path))) == {"a": 5, "b": 5, "c": 5}


def test_a_manifest_is_not_replaced_by_another_of_the_same_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_files(str(tmp_path), [file_of("a", 0, 5)])
    stale = [load_manifest(str(tmp_path))]
    commit_files(str(tmp_path), [file_of("b", 0, 5)])
    # A run that the lock does not exclude has read the manifest before last.
    monkeypatch.setattr(manifest, "load_manifest", lambda archive: stale.pop() if stale else load_manifest(archive))

    committed = commit_files(str(tmp_path), [file_of("c", 0, 5)])

    assert committed.number == 3
    assert ends_of(committed) == {"a": 5, "b": 5, "c": 5}


def test_old_manifests_are_removed(tmp_path: Path) -> None:
    for number in range(ARCHIVE_MANIFESTS_KEPT + 5):
        commit_files(str(tmp_path), [file_of("a", number, number + 1)])

    names = os.listdir(paths.manifests_directory(str(tmp_path)))

    assert len([name for name in names if name.endswith(".jsonl")]) == ARCHIVE_MANIFESTS_KEPT
    assert ends_of(load_manifest(str(tmp_path))) == {"a": ARCHIVE_MANIFESTS_KEPT + 5}


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"nonsense\n\x00"])
def test_a_file_that_is_not_a_manifest_is_an_error(tmp_path: Path, damage: bytes) -> None:
    commit_files(str(tmp_path), [file_of("a", 0, 5)])
    Path(paths.manifest_file(str(tmp_path), 1)).write_bytes(damage)

    with pytest.raises(ArchiveDamaged, match="verify"):
        load_manifest(str(tmp_path))


def test_a_manifest_with_a_changed_line_is_an_error(tmp_path: Path) -> None:
    commit_files(str(tmp_path), [file_of("a", 0, 5)])
    path = Path(paths.manifest_file(str(tmp_path), 1))
    path.write_text(path.read_text().replace('"end": 5', '"end": 6'))

    with pytest.raises(ArchiveDamaged, match="its lines were changed"):
        load_manifest(str(tmp_path))


def test_a_missing_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotAnArchive, match="no such directory"):
        require_manifest(str(tmp_path / "a"))
    with pytest.raises(NotAnArchive, match="no manifest in it"):
        require_manifest(str(tmp_path))


def test_files_that_a_killed_run_staged_are_ignored_and_removed_by_the_next_run(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 10)
        run = ArchiveRun(str(tmp_path / "a"))
        staged_files(tmp_path / "s", run, ["orders"])
        killed(run)

        listed = load_manifest(str(tmp_path / "a")).files
        names = files_below(tmp_path / "a")
        archived(tmp_path / "s", tmp_path / "a", "orders")

    assert list(listed) == []
    assert [name.startswith("_staging/") for name in names] == [True]
    assert files_below(tmp_path / "a") == [file.path for file in load_manifest(str(tmp_path / "a")).files]
    assert os.listdir(tmp_path / "a" / "_staging") == []


def test_a_commit_of_a_killed_run_is_read_and_completed_by_the_next_run(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 10)
        run = ArchiveRun(str(tmp_path / "a"))
        files = staged_files(tmp_path / "s", run, ["orders"])
        commit_files(run.archive, files)
        killed(run)

        locations = [located(run.archive, file) for file in files]
        archived(tmp_path / "s", tmp_path / "a", "orders")

    assert locations == [os.path.join(run.archive, file.staged) for file in files]
    assert files_below(tmp_path / "a") == [file.path for file in files]
    assert ends_of(load_manifest(run.archive)) == {"orders": 10}


@pytest.mark.parametrize("failures", [1, 2])
def test_a_run_that_fails_after_its_commit_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    moves = staging.move_into_place
    calls: list[object] = []

    def failing(archive: str, files: list[ArchivedFile]) -> None:
        calls.append(files)
        if len(calls) <= failures:
            raise OSError("no room")
        moves(archive, files)

    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 10)
        monkeypatch.setattr(staging, "move_into_place", failing)
        with pytest.raises(OSError, match="no room"), ArchiveRun(str(tmp_path / "a")) as run:
            run.commit(staged_files(tmp_path / "s", run, ["orders"]))

    committed = load_manifest(str(tmp_path / "a"))
    assert [os.path.exists(located(str(tmp_path / "a"), file)) for file in committed.files] == [True]


def test_staged_files_of_a_live_run_are_not_removed(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 10)
        store.topic("payments").put_many([b"x"] * 3)
        with ArchiveRun(str(tmp_path / "a")) as run:
            files = staged_files(tmp_path / "s", run, ["orders"])

            archived(tmp_path / "s", tmp_path / "a", "payments")
            run.commit(files)

    assert ends_of(load_manifest(str(tmp_path / "a"))) == {"orders": 10, "payments": 3}


def test_the_second_of_two_runs_over_the_same_messages_adds_nothing(tmp_path: Path) -> None:
    with quick_store(tmp_path / "s") as store:
        store.topic("orders").put_many([b"x"] * 10)
        with ArchiveRun(str(tmp_path / "a")) as run:
            files = staged_files(tmp_path / "s", run, ["orders"])
            archived(tmp_path / "s", tmp_path / "a", "orders")
            with pytest.raises(ArchiveConflict):
                run.commit(files)

    assert files_below(tmp_path / "a") == [file.path for file in load_manifest(str(tmp_path / "a")).files]
    assert os.listdir(tmp_path / "a" / "_staging") == []
