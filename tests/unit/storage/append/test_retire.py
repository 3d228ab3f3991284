"""Retiring: whole blocks from the start, never the last, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WaitingJobs, WatchedDisk, quick_log
from warren.errors import NumberRetired
from warren.storage import Log

PER_BLOCK = 4
COUNT = 22


@pytest.fixture(params=VERSIONS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """22 messages, four to a block, and so six blocks."""
    return fill(quick_log(tmp_path, version=request.param, block_size=4096))


def fill(log: Log) -> Log:
    for number in range(COUNT):
        log.append(b"%02d" % number * 400, tag=f"t.{number % 2}")
    assert [block.base_number for block in log.inspect().blocks] == list(range(0, COUNT, PER_BLOCK))
    return log


def block_files(log: Log) -> list[str]:
    return sorted(file.name for file in Path(log.path).iterdir() if file.suffix in (".block", ".zbus"))


@pytest.mark.parametrize("before", [-1, 0, 1, 3])
def test_a_block_with_a_message_that_stays_stays(log: Log, before: int) -> None:
    assert log.retire(before=before) == log.first == 0
    assert len(block_files(log)) == 6


@pytest.mark.parametrize(("before", "first"), [(4, 4), (5, 4), (7, 4), (8, 8), (13, 12), (20, 20)])
def test_whole_blocks_before_the_number_go(log: Log, before: int, first: int) -> None:
    files = block_files(log)

    assert log.retire(before=before) == log.first == first

    assert block_files(log) == files[first // PER_BLOCK :]
    assert [message.number for message in log.read(first)] == list(range(first, COUNT))
    assert log.verify().messages == COUNT - first
    assert [block.number for block in log.inspect().blocks] == list(range(first // PER_BLOCK, 6))


@pytest.mark.parametrize("before", [21, 22, 23, 10**9])
def test_the_last_block_never_goes(log: Log, before: int) -> None:
    assert log.retire(before=before) == 20
    assert [message.number for message in log.read(20)] == [20, 21]


def test_retired_messages_cannot_be_read(log: Log) -> None:
    log.retire(before=10)

    for number in (0, 7):
        with pytest.raises(NumberRetired, match=f"message {number} was retired; the log now starts at 8") as caught:
            log.read(number)
        assert (caught.value.number, caught.value.first) == (number, 8)
        with pytest.raises(NumberRetired):
            log.at(number)
    assert log.at(8) is not None


def test_numbers_and_offsets_continue_after_retiring(log: Log) -> None:
    end_offset = log.inspect().blocks[-1].end_offset
    log.retire(before=COUNT)

    receipt = log.append(b"next")

    assert receipt.number == COUNT
    assert receipt.offset == end_offset
    assert log.end == COUNT + 1


def test_retired_messages_stay_retired_after_reopening(log: Log) -> None:
    log.retire(before=10)
    log.close()

    with quick_log(log.path) as reopened:
        assert (reopened.first, reopened.end) == (8, COUNT)
        assert reopened.recovery is None
        assert [message.number for message in reopened.read(8)] == list(range(8, COUNT))


def test_retiring_again_continues(log: Log) -> None:
    assert [log.retire(before=before) for before in (5, 5, 9, 6, 22)] == [4, 4, 8, 8, 20]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_log_has_nothing_to_retire(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        assert log.retire(before=10) == 0
        assert log.append(b"first").number == 0


def test_another_log_object_sees_the_retirement(log: Log) -> None:
    other = Log.open(log.path, read_only=True)
    assert len(other.read(0)) == COUNT

    log.retire(before=10)

    assert other.first == 8
    with pytest.raises(NumberRetired):
        other.at(0)
    assert len(other.read(8)) == COUNT - 8
    assert other.find_time(0) == 8


def test_a_block_retired_under_a_reader_is_reported_as_retired(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files go after the reader has seen which blocks there are, and before it opens one."""
    other = Log.open(log.path, read_only=True)
    assert other.first == 0
    names_before = block_files(log)
    look = type(other._view).locate

    def late(view: object, number: int, end: int) -> object:
        monkeypatch.undo()
        stretch = other._view._range, other._view._slots
        log.retire(before=10)
        other._view._range, other._view._slots = stretch
        return look(other._view, number, end)

    monkeypatch.setattr(type(other._view), "locate", late)

    with pytest.raises(NumberRetired):
        other.read(0)

    assert len(block_files(log)) < len(names_before)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_index_is_on_disk_before_the_first_file_goes(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = fill(quick_log(tmp_path / "log", version=version, block_size=4096, filesystem=disk))
    log.sync()
    syncs: list[tuple[str, int]] = []
    disk.syncs.clear()
    disk.on_sync = lambda path: syncs.append((Path(path).name, len(block_files(log))))

    log.retire(before=10)

    assert syncs == [("index", 6)]
    assert disk.syncs == ["index", "log/"]
    assert len(block_files(log)) == 4


def test_in_version_1_the_kept_blocks_are_on_disk_before_the_index(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = fill(quick_log(tmp_path / "log", version=1, block_size=4096, filesystem=disk, background=WaitingJobs()))
    disk.syncs.clear()

    log.retire(before=10)

    assert disk.syncs[-2:] == ["index", "log/"]
    assert set(block_files(log)) <= set(disk.syncs[:-2])


def test_retiring_nothing_touches_nothing(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = fill(quick_log(tmp_path, block_size=4096, filesystem=disk))
    disk.syncs.clear()

    log.retire(before=1)

    assert disk.syncs == []
