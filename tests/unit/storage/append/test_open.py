"""What a directory may contain when a log is opened in it, and the errors of opening."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import VERSIONS, WatchedDisk, quick_log
from warren.errors import BadInput, CorruptRecord, NotALog, UnknownVersion
from warren.storage import Log
from warren.storage.disk import paths
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# --- A new log ---


def test_a_missing_log_is_created(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "log"

    with quick_log(path) as log:
        assert (log.first, log.end, log.version) == (0, 0, 2)

    assert sorted(contents(path)) == ["index", "writer.lock"]


def test_a_log_is_made_in_an_empty_directory(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        assert log.append(b"first").number == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_keeps_the_version_it_was_made_with(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")

    for other_version in VERSIONS:
        with quick_log(tmp_path, version=other_version) as log:
            assert log.version == version
            log.append(b"more")

    with Log.open(tmp_path, read_only=True) as log:
        assert (log.version, log.end) == (version, 3)


def test_a_path_may_be_text_or_a_path(tmp_path: Path) -> None:
    with quick_log(str(tmp_path)) as log:
        log.append(b"one")
    with quick_log(tmp_path) as log:
        assert log.end == 1


def test_a_new_log_is_durable_under_its_name(tmp_path: Path) -> None:
    disk = WatchedDisk()

    quick_log(tmp_path / "log", filesystem=disk)

    assert disk.syncs == [f"{tmp_path.name}/", "index.new", "log/"]


def test_the_directories_above_a_new_log_are_durable_too(tmp_path: Path) -> None:
    disk = WatchedDisk()

    quick_log(tmp_path / "a" / "log", filesystem=disk)

    assert disk.syncs[:2] == [f"{tmp_path.name}/", "a/"]


def test_files_that_a_crash_left_while_a_log_was_created_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "index.new").write_bytes(b"half an index" * 1000)
    (tmp_path / "writer.lock").write_bytes(b"")
    (tmp_path / "readers").mkdir()

    with quick_log(tmp_path, max_block_count=2) as log:
        assert log.append(b"first").number == 0

    assert (tmp_path / "index").stat().st_size == 1024 + 2 * 64
    assert not (tmp_path / "index.new").exists()


# --- Arguments ---


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"version": 0}, r"format version 0: expected one of \(1, 2\)"),
        ({"version": 3}, r"format version 3: expected one of \(1, 2\)"),
        ({"block_size": 4095}, "block size 4095: expected 4096 to 536870912 bytes"),
        ({"block_size": (1 << 29) + 1}, "block size 536870913: expected"),
        ({"max_block_count": 0}, "max_block_count 0: expected at least 1"),
        ({"read_only": True, "exclusive": True}, "read_only=True can be neither exclusive nor repaired"),
        ({"read_only": True, "repair": True}, "read_only=True can be neither exclusive nor repaired"),
        ({"durability": "always"}, "durability 'always': expected 'commit', 'os' or 'interval:50ms'"),
        ({"durability": "interval:0ms"}, "durability 'interval:0ms': the interval must be above 0 and at most 60 s"),
        ({"compression": "gzip"}, "compression 'gzip': expected one of none, zstd, lz4"),
    ],
)
def test_bad_arguments_are_refused_and_make_nothing(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        quick_log(tmp_path / "log", **options)

    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("block_size", [4096, 1 << 29])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_smallest_and_the_largest_blocks_are_taken(tmp_path: Path, version: int, block_size: int) -> None:
    with quick_log(tmp_path, version=version, block_size=block_size, max_block_count=1) as log:
        for _ in range(10):
            log.append(bytes(1000))

        assert len(log.inspect().blocks) == (1 if block_size > 4096 else 4)


# --- Paths that are not a log ---


@pytest.mark.parametrize("read_only", [False, True])
def test_a_directory_with_other_files_is_not_a_log(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")

    with pytest.raises(NotALog, match="is not a log: ") as refused:
        quick_log(tmp_path, read_only=read_only)

    assert refused.value.path == str(tmp_path)
    assert "photo.jpg" in refused.value.reason or "no index" in refused.value.reason
    assert list(contents(tmp_path)) == ["photo.jpg"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_is_not_a_log(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "log").write_bytes(b"")

    with pytest.raises(NotALog, match="is not a log: it is a file"):
        quick_log(tmp_path / "log", read_only=read_only)


def test_a_missing_log_cannot_be_opened_read_only_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="there is none; opening it for writing creates one"):
        quick_log(tmp_path / "log", read_only=True)

    assert not (tmp_path / "log").exists()


def test_an_empty_directory_is_not_a_readable_log(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="it has no index; opening it for writing creates one"):
        quick_log(tmp_path, read_only=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("head", "version"), [((3).to_bytes(4, "little"), 3), (b"\0\0\0\2", 2 << 24), (bytes(4), 0)])
@pytest.mark.parametrize("read_only", [False, True])
def test_an_unknown_version_is_left_alone(tmp_path: Path, head: bytes, version: int, read_only: bool) -> None:
    with quick_log(tmp_path) as log:
        log.append(b"one")
    index = tmp_path / "index"
    index.write_bytes(head + index.read_bytes()[4:])
    before = contents(tmp_path)

    with pytest.raises(UnknownVersion, match="this release reads versions 1 and 2") as refused:
        quick_log(tmp_path, read_only=read_only)

    assert (refused.value.version, refused.value.path) == (version, str(index))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 3, 1023])
def test_a_cut_index_is_an_error_for_a_reader_and_rebuilt_by_a_writer(tmp_path: Path, version: int, size: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
    os.truncate(tmp_path / "index", size)

    with pytest.raises(NotALog, match=f"an index has at least 1024 bytes, but this one has {size}"):
        quick_log(tmp_path, read_only=True)

    with quick_log(tmp_path) as log:
        assert [message.body for message in log.read(0)] == [b"one"]
        assert log.version == version


def test_an_index_that_was_cut_without_blocks_is_no_log(tmp_path: Path) -> None:
    quick_log(tmp_path).close()
    os.truncate(tmp_path / "index", 10)

    with pytest.raises(NotALog):
        quick_log(tmp_path)


@pytest.mark.parametrize("count", [0, 65, 2**32 - 1])
def test_an_index_of_impossible_size_is_an_error_for_a_reader_and_rebuilt_by_a_writer(
    tmp_path: Path, count: int
) -> None:
    with quick_log(tmp_path) as log:
        log.append(b"one")
    data = bytearray((tmp_path / "index").read_bytes())
    data[20:24] = count.to_bytes(4, "little")
    (tmp_path / "index").write_bytes(data)

    with pytest.raises(CorruptRecord, match="damaged at byte 20") as damage:
        quick_log(tmp_path, read_only=True)

    assert damage.value.path == str(tmp_path / "index")
    with quick_log(tmp_path) as log:
        assert [message.body for message in log.read(0)] == [b"one"]


def test_opening_read_only_writes_nothing(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append(b"one")
    (tmp_path / "writer.lock").unlink()
    before = contents(tmp_path)

    with quick_log(tmp_path, read_only=True) as log:
        log.read(0)
        log.find_time(0)
        log.verify()
        log.inspect()
        log.wait(1, 0.01)

    assert contents(tmp_path) == before


def test_a_read_only_log_needs_no_right_to_write(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append(b"one")
    writes: list[bool] = []

    class ReadOnlyDisk(WatchedDisk):
        def open(self, path: str, *, writable: bool, create: bool = False) -> Any:
            writes.append(writable or create)
            return super().open(path, writable=writable, create=create)

    with quick_log(tmp_path, filesystem=ReadOnlyDisk(), read_only=True) as log:
        assert log.read(0)[0].body == b"one"

    assert writes
    assert not any(writes)


def test_a_read_only_log_follows_the_one_that_writes(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=4096, max_block_count=1) as log:
        with quick_log(tmp_path, read_only=True) as follower:
            for number in range(30):
                log.append(bytes(700))

                assert follower.end == number + 1
                assert follower.at(number) is not None
        assert log.inspect().max_block_count == 8


def test_two_logs_in_one_process_take_turns(tmp_path: Path) -> None:
    options = {"block_size": 4096, "max_block_count": 1}
    with quick_log(tmp_path, **options) as one, quick_log(tmp_path, **options) as two:
        for number in range(60):
            assert (one, two)[number % 2].append(b"%d" % number * 100).number == number
        one.append_many([b"60", b"61"])
        two.append(b"62")

        assert [message.number for message in one.read(0)] == list(range(63))
        assert [message.number for message in two.read(0)] == list(range(63))
        assert one.verify() == two.verify()


def test_a_writer_that_cannot_open_the_last_block_releases_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with Log.open(path, durability="os") as first, Log.open(path, durability="os") as second:
        first.append(b"1")
        block, hidden = next((tmp_path / "log").glob("*.block")), tmp_path / "hidden"
        block.rename(hidden)

        with pytest.raises(CorruptRecord):
            second.append(b"2")

        lock = SYSTEM_FILE_SYSTEM.lock(paths.lock_path(path))
        assert lock.try_acquire()
        lock.release()
        hidden.rename(block)
        second.append(b"2")
        assert [message.body for message in first.read(0)] == [b"1", b"2"]
