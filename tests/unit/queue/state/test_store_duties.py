"""Flag, extension, verify, inspect, and a clean close."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import QUICK_DISK, VERSIONS, WatchedDisk, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import BadInput, CorruptRecord, LogClosed, TooLarge
from warren.storage import Log

NOW_US = START_NS // 1000
EXTENSION_MAX = {1: 952 - 28, 2: 952 - 32}
PAIR_SIZES = 3


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


# --- Flag and extension ---


@pytest.mark.parametrize("value", [0, 1, 0x01020304, 2**32 - 1])
def test_a_flag_is_kept(tmp_path: Path, version: int, value: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        assert log.flag == 0

        log.flag = value

        assert log.flag == value
    with quick_log(tmp_path) as log:
        assert log.flag == value


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_flag_out_of_range_is_refused(tmp_path: Path, version: int, value: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.flag = 7

        with pytest.raises(BadInput, match=f"flag {value}: expected 0 to 4294967295"):
            log.flag = value

        assert log.flag == 7


def test_a_flag_is_on_disk_when_it_is_set(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    with quick_log(tmp_path, version=version, filesystem=disk) as log:
        log.flag = 1
        disk.syncs.clear()

        log.flag = 2

        assert disk.syncs == ["index"]


def test_a_new_log_records_its_creator_and_time(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, clock=SimulatedClock()) as log:
        assert log.extension == {"creator": "warren", "created": str(NOW_US)}


def test_an_extension_is_kept(tmp_path: Path, version: int) -> None:
    pairs = {"topic": "orders", "ü": "ö" * 10, "empty": "", "k" * 255: "v"}
    with quick_log(tmp_path, version=version) as log:
        log.append(b"before")

        log.extension = pairs

        assert log.extension == pairs
        assert log.append(b"after").number == 1
        assert [message.body for message in log.read(0)] == [b"before", b"after"]
    with quick_log(tmp_path) as log:
        assert log.extension == pairs
        log.extension = {}
        assert log.extension == {}


def test_flag_and_extension_survive_a_growing_index(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096, max_block_count=2) as log:
        log.flag, log.extension = 77, {"topic": "orders"}

        for _ in range(20):
            log.append(bytes(2000))

        assert log.inspect().max_block_count > 8
        assert (log.flag, log.extension) == (77, {"topic": "orders"})


def test_an_extension_fills_the_header_up_to_the_word_visible(tmp_path: Path, version: int) -> None:
    size_max = EXTENSION_MAX[version]
    fits = {"k": "v" * (size_max - PAIR_SIZES - 1)}
    with quick_log(tmp_path, version=version) as log:
        log.extension = fits

        with pytest.raises(TooLarge) as refused:
            log.extension = {"k": "v" * (size_max - PAIR_SIZES)}

        assert (refused.value.size, refused.value.size_max) == (size_max + 1, size_max)
        assert log.extension == fits
        assert log.append(b"next").number == 0


@pytest.mark.parametrize("size", [65_536, 100_000])
def test_an_extension_far_over_the_limit_is_refused(tmp_path: Path, version: int, size: int) -> None:
    with quick_log(tmp_path, version=version) as log, pytest.raises(TooLarge, match=f"{size}|{size + 4}"):
        log.extension = {"k": "v" * size}


BAD_EXTENSIONS: dict[str, dict[Any, Any]] = {
    "a key over 255 bytes": {"k" * 256: "v"},
    "an empty key": {"": "v"},
    "a value that is no text": {"k": 7},
    "a key that is no text": {7: "v"},
    "a value that is no Unicode": {"k": "\ud800"},
}


@pytest.mark.parametrize("pairs", BAD_EXTENSIONS.values(), ids=BAD_EXTENSIONS.keys())
def test_an_extension_that_cannot_be_kept_is_refused(tmp_path: Path, version: int, pairs: dict[Any, Any]) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"before")
        before = log.extension

        with pytest.raises(BadInput):
            log.extension = pairs

        assert log.extension == before
        assert log.append(b"after").number == 1
        assert log.recovery is None


def test_an_empty_key_is_not_called_too_large(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log, pytest.raises(BadInput) as refused:
        log.extension = {"": "v"}

    assert not isinstance(refused.value, TooLarge)


# --- Looking at it ---


def test_inspect_describes_the_log_and_its_blocks(tmp_path: Path, version: int) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, version=version, clock=clock, block_size=4096, max_block_count=3) as log:
        for number in range(10):
            clock.pass_ns(1_000_000)
            log.append(b"%d" % number * 800)
        log.flag = 5
        log.retire(before=4)

        info = log.inspect()

        assert (info.path, info.version, info.state, info.flag) == (str(tmp_path), version, "open", 5)
        assert (info.first, info.end, info.writing, info.max_block_count) == (4, 10, 0, 3)
        assert info.extension == log.extension
        assert [(block.number, block.base_number, block.end_number) for block in info.blocks] == [(1, 4, 8), (2, 8, 10)]
        assert [block.is_sealed for block in info.blocks] == [True, False]
        sealed, last = info.blocks
        assert sealed.end_offset == last.base_offset
        assert sealed.file_size == sealed.end_offset - sealed.base_offset + (8 if version == 2 else 0)
        assert last.file_size == 4096
        assert log.last()[0].offset < last.end_offset
        assert (sealed.created, sealed.updated) == (NOW_US + 5000, NOW_US + 8000)
        assert (last.created, last.updated) == (NOW_US + 9000, NOW_US + 10_000)
        assert [Path(block.path).stem for block in info.blocks] == [
            f"{block.base_offset:020d}" for block in info.blocks
        ]
        assert all(Path(block.path).exists() for block in info.blocks)


def test_inspect_reports_whether_the_log_was_closed(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, durability="commit") as log:
        assert log.inspect().state == "clean"
        log.append(b"one")
        assert (log.inspect().state, log.inspect().synced) == ("open", 1)
    with Log.open(tmp_path, read_only=True) as log:
        assert (log.inspect().state, log.inspect().synced) == ("clean", 1)


def test_inspect_reports_a_missing_block(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        for _ in range(10):
            log.append(bytes(800))
        missing = log.inspect().blocks[1]

        Path(missing.path).unlink()

        assert [block.file_size is None for block in log.inspect().blocks] == [False, True, False]


def test_inspect_of_an_empty_log_shows_no_block(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        info = log.inspect()

        assert (list(info.blocks), info.first, info.end) == ([], 0, 0)


# --- Checking it ---


def test_verify_counts_the_checked_messages(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        assert log.verify().messages == 0
        for _ in range(20):
            log.append(bytes(500))
        log.append_many([b"a", b"b"])

        verified = log.verify()

        blocks = log.inspect().blocks
        assert (verified.messages, verified.blocks) == (22, len(blocks))
        assert verified.records == (22 if version == 1 else 21)
        assert verified.bytes == sum(block.end_offset - block.base_offset for block in blocks)


def test_verify_reports_its_progress(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=1 << 20) as log:
        for _ in range(2500):
            log.append(b"")
        counts: list[int] = []

        log.verify(counts.append)

        assert counts == [1024, 2048, 2500]


def _wound_payload(log: Log) -> None:
    _flip(Path(log.inspect().blocks[0].path), log.read(3)[0].offset + 60)


def _wound_number(log: Log) -> None:
    _flip(Path(log.inspect().blocks[0].path), log.read(3)[0].offset + 16)


def _wound_header(log: Log) -> None:
    _flip(Path(log.inspect().blocks[0].path), 20)


def _remove_block(log: Log) -> None:
    Path(log.inspect().blocks[1].path).unlink()


def _cut_block(log: Log) -> None:
    path = Path(log.inspect().blocks[1].path)
    path.write_bytes(path.read_bytes()[:-600])


@pytest.mark.parametrize("wound", [_wound_payload, _wound_number, _wound_header, _remove_block, _cut_block])
def test_verify_stops_at_the_first_damage(tmp_path: Path, wound: Callable[[Log], None]) -> None:
    with quick_log(tmp_path, block_size=4096) as log:
        for _ in range(20):
            log.append(bytes(500))
        wound(log)
    with quick_log(tmp_path, read_only=True) as log, pytest.raises(CorruptRecord) as damage:
        log.verify()

    assert damage.value.path.endswith(".block")
    assert "verify" in str(damage.value)


@pytest.mark.parametrize("wound", [_remove_block, _cut_block])
def test_verify_finds_messages_that_version_1_lost(tmp_path: Path, wound: Callable[[Log], None]) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        for _ in range(20):
            log.append(bytes(500))
        wound(log)
    with quick_log(tmp_path, read_only=True) as log, pytest.raises(CorruptRecord):
        log.verify()


# --- Leaving it ---


def test_a_closed_log_needs_no_recovery(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
        assert log.recovery is None
    with quick_log(tmp_path) as log:
        assert log.recovery is None
        assert log.append(b"two").number == 1


def test_closing_makes_everything_durable(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path / "log", version=version, filesystem=disk)
    log.append(b"one")
    disk.syncs.clear()

    log.close()

    suffix = "zbus" if version == 1 else "block"
    assert disk.syncs == [f"00000000000000000000.{suffix}", "index", "index"]


def test_closing_twice_does_no_harm(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    log.append(b"one")

    log.close()
    log.close()

    with quick_log(tmp_path) as reopened:
        assert (reopened.end, reopened.recovery) == (1, None)


def test_closing_a_log_that_was_only_read_writes_nothing(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
    disk = WatchedDisk()
    with quick_log(tmp_path, filesystem=disk) as log:
        log.read(0)

    assert disk.syncs == []


@pytest.mark.parametrize("durability", ["commit", "os", "interval:50ms"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_closed_log_is_closed(tmp_path: Path, version: int, durability: str, exclusive: bool) -> None:
    log = quick_log(tmp_path, version=version, durability=durability, exclusive=exclusive)
    log.append(b"one")
    log.close()

    for use in (
        lambda: log.append(b"two"),
        lambda: log.append_many([b"two"]),
        lambda: log.retire(before=1),
        lambda: log.read(0),
        lambda: log.reader("billing"),
    ):
        with pytest.raises(LogClosed, match=r"is closed: close\(\) was called"):
            use()
    with pytest.raises(LogClosed):
        log.flag = 1

    with quick_log(tmp_path) as reopened:
        assert [message.body for message in reopened.read(0)] == [b"one"]


def test_a_closed_log_can_still_be_shown(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.close()

    assert str(tmp_path) in repr(log)


def test_leaving_the_context_closes_also_after_an_error(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    log.append(b"one")

    with pytest.raises(RuntimeError), log:
        raise RuntimeError

    with pytest.raises(LogClosed):
        log.append(b"two")
    with Log.open(tmp_path, read_only=True) as log:
        assert log.inspect().state == "clean"


READ_ONLY_USES: dict[str, Callable[[Log], object]] = {
    "append": lambda log: log.append(b"two"),
    "append_many": lambda log: log.append_many([b"two"]),
    "retire": lambda log: log.retire(before=1),
    "flag": lambda log: setattr(log, "flag", 1),
    "extension": lambda log: setattr(log, "extension", {}),
}


@pytest.mark.parametrize("use", READ_ONLY_USES.values(), ids=READ_ONLY_USES.keys())
def test_a_read_only_log_refuses_to_be_changed(tmp_path: Path, version: int, use: Callable[[Log], object]) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
    (tmp_path / "writer.lock").unlink()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with Log.open(tmp_path, read_only=True) as log:
        with pytest.raises(LogClosed, match="it was opened with read_only=True"):
            use(log)

        assert [message.body for message in log.read(0)] == [b"one"]

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def _flip(file: Path, position: int) -> None:
    handle = QUICK_DISK.open(str(file), writable=True)
    handle.write(position, bytes((handle.read(position, 1)[0] ^ 0xFF,)))
    handle.close()
