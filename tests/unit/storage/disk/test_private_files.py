"""The files of a store are readable for its owner, and for a group that the owner has admitted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import warren

PLAIN_UMASK = 0o022
"""The default of most machines: by itself it lets all users read."""


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(PLAIN_UMASK)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fill(path: Path) -> None:
    """Makes every kind of file that a store has."""
    with warren.open(path, keeps=False) as store:
        topic = store.topic("orders", partitions=2)
        topic.put_many([b"x"] * 10)
        topic.put(b"later", delay=100.0).cancel()
        with topic.group("s") as stream:
            stream.read()
            stream.commit()
        with topic.group("q", mode="queue") as workers:
            for message in workers.take(10):
                workers.reject(message)
        store.queue("jobs").put(1)
        with store.transaction(id="t") as transaction:
            transaction.put("orders", b"y")
        with store.producer("loader") as producer:
            producer.put("orders", b"z")
        store.keep()


def test_only_the_owner_may_read_a_store_and_its_files(tmp_path: Path) -> None:
    fill(tmp_path / "data")

    paths = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert len(paths) > 40
    assert {mode(path) for path in paths if path.is_dir()} == {0o700}
    assert {mode(path) for path in paths if path.is_file()} == {0o600}


@pytest.mark.parametrize(("file_mode", "directories", "files"), [(0o755, 0o750, 0o640), (0o770, 0o750, 0o640)])
def test_an_existing_directory_keeps_its_mode_and_admits_only_its_group(
    tmp_path: Path, file_mode: int, directories: int, files: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(file_mode)

    fill(data)

    assert mode(data) == file_mode
    # The umask removes the group's right to write.
    assert {mode(path) for path in data.rglob("*") if path.is_dir()} == {directories}
    assert {mode(path) for path in data.rglob("*") if path.is_file()} == {files}


def test_a_strict_umask_is_kept_to(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    os.umask(0o077)

    fill(tmp_path / "data")

    assert {mode(path) & 0o077 for path in (tmp_path / "data").rglob("*")} == {0}


def test_parents_that_are_made_are_private_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    warren.open(tmp_path / "a" / "b" / "data").close()

    assert mode(tmp_path / "a") == 0o750
    assert mode(tmp_path / "a" / "b" / "data") == 0o700


def test_a_queue_file_is_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    with warren.open_file(tmp_path / "jobs.bunny") as jobs:
        jobs.push(b"x")

    assert {mode(path) for path in tmp_path.iterdir()} == {0o640}
