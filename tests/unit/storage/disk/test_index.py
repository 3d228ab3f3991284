"""The index: every field at its documented byte, slots that wrap, concurrent growth, and rebuilding."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import CorruptRecord
from warren.storage import Log

NOW_US = START_NS // 1000
BODY = bytes(1000)
SLOT_SIZES = {1: 32, 2: 64}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def index_bytes(log: Log) -> bytes:
    return (Path(log.path) / "index").read_bytes()


def block_names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.suffix in (".block", ".zbus"))


# --- The published end ---


# --- Bytes ---


def test_a_version_2_index_is_laid_out_as_documented(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, clock=clock, block_size=4096, max_block_count=4) as log:
        log.extension = {"topic": "orders"}
        for _ in range(7):
            clock.pass_ns(1_000_000)
            log.append(BODY)
        log.flag = 0xABCD
        log.retire(before=3)
        data = index_bytes(log)

        info = log.inspect()

    assert struct.unpack_from("<IIQIIQ", data) == (2, 2, 1, 0xABCD, 4, 7)
    assert data[32:46] == struct.pack("<BH", 5, 6) + b"topicorders"
    assert data[46:960] == bytes(914)
    assert len(data) == 1024 + 4 * 64
    for block in info.blocks:
        slot = struct.unpack_from("<8Q", data, 1024 + block.number * 64)
        assert slot[:5] == (block.base_offset, block.end_offset, block.created, block.updated, block.base_number)
    sealed = struct.unpack_from("<8Q", data, 1024 + 64)
    assert sealed[5:] == (6, NOW_US + 4000, NOW_US + 6000)
    assert struct.unpack_from("<8Q", data, 1024 + 128)[6] == NOW_US + 7000


def test_a_version_1_index_is_laid_out_as_documented(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, version=1, clock=clock, block_size=4096, max_block_count=4) as log:
        log.extension = {"topic": "orders"}
        for _ in range(8):
            clock.pass_ns(1_000_000)
            log.append(BODY)
        log.flag = 0xABCD
        log.retire(before=3)
        data = index_bytes(log)

        info = log.inspect()

    assert struct.unpack_from(">IIQIQ", data) == (1, 2, 1, 0xABCD, 8)
    assert data[28:42] == struct.pack("<BH", 5, 6) + b"topicorders"
    assert data[42:960] == bytes(918)
    assert len(data) == 1024 + 4 * 32
    for block in info.blocks:
        slot = struct.unpack_from(">4Q", data, 1024 + block.number * 32)
        assert slot == (block.base_offset, block.end_offset, block.created // 1000, block.updated // 1000)


def test_the_state_says_how_the_log_was_left(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, durability="commit") as log:
        log.append(b"one")
        is_open = struct.unpack_from("=QQQQQ16sQ", index_bytes(log), 960)
    closed = struct.unpack_from("=QQQQQ16sQ", index_bytes(log), 960)
    boot_id = bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))

    assert is_open == (2, 0, 1, 0, 0, boot_id, 0)
    assert (closed[0], *closed[2:]) == (1, 1, 0, 0, boot_id, 0)
    assert closed[1] != 0


# --- Wrapping and growing ---


@pytest.mark.parametrize("max_block_count", [2, 3, 4])
def test_block_numbers_wrap_over_the_slots(tmp_path: Path, version: int, max_block_count: int) -> None:
    options = {"block_size": 4096, "max_block_count": max_block_count}
    log = quick_log(tmp_path, version=version, **options)
    for number in range(3 * max_block_count * 8):
        log.append(b"%04d" % number * 250)
        log.retire(before=log.end - 3)
        if number % 17 == 0:
            log.close()
            log = quick_log(tmp_path, **options)

        expected = range(log.first, number + 1)
        assert [message.number for message in log.read(log.first)] == list(expected)
        assert all(message.body == b"%04d" % message.number * 250 for message in log.read(log.first))
        assert len(expected) >= 3 or number < 3

    info = log.inspect()
    assert info.max_block_count == max_block_count
    assert info.blocks[0].number > 3 * max_block_count
    assert len(index_bytes(log)) == 1024 + max_block_count * SLOT_SIZES[version]
    for block in info.blocks:
        position = 1024 + block.number % max_block_count * SLOT_SIZES[version]
        order = ">" if version == 1 else "<"
        assert struct.unpack_from(f"{order}2Q", index_bytes(log), position) == (block.base_offset, block.end_offset)
    log.verify()


def test_an_index_grows_when_every_slot_is_live(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096, max_block_count=1) as log:
        sizes = []
        for _ in range(20):
            log.append(BODY)
            sizes.append(log.inspect().max_block_count)

        assert sorted(set(sizes)) == [1, 2, 4, 8]
        assert len(index_bytes(log)) == 1024 + 8 * SLOT_SIZES[version]
        assert [message.number for message in log.read(0)] == list(range(20))
        assert [block.number for block in log.inspect().blocks] == list(range(len(log.inspect().blocks)))


def test_an_index_that_wrapped_grows(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096, max_block_count=3) as log:
        for _ in range(30):
            log.append(BODY)
            log.retire(before=log.end - 1)
        first = log.first

        for _ in range(30):
            log.append(BODY)

        assert log.inspect().max_block_count > 3
        assert [message.number for message in log.read(first)] == list(range(first, 60))
        log.verify()
    with quick_log(tmp_path) as log:
        assert [message.number for message in log.read(first)] == list(range(first, 60))


def test_an_index_grows_under_readers_and_writers(tmp_path: Path, version: int) -> None:
    options = {"version": version, "block_size": 4096, "max_block_count": 1}
    one, two = quick_log(tmp_path, **options), quick_log(tmp_path, **options)
    follower, reader = quick_log(tmp_path, read_only=True), two.reader("billing")
    for number in range(0, 60, 2):
        one.append(BODY)

        assert two.end == follower.end == number + 1
        assert two.append(BODY).number == number + 1
        assert [message.number for message in follower.read(number)] == [number, number + 1]
        assert [message.number for message in reader.read()] == [number, number + 1]
        reader.commit()
        one.flag = number
        assert (two.flag, follower.flag) == (number, number)
    assert one.inspect() == two.inspect()
    assert follower.inspect().max_block_count >= 16


def test_setting_the_extension_replaces_the_index_under_others(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as one, quick_log(tmp_path) as two:
        one.append(b"one")
        two.append(b"two")

        one.extension = {"topic": "orders"}

        assert two.extension == {"topic": "orders"}
        assert two.append(b"three").number == 2
        assert one.append(b"four").number == 3
        assert (one.end, two.end) == (4, 4)


def test_a_new_index_is_whole_on_disk_before_it_takes_its_place(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096, max_block_count=1) as log:
        log.append(BODY)
        (tmp_path / "index.new").write_bytes(b"left over" * 1000)
        old = (tmp_path / "index").stat().st_ino

        for _ in range(5):
            log.append(BODY)

        assert (tmp_path / "index").stat().st_ino != old
        assert not (tmp_path / "index.new").exists()
        assert len(index_bytes(log)) == 1024 + 2 * SLOT_SIZES[version]


# --- Made again ---


def fill(path: Path, version: int, *, retire: bool) -> list[tuple[int, bytes, str, int]]:
    """Fills a log of several blocks, and returns its messages."""
    clock = SimulatedClock()
    with quick_log(path, version=version, block_size=4096, max_block_count=2, clock=clock) as log:
        for number in range(30):
            clock.pass_ns(1_000_000)
            log.append(b"%d" % number * 200, tag="t")
            log.append_many([b"x", b"y"])
        if retire:
            log.retire(before=40)
        log.flag, log.extension = 9, {"topic": "orders"}
        return everything(log)


def everything(log: Log) -> list[tuple[int, bytes, str, int]]:
    return [(message.number, message.body, message.tag, message.timestamp) for message in log.read(log.first)]


@pytest.mark.parametrize("retire", [False, True])
def test_a_deleted_index_is_rebuilt_from_the_blocks(tmp_path: Path, version: int, retire: bool) -> None:
    before = fill(tmp_path, version, retire=retire)
    with Log.open(tmp_path, read_only=True) as log:
        old = log.inspect()
    (tmp_path / "index").unlink()

    with quick_log(tmp_path, version=3 - version, block_size=4096, max_block_count=2) as log:
        assert log.recovery is not None
        assert (log.recovery.message_count, log.recovery.cut_bytes, log.recovery.removed_paths) == (90, 0, ())
        assert everything(log) == before
        assert log.version == version
        info = log.inspect()
        assert log.append(b"next").number == 90
        log.verify()
        times = sorted({time for *_, time in before})
        assert [log.find_time(time) for time in times[::5]] == [
            next(number for number, _, _, each in before if each == time) for time in times[::5]
        ]

    for was, now in zip(old.blocks, info.blocks, strict=True):
        assert (was.base_offset, was.base_number) == (now.base_offset, now.base_number)
    assert [block.end_offset for block in old.blocks[:-1]] == [block.end_offset for block in info.blocks[:-1]]
    with quick_log(tmp_path) as log:
        assert everything(log)[:-1] == before


def test_a_rebuilt_index_has_the_slots_of_the_old_one(tmp_path: Path) -> None:
    fill(tmp_path, 2, retire=False)
    old = (tmp_path / "index").read_bytes()
    (tmp_path / "index").unlink()

    quick_log(tmp_path, block_size=4096, max_block_count=2).close()

    new = (tmp_path / "index").read_bytes()
    count = struct.unpack_from("<I", old, 4)[0]
    assert count > 3
    for number in range(count):
        was, now = (struct.unpack_from("<8Q", data, 1024 + number * 64) for data in (old, new))
        assert (was[:2], was[3:6], was[7]) == (now[:2], now[3:6], now[7])


@pytest.mark.parametrize("field", ["count", "start", "messages", "slot"])
def test_a_closed_index_that_does_not_check_is_not_believed(tmp_path: Path, version: int, field: str) -> None:
    before = fill(tmp_path, version, retire=False)
    data = bytearray((tmp_path / "index").read_bytes())
    position = {"count": 4, "start": 15 if version == 1 else 8, "messages": 27 if version == 1 else 24, "slot": 1030}
    data[position[field]] ^= 1
    (tmp_path / "index").write_bytes(data)

    with pytest.raises(CorruptRecord, match="the index does not match its checksum; opening for writing rebuilds it"):
        Log.open(tmp_path, read_only=True)

    with quick_log(tmp_path, block_size=4096) as log:
        assert everything(log) == before


def test_flag_and_extension_survive_the_rebuild_of_a_damaged_index(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version, retire=False)
    data = bytearray((tmp_path / "index").read_bytes())
    data[1030] ^= 1
    (tmp_path / "index").write_bytes(data)

    with quick_log(tmp_path, block_size=4096) as log:
        assert (log.flag, log.extension) == (9, {"topic": "orders"})


@pytest.mark.parametrize("bytes_of_pairs", [b"\5\xff\xfftopic", b"\5"])
def test_unparsable_parts_of_an_extension_are_ignored(tmp_path: Path, version: int, bytes_of_pairs: bytes) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(b"one")
        log.extension = {"topic": "orders"}
        start = (28 if version == 1 else 32) + len(b"...topicorders")
        with (tmp_path / "index").open("r+b") as file:
            file.seek(start if len(bytes_of_pairs) > 1 else 958)
            file.write(bytes_of_pairs)

        assert log.extension == {"topic": "orders"}


def test_a_block_count_that_does_not_fit_is_damage(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, max_block_count=2) as log:
        log.append(b"one")
        with quick_log(tmp_path, read_only=True) as follower:
            with (tmp_path / "index").open("r+b") as file:
                file.seek(4)
                file.write((3).to_bytes(4, "big" if version == 1 else "little"))

            with pytest.raises(CorruptRecord, match="damaged at byte 4"):
                follower.read(0)

            with (tmp_path / "index").open("r+b") as file:
                file.seek(4)
                file.write((1).to_bytes(4, "big" if version == 1 else "little"))
