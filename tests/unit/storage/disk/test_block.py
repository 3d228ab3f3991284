"""Blocks: blobs with size words, index messages that lead to any message, and entries that are never trusted."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import CorruptRecord
from warren.storage import Log
from warren.storage.disk.block import BlockHeader, first_bytes
from warren.storage.disk.filesystem import SystemFile, SystemFileSystem
from warren.storage.disk.index import Blocks, index_bytes
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import END_OF_BLOCK, META_DATA, NOT_READY, SIZE_MASK, Slot
from warren.storage.format.record import pack_single, stamp

NOW_US = START_NS // 1000
BLOCK_SIZE = 128 << 10
ENTRIES = 8
SPACING = 64
COUNT = 1500
"""More than the 512 messages that one index message of such a block has entries for."""


class Blob(NamedTuple):
    position: int
    is_meta_data: bool
    content: bytes
    end: int

    @property
    def label(self) -> bytes:
        return self.content[:3] if self.is_meta_data else b""

    @property
    def number(self) -> int:
        return int.from_bytes(self.content[12:20], "little")


def blobs(data: bytes) -> Iterator[Blob]:
    """Yields every blob of a block, in the order that the document describes."""
    position = 0
    while position + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, position)
        if word in (0, END_OF_BLOCK):
            return
        assert not word & NOT_READY
        end = position + 4 + (word & SIZE_MASK)
        yield Blob(position, bool(word & META_DATA), data[position + 4 : end], (end + 7) // 8 * 8)
        position = (end + 7) // 8 * 8


def block_files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.suffix in (".block", ".zbus"))


def entries(data: bytes) -> list[tuple[int, int]]:
    """Yields position and checksum of each entry, found through the index2index."""
    pairs: list[tuple[int, int]] = []
    index2index = next(blob for blob in blobs(data) if blob.label == b"i2i")
    for (position,) in struct.iter_unpack("<Q", index2index.content[4:]):
        if position:
            index = next(blob for blob in blobs(data) if blob.position == position)
            assert index.label == b"idx"
            pairs += struct.iter_unpack("<II", index.content[4:])
    return pairs


@pytest.fixture
def singles(tmp_path: Path) -> Path:
    """One block of single records."""
    with quick_log(tmp_path, block_size=BLOCK_SIZE) as log:
        for number in range(COUNT):
            log.append(b"%d" % number)
        assert len(log.inspect().blocks) == 1
    return tmp_path


# --- Layout ---


def test_a_block_starts_with_a_header_in_text_wire(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path, clock=clock, block_size=4096) as log:
        for _ in range(5):
            clock.pass_ns(1_000_000)
            log.append(bytes(1000))
        second = log.inspect().blocks[1]

    header = next(blobs(Path(second.path).read_bytes()))

    assert header.is_meta_data
    assert re.fullmatch(
        rb"header: \{ format: 2, block: 1, base_offset: %d, base_number: 3, created: %d, index_spacing: 64, "
        rb"index_count: 8, check: [0-9a-f]{8} \}" % (second.base_offset, NOW_US + 4000),
        header.content,
    )
    parsed = BlockHeader.parse(Path(second.path).read_bytes()[:1024])
    assert parsed == BlockHeader(2, 1, second.base_offset, 3, NOW_US + 4000, 64, 8)


def test_a_header_with_a_changed_byte_is_invalid() -> None:
    header = BlockHeader(2, 1, 4096, 77, NOW_US, 64, 8)
    whole = header.to_bytes()
    assert BlockHeader.parse(whole + b"anything behind") == header
    text_end = len(whole.rstrip(b"\0"))

    for position in range(text_end):
        wounded = bytearray(whole)
        wounded[position] ^= 0x10

        assert BlockHeader.parse(bytes(wounded)) is None, position


@pytest.mark.parametrize(
    ("block_size", "count"), [(4096, 8), (128 << 10, 8), (1 << 20, 64), (16 << 20, 1024), (1 << 29, 1024)]
)
def test_a_block_has_entries_according_to_its_size(tmp_path: Path, block_size: int, count: int) -> None:
    with quick_log(tmp_path, block_size=block_size) as log:
        log.append(b"one")

    header, index2index, index, record = blobs(block_files(tmp_path)[0].read_bytes())

    assert b"index_count: %d" % count in header.content
    assert len(index2index.content) == 4 + count * 8
    assert len(index.content) == 4 + count * 8
    assert record.content.endswith(b"one")


def test_blobs_follow_each_other_on_boundaries_of_eight(singles: Path) -> None:
    data = block_files(singles)[0].read_bytes()

    in_order = list(blobs(data))

    labels = [blob.label for blob in in_order]
    assert labels[:4] == [b"hea", b"i2i", b"idx", b""]
    assert labels.count(b"idx") == 3
    assert [blob.number for blob in in_order if not blob.is_meta_data] == list(range(COUNT))
    assert all(blob.position % 8 == 0 for blob in in_order)
    for message in range(1, 3):
        place = [place for place, blob in enumerate(in_order) if blob.label == b"idx"][message]
        assert in_order[place + 1].number == message * ENTRIES * SPACING, "before the first message that it indexes"


def test_entries_give_the_position_of_every_64th_message(singles: Path) -> None:
    data = block_files(singles)[0].read_bytes()
    positions = {blob.number: blob.position for blob in blobs(data) if not blob.is_meta_data}

    pairs = entries(data)

    assert [position for position, _ in pairs if position] == [positions[number] for number in range(0, COUNT, SPACING)]


def test_a_batch_stands_for_several_entries(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=BLOCK_SIZE) as log:
        log.append(b"single")
        batch = log.append_many([b""] * 1000).start
        offset = log.read(batch, limit=1)[0].offset
        log.append(b"single")

        data = block_files(tmp_path)[0].read_bytes()
        pairs = entries(data)

        assert [position for position, _ in pairs[1:16]] == [offset] * 15
        assert {checksum for _, checksum in pairs} == {0}
        assert [log.at(number).number for number in range(1002)] == list(range(1002))  # type: ignore[union-attr]


def test_a_block_holds_more_messages_than_it_has_entries(tmp_path: Path) -> None:
    """Eight index messages of eight entries are 4,096 messages; batches that have only ends hold many more."""
    with quick_log(tmp_path, block_size=64 << 10) as log:
        for _ in range(6):
            log.append_many([b""] * 2000)
        log.append(b"last")

        assert len(log.inspect().blocks) == 1
        for number in (0, 1999, 2000, 4095, 4096, 4097, 6000, 11_999, 12_000):
            message = log.at(number)
            assert message is not None
            assert message.number == number
        assert log.last()[0].body == b"last"
    with quick_log(tmp_path) as log:
        assert log.append(b"more").number == 12_001
        assert [message.number for message in log.read(11_990)] == list(range(11_990, 12_002))


# --- Checksums of groups ---


def _group_checksum(data: bytes, start: int) -> int:
    """Returns the checksum of the records from number `start` up to the 64th."""
    group = [blob for blob in blobs(data) if not blob.is_meta_data and start <= blob.number < start + SPACING]
    assert len(group) == SPACING
    return crc32c(data[group[0].position : group[-1].end])


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_sixty_four_single_records_have_one_checksum(tmp_path: Path, durability: str) -> None:
    with quick_log(tmp_path, block_size=BLOCK_SIZE, durability=durability) as log:
        for number in range(700):
            log.append(b"%d" % number, tag="t" * (number % 3))

    data = block_files(tmp_path)[0].read_bytes()

    expected = [_group_checksum(data, number) for number in range(0, 640, SPACING)]
    assert [checksum for _, checksum in entries(data)] == [*expected, 0, *[0] * 5]
    assert 0 not in expected


def test_a_group_with_a_batch_in_it_has_no_checksum(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=BLOCK_SIZE) as log:
        for number in range(64, 384, SPACING):
            while log.end < number + 10:
                log.append(b"single")
            if number % 128:
                log.append_many([b"a", b"b"])
        while log.end < 500:
            log.append(b"single")

    checksums = [checksum for _, checksum in entries(block_files(tmp_path)[0].read_bytes())]

    assert [bool(checksum) for checksum in checksums[:7]] == [True, False, True, False, True, False, True]


def test_a_group_that_another_process_may_have_changed_has_no_checksum(tmp_path: Path) -> None:
    for _ in range(3):
        with quick_log(tmp_path, block_size=BLOCK_SIZE) as log:
            for _ in range(100):
                log.append(b"single")

    checksums = [checksum for _, checksum in entries(block_files(tmp_path)[0].read_bytes())]

    assert [bool(checksum) for checksum in checksums[:5]] == [True, False, True, False, False]


# --- Finding ---


def test_a_message_is_found_without_looking_at_the_ones_far_before_it(singles: Path) -> None:
    """Damage in the first group is not read on the way to any later one."""
    block = block_files(singles)[0]
    data = bytearray(block.read_bytes())
    for blob in list(blobs(bytes(data))):
        if not blob.is_meta_data and blob.number < SPACING:
            data[blob.position + 4 : blob.position + 36] = bytes(32)
    block.write_bytes(data)

    with Log.open(singles, read_only=True) as log:
        for number in range(SPACING, COUNT):
            message = log.at(number)
            assert message is not None
            assert message.body == b"%d" % number
        with pytest.raises(CorruptRecord):
            log.at(5)


def _wrong_positions(data: bytes) -> dict[str, int]:
    records = [blob for blob in blobs(data) if not blob.is_meta_data]
    return {
        "none": 0,
        "the record before": records[127].position,
        "a much earlier record": records[3].position,
        "a later record": records[900].position,
        "the last record": records[-1].position,
        "the middle of a record": records[200].position + 8,
        "between two boundaries": records[128].position + 1,
        "the header": 0,
        "the index2index": next(blob.position for blob in blobs(data) if blob.label == b"i2i"),
        "an index message": [blob.position for blob in blobs(data) if blob.label == b"idx"][1],
        "free space": records[-1].end,
        "shortly before the end of the file": len(data) - 8,
        "behind the file": len(data) + 800,
        "as far as can be": 0xFFFFFFFF,
    }


def test_a_wrong_entry_costs_a_scan_and_not_an_error(singles: Path) -> None:
    block = block_files(singles)[0]
    whole = block.read_bytes()
    index = next(blob for blob in blobs(whole) if blob.label == b"idx")
    for kind, wrong in _wrong_positions(whole).items():
        data = bytearray(whole)
        struct.pack_into("<I", data, index.position + 8 + 2 * 8, wrong)
        block.write_bytes(data)

        with Log.open(singles, read_only=True) as log:
            for number in (0, 127, 128, 129, 150, 191, 192, 901, COUNT - 1):
                message = log.at(number)
                assert message is not None
                assert message.body == b"%d" % number, kind


@pytest.mark.parametrize("wrong", [0, 1, 8, 160, 1 << 40, (1 << 64) - 8])
def test_a_wrong_index2index_costs_a_scan_and_not_an_error(singles: Path, wrong: int) -> None:
    block = block_files(singles)[0]
    data = bytearray(block.read_bytes())
    index2index = next(blob for blob in blobs(bytes(data)) if blob.label == b"i2i")
    struct.pack_into("<Q", data, index2index.position + 8 + 8, wrong)
    block.write_bytes(data)

    with Log.open(singles, read_only=True) as log:
        for number in (0, 511, 512, 513, 800, 1023, 1024, COUNT - 1):
            message = log.at(number)
            assert message is not None
            assert message.body == b"%d" % number


def test_all_entries_as_garbage_cost_a_scan_and_not_an_error(singles: Path) -> None:
    block = block_files(singles)[0]
    random = Random(7)
    data = bytearray(block.read_bytes())
    for index in [blob for blob in blobs(bytes(data)) if blob.label == b"idx"]:
        data[index.position + 8 : index.end] = random.randbytes(index.end - index.position - 8)
    block.write_bytes(data)

    with Log.open(singles, read_only=True) as log:
        assert [message.number for message in log.read(0, limit=COUNT)] == list(range(COUNT))
        for number in range(0, COUNT, 37):
            message = log.at(number)
            assert message is not None
            assert message.body == b"%d" % number


def test_meta_data_of_any_kind_is_skipped(tmp_path: Path) -> None:
    """As a later release may write it between two records."""
    header = first_bytes(BlockHeader(2, 0, 0, 0, NOW_US, 64, 8))
    stranger = struct.pack("<I", META_DATA | 20) + b"note: { by: later } "
    data, numbers = bytearray(header + stranger), 3
    for number in range(numbers):
        data += stamp(pack_single(b"%d" % number, tag="t"), len(data), number, NOW_US)
        data += bytes(-len(data) % 8) + stranger
    data += bytes(-len(data) % 8)
    slot = Slot(0, len(data), NOW_US, NOW_US, 0, numbers, NOW_US, NOW_US)
    index = index_bytes(
        version=2,
        max_block_count=1,
        blocks=Blocks(start=0, slots=[slot]),
        message_count=numbers,
        extension={},
        synced=numbers,
        boot_id=bytes(16),
        state=1,
    )
    (tmp_path / f"{0:020d}.block").write_bytes(data + bytes(4096))
    (tmp_path / "index").write_bytes(index)

    with quick_log(tmp_path) as log:
        assert [message.body for message in log.read(0)] == [b"0", b"1", b"2"]
        assert log.at(1).body == b"1"  # type: ignore[union-attr]
        assert log.find_time(NOW_US) == 0
        assert log.verify().messages == numbers
        assert sum(map(len, log.scan(0, numbers))) == numbers


def test_messages_of_version_1_are_found_in_any_order(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1) as log:
        for number in range(1000):
            log.append(b"%d" % number)
        order = list(range(1000))
        Random(3).shuffle(order)

        assert [log.at(number).body for number in order] == [b"%d" % number for number in order]  # type: ignore[union-attr]
        assert len(log.inspect().blocks) == 1


# --- Sealing and growing ---


def test_a_sealed_block_ends_with_its_word_and_is_cut_to_length(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=4096) as log:
        for _ in range(10):
            log.append(bytes(900))

        for block in log.inspect().blocks[:-1]:
            data = Path(block.path).read_bytes()
            end = block.end_offset - block.base_offset
            assert data[end:] == struct.pack("<II", 0xC0000000, 0)
            assert list(blobs(data))[-1].end == end
        last = log.inspect().blocks[-1]
        assert last.file_size == 4096
        assert not any(Path(last.path).read_bytes()[last.end_offset - last.base_offset :])


def test_a_sealed_block_of_version_1_is_nothing_but_records(tmp_path: Path) -> None:
    with quick_log(tmp_path, version=1, block_size=4096) as log:
        for number in range(10):
            log.append(b"%d" % number * 900)
        first = log.inspect().blocks[0]
        messages = log.read(0, limit=5)

        data = Path(first.path).read_bytes()

        assert len(data) == first.end_offset
        assert [data[message.offset + 204 :][: len(message.body)] for message in messages[:3]] == [
            message.body for message in messages[:3]
        ]
        assert messages[1].offset == 204 + 900


@pytest.mark.parametrize("version", VERSIONS)
def test_a_block_is_preallocated_in_growing_steps_with_disk_space_for_every_byte(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=1 << 20) as log:
        sizes = []
        while len(log.inspect().blocks) < 2:
            log.append(bytes(10_000))
            block = block_files(tmp_path)[0]
            if len(log.inspect().blocks) == 1:
                sizes.append(block.stat().st_size)
                assert os.stat(block).st_blocks * 512 >= sizes[-1]

        assert sorted(set(sizes)) == [size << 10 for size in (32, 64, 128, 256, 512, 1024)]


def test_a_large_record_grows_a_block_in_one_step(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        log.append(bytes(3 << 20))

        assert 3 << 20 <= block_files(tmp_path)[0].stat().st_size < 4 << 20
        assert log.verify().messages == 1


def test_steps_have_a_limit(tmp_path: Path) -> None:
    with quick_log(tmp_path) as log:
        sizes = [0]
        for _ in range(34):
            log.append(bytes(1 << 20))
            sizes.append(block_files(tmp_path)[0].stat().st_size)

        steps = {after - before for before, after in pairwise(sizes)}
        assert max(steps) == 8 << 20


# --- Damage ---


def test_a_header_that_does_not_check_costs_the_index_and_not_the_records(singles: Path) -> None:
    block = block_files(singles)[0]
    data = bytearray(block.read_bytes())
    data[20] ^= 1
    block.write_bytes(data)

    with Log.open(singles, read_only=True) as log:
        assert [message.number for message in log.read(0, limit=COUNT)] == list(range(COUNT))
        assert log.at(COUNT - 1) is not None
        with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
            log.verify()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("size", "reason"), [(0, "the block is empty"), (2000, "shorter than its index says")])
def test_a_block_that_was_cut_is_damage(tmp_path: Path, version: int, size: int, reason: str) -> None:
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        for _ in range(10):
            log.append(bytes(900))
    os.truncate(block_files(tmp_path)[1], size)

    with Log.open(tmp_path, read_only=True) as log:
        with pytest.raises(CorruptRecord, match=reason) as damage:
            log.read(3)

        assert damage.value.path == str(block_files(tmp_path)[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_block_that_is_missing_is_damage(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, block_size=4096) as log:
        for _ in range(10):
            log.append(bytes(900))
    missing = block_files(tmp_path)[1]
    missing.unlink()

    with Log.open(tmp_path, read_only=True) as log:
        assert log.at(0) is not None if version == 2 else True
        with pytest.raises(CorruptRecord, match="the block is missing") as damage:
            log.read(3)

        assert (damage.value.path, damage.value.position) == (str(missing), 0)


def test_a_block_without_a_header_is_damage(singles: Path) -> None:
    block = block_files(singles)[0]
    data = bytearray(block.read_bytes())
    data[3] &= 0xBF
    block.write_bytes(data)

    with Log.open(singles, read_only=True) as log, pytest.raises(CorruptRecord, match="the block has no header"):
        log.at(0)


class SealedMeanwhile(SystemFileSystem):
    """Another process seals the block between the read of its size and the map of that many bytes."""

    def __init__(self, times: int) -> None:
        self.left = times

    def open(self, path: str, *, writable: bool, create: bool = False) -> SystemFile:
        file = super().open(path, writable=writable, create=create)
        if path.endswith(".block"):
            size = file.size

            def size_before_sealing() -> int:
                self.left -= 1
                return size() + (4096 if self.left >= 0 else 0)

            file.size = size_before_sealing  # type: ignore[method-assign]
        return file


def test_a_block_that_is_sealed_while_it_is_opened_is_read(singles: Path) -> None:
    with Log.open(singles, read_only=True, filesystem=SealedMeanwhile(times=2)) as log:
        assert [message.number for message in log.last(3)] == [COUNT - 3, COUNT - 2, COUNT - 1]


def test_a_block_that_can_never_be_mapped_is_damage(singles: Path) -> None:
    with (
        Log.open(singles, read_only=True, filesystem=SealedMeanwhile(times=10_000)) as log,
        pytest.raises(CorruptRecord, match="keeps changing"),
    ):
        log.last(3)
