"""One message of a batch by its number: the same as by reading, although the batch is checked as a whole only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import quick_log
from tests.support.simulated_background import SimulatedBackground
from warren.errors import CorruptRecord
from warren.storage import Log
from warren.storage.disk import block
from warren.storage.disk.block import Block
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import RECORD_HEAD, STAMP_AT, STAMP_END
from warren.storage.read import lookup

COUNT = 20
BATCHES = 5


def append_plain(log: Log, mark: bytes = b"") -> None:
    log.append_many([mark + b"%d" % place * (place % 4) for place in range(COUNT)], tag="eu.de")


def append_rich(log: Log) -> None:
    log.append_many(
        [b"%d" % place for place in range(COUNT)],
        tags=["us" if place % 3 else "" for place in range(COUNT)],
        keys=[None if place % 2 else b"%d" % place for place in range(COUNT)],
        ids=[f"é{place}" for place in range(COUNT)],
        headers=[{"trace": b"%d" % place} if place % 5 else None for place in range(COUNT)],
        corr_offsets=list(range(-1, COUNT - 1)),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed log of batches that have only bodies, whose messages are on disk."""
    with quick_log(tmp_path, durability="commit") as log:
        for _ in range(BATCHES):
            append_plain(log)
    return tmp_path


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the payloads that were checked."""
    sizes: list[int] = []

    def noted(data: bytes) -> int:
        if len(data) != STAMP_END - STAMP_AT:
            sizes.append(len(data))
        return crc32c(data)

    monkeypatch.setattr(lookup, "crc32c", noted)
    return sizes


def open_block(log: Log) -> Block:
    first = log._files.open_block(0)
    assert first is not None
    return first


def flip(path: Path, position: int) -> None:
    (file,) = path.glob("*.block")
    with file.open("r+b") as opened:
        opened.seek(position)
        byte = opened.read(1)[0]
        opened.seek(position)
        opened.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_lookup_returns_the_messages_that_reading_returns(tmp_path: Path, compression: str) -> None:
    with quick_log(tmp_path, durability="commit", compression=compression) as log:
        append_plain(log)
        append_rich(log)
        log.append(b"single")
        append_rich(log)
        messages = log.read(0)

        for _ in range(2):
            assert [log.at(number) for number in range(log.end)] == messages


def test_a_batch_is_checked_once(path: Path, checked: list[int]) -> None:
    with quick_log(path, read_only=True) as log:
        log.at(0)
        for _ in range(3):
            for number in range(COUNT * BATCHES):
                assert log.at(number) is not None

    assert len(checked) == BATCHES


def test_a_batch_that_may_not_be_on_disk_is_checked_each_time(tmp_path: Path, checked: list[int]) -> None:
    with quick_log(tmp_path, durability="os", background=SimulatedBackground()) as log:
        append_plain(log)

        for _ in range(3):
            assert log.at(7) is not None
        assert len(checked) == 3

        log.sync()
        for _ in range(3):
            assert log.at(7) is not None
        assert len(checked) == 4


def test_a_block_remembers_a_bounded_number_of_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "VERIFIED_MAX", 2)

    with quick_log(path, read_only=True) as log:
        messages = [log.at(number) for _ in range(2) for number in range(COUNT * BATCHES)]

        assert messages == log.read(0) * 2
        assert len(open_block(log)._verified) == 2


@pytest.mark.parametrize("forget", [Block.map, Block.let_pages_go])
def test_bytes_that_are_read_from_the_file_again_are_checked_again(
    path: Path, checked: list[int], forget: object
) -> None:
    assert callable(forget)
    with quick_log(path, read_only=True) as log:
        log.at(0)
        log.at(0)
        forget(open_block(log))
        log.at(0)
        log.at(0)

    assert len(checked) == 2


@pytest.mark.parametrize("position", [STAMP_AT, RECORD_HEAD.size - 1, RECORD_HEAD.size + 60])
def test_a_batch_that_does_not_check_is_damage(path: Path, position: int) -> None:
    with quick_log(path, read_only=True) as log:
        batch = log.read(COUNT, limit=1)[0].offset
        flip(path, batch + position)

        for _ in range(2):
            with pytest.raises(CorruptRecord) as damage:
                log.at(COUNT + 3)
            assert damage.value.position == batch


@pytest.mark.parametrize("position", [STAMP_AT, 4])
def test_the_stamp_of_a_batch_that_is_remembered_is_checked_each_time(path: Path, position: int) -> None:
    with quick_log(path, read_only=True) as log:
        message = log.at(COUNT + 3)
        assert message is not None
        flip(path, message.offset + position)

        with pytest.raises(CorruptRecord):
            log.at(COUNT + 3)


def test_rewritten_records_are_not_mistaken_for_the_cut_ones(path: Path) -> None:
    with quick_log(path, read_only=True) as log:
        old = [log.at(number) for number in range(COUNT * BATCHES)]
        second = old[COUNT]
        assert second is not None
        flip(path, second.offset + RECORD_HEAD.size + 60)

        with quick_log(path, repair=True, durability="commit") as repaired:
            assert repaired.end == COUNT
            assert log.at(COUNT) is None
            for _ in range(BATCHES - 1):
                append_plain(repaired, b"new ")
            new = repaired.read(0)

        assert [log.at(number) for number in range(COUNT * BATCHES)] == new
    assert new[COUNT].body == b"new "
