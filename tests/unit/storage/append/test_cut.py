from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.simulated_disk import SimulatedFileSystem
from warren.errors import CorruptRecord, LogClosed, StorageFull
from warren.storage import Log
from warren.storage.disk.index import Index
from warren.storage.disk.log_files import LogFiles


def filled(path: str | Path, filesystem: SimulatedFileSystem | None = None) -> Log:
    if filesystem is None:
        log = Log.open(path, block_size=4096)
    else:
        log = Log.open(path, block_size=4096, filesystem=filesystem)
    for number in range(60):
        log.append(b"%d:" % number + b"x" * 200)
    return log


def bodies(log: Log) -> list[bytes]:
    return [message.body[:3].rstrip(b"x:") for message in log.read(log.first, limit=1000)]


@pytest.mark.parametrize("number", [0, 1, 13, 30, 59, 60, 100])
def test_a_log_ends_at_its_cut_and_new_messages_get_the_numbers(tmp_path: Path, number: int) -> None:
    with filled(tmp_path) as log:
        end = min(number, 60)

        log.cut(number)

        assert log.end == end
        assert log.append(b"a:").number == end
        assert bodies(log) == [b"%d" % each for each in range(end)] + [b"a"]
        assert log.verify().messages == end + 1


@pytest.mark.parametrize("number", range(60))
def test_a_cut_message_comes_back_after_no_crash(number: int) -> None:
    disk = SimulatedFileSystem(seed=number)
    log = filled("/log", disk)

    log.cut(number)

    for seed in range(3):
        with Log.open("/log", filesystem=disk.after_power_cut(seed)) as survivor:
            assert bodies(survivor) == [b"%d" % each for each in range(number)]


@pytest.mark.parametrize("number", [1, 13, 16, 30, 59])
def test_a_log_whose_cut_was_interrupted_opens_with_what_the_cut_keeps(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedFileSystem(seed=number)
    log = filled("/log", disk)

    def full(files: LogFiles, data: bytes) -> Index:
        raise StorageFull(files.directory, len(data))

    with monkeypatch.context() as patched:
        patched.setattr(LogFiles, "replace_index", full)
        with pytest.raises(StorageFull):
            log.cut(number)

    messages = [b"%d" % each for each in range(number)]
    for seed in range(3):
        with Log.open("/log", filesystem=disk.after_power_cut(seed)) as survivor:
            assert bodies(survivor)[:number] == messages
    # In the same process, which still has the log open, and after its end.
    assert log.append(b"a:").number >= number
    assert bodies(log)[:number] == messages
    log.close()
    with Log.open("/log", filesystem=disk) as next_one:
        assert bodies(next_one)[:number] == messages
        assert bodies(next_one)[-1] == b"a"


def test_a_cut_leaves_no_empty_block_at_the_end(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        base_number = log._view.slots().slots[2].base_number

        log.cut(base_number)

        assert len(log._view.slots().slots) == 2
        assert len(list(tmp_path.glob("*.block"))) == 2


def test_readers_behind_the_cut_are_taken_back(tmp_path: Path) -> None:
    with filled(tmp_path) as log:
        for name, number in (("before", 5), ("behind", 50)):
            reader = log.reader(name)
            reader.seek(number)
            reader.commit()

        log.cut(20)

        assert (log.reader("before").position, log.reader("behind").position) == (5, 20)


def test_a_log_is_not_cut_within_a_record(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.append_many([b"%d" % number for number in range(10)])

        with pytest.raises(CorruptRecord):
            log.cut(5)


def test_a_reader_in_another_process_sees_the_cut(tmp_path: Path) -> None:
    with filled(tmp_path) as log, Log.open(tmp_path, read_only=True) as other:
        assert other.end == 60

        log.cut(10)

        assert other.end == 10
        with pytest.raises(LogClosed):
            other.cut(5)
