"""Readers that were removed: for every process that has the log open, permanently."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WatchedDisk, quick_log
from warren.errors import LogClosed
from warren.storage import Log
from warren.storage.disk.log_files import READERS_SWEPT_FROM


@pytest.fixture(params=VERSIONS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    log = quick_log(tmp_path / "log", version=request.param)
    log.append_many([b"%d" % number for number in range(10)])
    reader = log.reader("billing")
    reader.read(limit=6)
    reader.commit()
    return log


def test_a_removed_reader_no_longer_exists(log: Log) -> None:
    log.remove_reader("billing")

    assert log.readers() == []
    assert quick_log(log.path).reader("billing").position == 0


def test_removing_a_reader_that_is_not_there_changes_nothing(log: Log) -> None:
    log.remove_reader("audit")

    assert log.readers() == ["billing"]


def test_an_open_reader_commits_to_the_one_that_replaced_it(log: Log) -> None:
    other = quick_log(log.path)
    reader = other.reader("billing")
    log.remove_reader("billing")
    made_anew = log.reader("billing")

    reader.seek(3)
    reader.commit()

    assert made_anew.position == 0
    assert log.reader("billing").position == 3


def test_a_recreated_reader_starts_again_in_every_process(log: Log) -> None:
    other = quick_log(log.path)
    assert other.reader("billing").position == 6

    log.remove_reader("billing")
    log.reader("billing")

    assert log.reader("billing").position == other.reader("billing").position == 0


def test_the_removal_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path / "log", filesystem=disk)
    log.reader("billing")
    disk.syncs.clear()

    log.remove_reader("billing")

    assert disk.syncs == ["readers/"]


def test_a_log_opened_for_reading_keeps_its_readers(log: Log) -> None:
    with pytest.raises(LogClosed):
        quick_log(log.path, read_only=True).remove_reader("billing")

    assert log.readers() == ["billing"]


@pytest.mark.parametrize("is_here", [True, False])
def test_the_files_of_removed_readers_are_let_go(log: Log, is_here: bool) -> None:
    other = quick_log(log.path)
    counts = []
    for number in range(4 * READERS_SWEPT_FROM):
        name = f"reader-{number}"
        assert log.reader(name).position == 0
        (log if is_here else other).remove_reader(name)
        counts.append(log._files.file_count)

    assert max(counts) - min(counts) <= READERS_SWEPT_FROM
    assert log.reader("billing").position == 6
