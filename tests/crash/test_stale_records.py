"""Records of an earlier life, and records of another place, are complete and have right checksums: they do not count as
messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from tests.support.volatile import PAGE_SIZE
from warren.errors import CorruptRecord
from warren.storage import Log
from warren.storage.format.layout import RECORD_HEAD

SEEDS = range(200)
NAMES = (b"a", b"b", b"c", b"d")
PAGE_BODY = PAGE_SIZE - RECORD_HEAD.size
"""The body of a record that is as long as a page."""


def _bodies(log: Log) -> list[bytes]:
    return [message.body for message in log.read(log.first, limit=1000)]


def _open(disk: SimulatedFileSystem, clock: SimulatedClock, durability: str) -> Log:
    return Log.open("/log", filesystem=disk, clock=clock, durability=durability, block_size=64 << 10)


def _fill_first_page(log: Log) -> None:
    """Fills the first page, so that each record that follows has its own page to lose."""
    with Log.open("/log", filesystem=SimulatedFileSystem(), block_size=64 << 10) as other:
        first_offset = other.append(b"").offset
    log.append(b"-" * (PAGE_SIZE - first_offset - RECORD_HEAD.size))


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("crash_first", ["power cut", "loss", "kill"])
def test_a_complete_record_after_a_torn_one_does_not_come_back(crash_first: str, durability: str) -> None:
    came_close = 0
    for seed in SEEDS:
        disk, clock = SimulatedFileSystem(seed=seed), SimulatedClock()
        log = _open(disk, clock, "os")
        _fill_first_page(log)
        for name in NAMES:
            log.append(name * PAGE_BODY)
        disk = disk.after_power_cut(seed)
        # The clock was set back, so that the old records do not look older than the new one before them.
        clock.set_back_ns(10**10)

        log = _open(disk, clock, durability)
        count = len(_bodies(log))
        if not count:
            continue
        log.append(b"A" * PAGE_BODY)
        is_same_boot = crash_first != "power cut"
        disk = (
            disk.after_process_kill()
            if crash_first == "kill"
            else disk.after_power_cut(seed + 1, same_boot=is_same_boot)
        )
        recovered = _open(disk.after_power_cut(seed + 2, same_boot=is_same_boot), clock, durability)

        names = [body[:1] for body in _bodies(recovered)]
        before = [b"-", *NAMES][:count]
        assert names == [*before, b"A"] or (durability == "os" and names == before), f"seed {seed}"
        came_close += count < 4
    assert came_close > len(SEEDS) // 8


@pytest.mark.parametrize("kind", ["singles", "batches"])
@pytest.mark.parametrize("number", [1, 70, 140])
def test_a_record_from_another_place_is_not_taken(tmp_path: Path, kind: str, number: int) -> None:
    """As a disk leaves it after a write to the wrong place: number, size and checksums of the record are right."""
    files, clock = MoodyFileSystem(really_syncs=False), SimulatedClock()
    paths = [tmp_path / name for name in ("here", "else")]
    for path, first in zip(paths, (b"short", b"much longer than the other"), strict=True):
        with Log.open(str(path), filesystem=files, clock=clock) as log:
            log.append(first)
            for place in range(1, 201, 1 if kind == "singles" else 10):
                bodies = [b"%s %03d" % (path.name.encode(), place)] * (1 if kind == "singles" else 10)
                log.append_many(bodies) if kind == "batches" else log.append(bodies[0])
    here, there = [next(path.glob("*.block")) for path in paths]
    place, end = _offset(paths[0], number), _offset(paths[0], number + (1 if kind == "singles" else 10))
    other_place = _offset(paths[1], number)
    content = bytearray(here.read_bytes())
    content[place:end] = there.read_bytes()[other_place : other_place + end - place]

    here.write_bytes(content)

    with Log.open(str(paths[0]), read_only=True) as log:
        assert _body_or_none(log, 0) == b"short"
        with pytest.raises(CorruptRecord, match="offset"):
            log.at(number)
        with pytest.raises(CorruptRecord):
            log.read(0)
        with pytest.raises(CorruptRecord):
            list(log.scan(0))
        with pytest.raises(CorruptRecord):
            log.verify()


@pytest.mark.parametrize("count", [64, 200])
def test_a_wrong_index_entry_costs_a_scan_and_not_an_error(tmp_path: Path, count: int) -> None:
    """Every byte of a block's index messages is changed in turn; the messages are found nevertheless."""
    files, clock = MoodyFileSystem(really_syncs=False), SimulatedClock()
    path = tmp_path / "log"
    with Log.open(str(path), filesystem=files, clock=clock, block_size=16 << 10) as log:
        for number in range(count):
            log.append(b"%d" % number)
    first_record = _offset(path, 0)
    block = next(path.glob("*.block"))
    whole = block.read_bytes()

    unreadable = set()
    for position in range(first_record):
        wounded = bytearray(whole)
        wounded[position] ^= 0x18
        block.write_bytes(wounded)
        with Log.open(str(path), read_only=True) as log:
            for number in (0, 1, 63, count - 1):
                body = _body_or_none(log, number)
                assert body in (b"%d" % number, None)
                if body is None:
                    unreadable.add(position)

    # The size words of three meta-data messages give the position of the first record, and are indispensable.
    assert len(unreadable) <= 3 * 4


def _offset(path: Path, number: int) -> int:
    with Log.open(str(path), read_only=True) as log:
        message = log.at(number)
    assert message is not None
    return message.offset


def _body_or_none(log: Log, number: int) -> bytes | None:
    try:
        message = log.at(number)
    except CorruptRecord:
        return None
    assert message is not None
    return message.body
