"""How opening treats a log that was interrupted, and what it refuses to do.

Each test leaves a log as a crash would: the blocks unchanged, and in the index the state at the crash.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.line_cutter import LineCutter
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.errors import CorruptRecord
from warren.storage import Log
from warren.storage.disk.block import BlockHeader, first_bytes

BLOCK_SIZE = 4096
PER_BLOCK = 3
COUNT = 14
DEAD = 999_999_999
SUFFIXES = {1: "zbus", 2: "block"}
NOW_US = 1_700_000_000_000_000
OTHER_BOOT = b"another start!!!"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def body(number: int) -> bytes:
    return b"%04d" % number * 250


def fill(path: Path, version: int, count: int = COUNT, **options: object) -> None:
    """Messages of 1,000 bytes, three to a block, and the log closed."""
    with quick_log(path, version=version, block_size=BLOCK_SIZE, max_block_count=2, **options) as log:
        for number in range(count):
            log.append(body(number))
        log.flag, log.extension = 7, {"topic": "orders"}


def leave(
    path: Path,
    *,
    boot_id: bytes | None = None,
    writing: int = 0,
    synced: int | None = None,
    end: int | None = None,
    state: int = 2,
) -> None:
    """Makes a closed log look as it did when it was open: on this start of the machine, or on another one.

    The positions are numbers and do not come from `layout`, so that these tests are a second witness of the format: a
    layout that changes by mistake fails here.
    """
    data = bytearray((path / "index").read_bytes())
    is_v1 = data[:4] == b"\0\0\0\1"
    end_at, form = (20, ">Q") if is_v1 else (24, "<Q")
    if end is not None:
        struct.pack_into(form, data, end_at, end)
    struct.pack_into("=QQ", data, 960, state, 0)
    if synced is not None:
        struct.pack_into("=Q", data, 976, synced)
    struct.pack_into("=Q", data, 984, writing)
    if boot_id is not None:
        data[1000:1016] = boot_id
    (path / "index").write_bytes(data)


def reopen(path: Path, **options: object) -> Log:
    return quick_log(path, block_size=BLOCK_SIZE, max_block_count=2, **options)


def blocks(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.suffix in (".block", ".zbus"))


def wound(file: Path, position: int, data: bytes | None = None) -> None:
    content = bytearray(file.read_bytes())
    changed = bytes((content[position] ^ 0xFF,)) if data is None else data
    content[position : position + len(changed)] = changed
    file.write_bytes(content)


def offset_of(path: Path, number: int) -> int:
    with Log.open(path, read_only=True) as log:
        message = log.at(number)
    assert message is not None
    return message.offset


def numbers(log: Log) -> list[int]:
    messages = log.read(log.first)
    assert all(message.body == body(message.number) for message in messages)
    return [message.number for message in messages]


# --- A process died, and another one had the log open all the time ---


def test_a_log_left_open_between_two_appends_needs_nothing_while_another_process_has_it_open(
    tmp_path: Path, version: int
) -> None:
    fill(tmp_path, version)
    survivor = reopen(tmp_path)
    leave(tmp_path)
    before = [file.read_bytes() for file in blocks(tmp_path)]

    with reopen(tmp_path) as log:
        assert log.recovery is None
        assert numbers(log) == numbers(survivor) == list(range(COUNT))

    assert [file.read_bytes() for file in blocks(tmp_path)] == before


@pytest.mark.parametrize("end", [12, 13, 14])
def test_records_that_were_not_published_are_cut_and_cleared(tmp_path: Path, version: int, end: int) -> None:
    """Twelve of the messages are in sealed blocks; the last block has two."""
    fill(tmp_path, version)
    cut_at = offset_of(tmp_path, end) if end < COUNT else None
    survivor = reopen(tmp_path)
    leave(tmp_path, writing=DEAD, end=end)
    last = blocks(tmp_path)[-1]
    base = int(last.stem)

    with reopen(tmp_path) as log:
        report = log.recovery
        assert report is not None
        assert (report.message_count, report.cut_path, report.removed_paths) == (end, str(last), ())
        assert numbers(log) == numbers(survivor) == list(range(end))
        if cut_at is not None:
            # The index message before the first record of a block is removed with it.
            assert cut_at - base - 72 <= report.cut_position <= cut_at - base
            assert report.cut_bytes > 0
            assert not any(last.read_bytes()[report.cut_position :])
        else:
            assert report.cut_bytes == 0
        assert (log.flag, log.extension) == (7, {"topic": "orders"})
        assert log.inspect().writing == 0
        assert log.append(body(end)).number == end
        assert numbers(log) == list(range(end + 1))
        assert log.verify().messages == end + 1
    with reopen(tmp_path) as log:
        assert log.recovery is None
        assert numbers(log) == list(range(end + 1))


def test_a_survivor_cuts_unpublished_records_of_a_killed_process(tmp_path: Path, version: int) -> None:
    """It may have searched for that message already, and found none: the message must not come back unnoticed."""
    fill(tmp_path, version)
    survivor = reopen(tmp_path)
    assert survivor.end == COUNT
    leave(tmp_path, writing=DEAD, end=COUNT - 1)

    assert survivor.append(body(COUNT - 1)).number == COUNT - 1

    assert survivor.recovery is not None
    assert numbers(survivor) == list(range(COUNT))


# --- No process had the log open, and the machine was not restarted ---


@pytest.mark.parametrize("writing", [0, DEAD])
@pytest.mark.parametrize("end", [0, 2, 5, 12, 13, 14])
def test_records_after_an_old_published_end_are_kept_though_the_boot_id_is_the_same(
    tmp_path: Path, version: int, end: int, writing: int
) -> None:
    """As a snapshot of the disk leaves them: the records were synced, and the page of the index was not."""
    fill(tmp_path, version)
    leave(tmp_path, end=end, synced=min(end, 3), writing=writing)

    with reopen(tmp_path) as log:
        assert log.recovery is not None
        assert numbers(log) == list(range(COUNT))
        assert (log.flag, log.extension) == (7, {"topic": "orders"})
        assert log.append(body(COUNT)).number == COUNT
        assert log.verify().messages == COUNT + 1


def test_an_old_copy_of_the_whole_index_costs_no_message(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path / "log", version=version, durability="commit")
    log.append(body(0))
    old = (tmp_path / "log" / "index").read_bytes()
    for number in range(1, COUNT):
        log.append(body(number))
    shutil.copytree(tmp_path / "log", tmp_path / "snapshot")
    (tmp_path / "snapshot" / "index").write_bytes(old)

    with quick_log(tmp_path / "snapshot") as restored:
        assert numbers(restored) == list(range(COUNT))


def test_a_torn_record_ends_the_log_also_on_the_same_boot(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    last = blocks(tmp_path)[-1]
    wound(last, offset_of(tmp_path, 12) - int(last.stem) + 500)
    leave(tmp_path, end=12, synced=12)

    with reopen(tmp_path) as log:
        assert log.recovery is not None
        assert numbers(log) == list(range(12))
        assert not any(last.read_bytes()[log.recovery.cut_position :])
        log.verify()


def test_a_published_end_ahead_of_the_records_is_believed_as_far_as_it_was_synced(tmp_path: Path) -> None:
    """Without syncs the page of the index may reach the disk, and the messages not."""
    fill(tmp_path, 2)
    last = blocks(tmp_path)[-1]
    wound(last, offset_of(tmp_path, 13) - int(last.stem) + 500)
    leave(tmp_path, synced=13)

    with reopen(tmp_path) as log:
        assert numbers(log) == list(range(13))

    wound(last, offset_of(tmp_path, 12) - int(last.stem) + 500)
    leave(tmp_path, synced=13)
    with pytest.raises(CorruptRecord, match="13 were on disk"):
        reopen(tmp_path)


def test_a_log_that_closed_its_files_checks_the_end_again_before_it_appends(tmp_path: Path, version: int) -> None:
    """While no file was open, the volume may have been mounted again from before the unsynced data."""
    fill(tmp_path, version)
    log = reopen(tmp_path)
    assert numbers(log) == list(range(COUNT))
    assert log._files.rest()
    leave(tmp_path, end=12, synced=12)

    assert log.append(body(COUNT)).number == COUNT

    assert log.recovery is not None
    assert numbers(log) == list(range(COUNT + 1))


def test_a_log_that_gave_up_its_files_and_finds_them_as_they_were_recovers_nothing(
    tmp_path: Path, version: int
) -> None:
    fill(tmp_path, version)
    log = reopen(tmp_path)
    log.append(body(COUNT))
    assert log._files.rest()

    log.append(body(COUNT + 1))

    assert log.recovery is None
    assert log._files.is_vouched
    assert numbers(log) == list(range(COUNT + 2))


def test_a_message_of_version_1_that_was_half_stored_is_no_message() -> None:
    """Version 1 has no checksum: a process that is killed in the middle of a put must not leave half of its message."""
    ends = set()
    for seed, line in product(range(3), range(40, 260)):
        disk = SimulatedFileSystem(seed=seed * 1000 + line)
        log = Log.open("/log", version=1, durability="os", block_size=BLOCK_SIZE, filesystem=disk)
        sent = [body(number)[: 700 + number] for number in range(seed % 3)]
        for each in sent:
            log.append(each, id="before")
        with suppress(PowerCut), LineCutter(disk, line):
            log.append(body(9), id="half", tag="of.it")
            disk.cut()

        with Log.open("/log", filesystem=disk.after_process_kill(seed)) as survivor:
            messages = survivor.read(0)
            assert [message.body for message in messages] in (sent, [*sent, body(9)])
            assert [(message.id, message.tag) for message in messages[len(sent) :]] in ([], [("half", "of.it")])
            assert all(message.timestamp for message in messages)
            ends.add(len(messages) - len(sent))
    assert ends == {0, 1}


def test_a_killed_process_costs_no_check_of_earlier_records(tmp_path: Path, version: int) -> None:
    """Damage in an earlier block, and before the last index entry of the last one, is not read."""
    with quick_log(tmp_path, version=version, block_size=128 << 10) as log:
        for number in range(1000):
            log.append(b"%d" % number * 20)
        assert len(log.inspect().blocks) == 3 - version
    leave(tmp_path, writing=DEAD)
    wound(blocks(tmp_path)[0], offset_of(tmp_path, 100) + (64 if version == 1 else 16))

    with quick_log(tmp_path) as log:
        assert log.recovery is not None
        assert log.end == 1000
        assert log.at(999) is not None
        with pytest.raises(CorruptRecord):
            log.verify()


def test_a_change_that_raised_is_recovered_by_the_next_one(tmp_path: Path, version: int) -> None:
    class Broken(SimulatedClock):
        breaks = False

        def now_ns(self) -> int:
            if self.breaks:
                raise MemoryError
            return super().now_ns()

    clock = Broken()
    with reopen(tmp_path, version=version, clock=clock, durability="commit") as log:
        log.append(body(0))
        clock.breaks = True
        with pytest.raises(MemoryError):
            log.append(b"broken")
        clock.breaks = False

        assert log.append(body(1)).number == 1

        assert log.recovery is not None
        assert numbers(log) == [0, 1]


def test_the_recovery_of_another_process_is_trusted(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    one = reopen(tmp_path)
    two = reopen(tmp_path)
    one.append(body(COUNT))
    leave_writing(tmp_path)

    two.append(body(COUNT + 1))

    assert two.recovery is not None
    assert one.append(body(COUNT + 2)).number == COUNT + 2
    assert one.recovery is None
    assert numbers(one) == numbers(two) == list(range(COUNT + 3))


def leave_writing(path: Path) -> None:
    with (path / "index").open("r+b") as file:
        file.seek(984)
        file.write(DEAD.to_bytes(8, "little"))


# --- Killed at each step of a change ---


class CutAt(SimulatedFileSystem):
    """Loses its power at the `nth` call of that name from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.call, self.left = "", 0

    def cut_at(self, call: str, nth: int) -> None:
        self.call, self.left = call, nth

    def enter(self, call: str) -> None:
        super().enter(call)
        if call == self.call:
            self.left -= 1
            if not self.left:
                self.cut()


CALLS = ("open", "write", "sync", "truncate", "preallocate", "sync_directory", "replace", "remove")


def _roll(log: Log) -> None:
    while log.end < 6:
        log.append(body(log.end))


def _retire(log: Log) -> None:
    _roll(log)
    log.retire(before=6)


def _extend(log: Log) -> None:
    _roll(log)
    log.extension = {"topic": "orders"}


@pytest.mark.parametrize("change", [_roll, _retire, _extend])
@pytest.mark.parametrize("durability", ["commit", "os"])
def test_a_process_killed_at_any_call_leaves_a_log_that_the_next_one_opens(
    version: int, durability: str, change: Callable[[Log], None]
) -> None:
    kills = 0
    for call in CALLS:
        for nth in range(1, 40):
            disk = CutAt()
            options = {"filesystem": disk, "durability": durability, "block_size": BLOCK_SIZE, "max_block_count": 1}
            log = Log.open("/log", version=version, **options)  # type: ignore[arg-type]
            log.append(body(0))
            disk.cut_at(call, nth)
            try:
                change(log)
            except PowerCut:
                kills += 1
            else:
                break
            end = log._files._index.message_count if log._files._index is not None else None
            after = disk.after_process_kill()

            with Log.open("/log", filesystem=after, block_size=BLOCK_SIZE, max_block_count=1) as reopened:
                recovered = numbers(reopened)
                assert recovered == list(range(reopened.first, reopened.end)), (call, nth)
                assert end is None or reopened.end in (end, end + 1) or end == 0, (call, nth)
                assert reopened.append(body(reopened.end)).number == recovered[-1] + 1
                names = [name for name in after.names("/log") if name.endswith(SUFFIXES[version])]
                assert len(names) == len(reopened.inspect().blocks), (call, nth)
                reopened.verify()
    assert kills > 15


# --- The machine went down ---


def test_after_a_power_cut_the_log_goes_as_far_as_its_records_check(tmp_path: Path, version: int) -> None:
    """The system synced more than the index recorded: it is kept."""
    fill(tmp_path, version)
    leave(tmp_path, boot_id=OTHER_BOOT, synced=4, end=5)

    with reopen(tmp_path) as log:
        assert log.recovery is not None
        assert numbers(log) == list(range(COUNT))
        assert log.inspect().synced == COUNT


@pytest.mark.parametrize("number", [5, 8, 12])
def test_after_a_power_cut_a_torn_record_ends_the_log(tmp_path: Path, number: int) -> None:
    fill(tmp_path, 2)
    place = offset_of(tmp_path, number)
    file = max((file for file in blocks(tmp_path) if int(file.stem) <= place), key=lambda file: int(file.stem))
    leave(tmp_path, boot_id=OTHER_BOOT, synced=4)
    wound(file, place - int(file.stem) + 500)
    later = [str(each) for each in blocks(tmp_path) if int(each.stem) > place]

    with reopen(tmp_path) as log:
        report = log.recovery
        assert report is not None
        assert (report.message_count, report.cut_path) == (number, str(file))
        assert place - int(file.stem) - 72 <= report.cut_position <= place - int(file.stem)
        assert list(report.removed_paths) == later
        assert numbers(log) == list(range(number))
        assert not any(Path(path).exists() for path in later)
        log.append(body(number))
        log.verify()


def test_after_a_power_cut_synced_records_are_kept(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    place = offset_of(tmp_path, 13)
    leave(tmp_path, boot_id=OTHER_BOOT, synced=COUNT)
    last = blocks(tmp_path)[-1]
    wound(last, place - int(last.stem) + 500)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with pytest.raises(CorruptRecord, match="the log ends at message 13; 14 were on disk") as damage:
        reopen(tmp_path)

    assert (damage.value.path, damage.value.position) == (str(last), place - int(last.stem))
    assert {name: data for name, data in before.items() if name.endswith(".block")} == {
        file.name: file.read_bytes() for file in blocks(tmp_path)
    }


def test_time_continues_after_a_recovery(tmp_path: Path, version: int) -> None:
    clock = SimulatedClock()
    fill(tmp_path, version, clock=clock)
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0, end=0)
    clock.set_back_ns(10**15)

    with reopen(tmp_path, clock=clock) as log:
        last = log.last()[0].timestamp
        assert log.append(body(COUNT)).timestamp == last
        assert log.find_time(last) == 0


def test_complete_records_after_a_torn_one_are_cleared_on_disk(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        for number in range(10):
            log.append(body(number))
        offset = log.read(4)[0].offset
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0, end=0)
    # An impossible size, in both versions.
    wound(blocks(tmp_path)[0], offset + (200 if version == 1 else 0), b"\xff\xff\xff\xff")

    with quick_log(tmp_path) as log:
        assert log.end == 4
        assert not any(blocks(tmp_path)[0].read_bytes()[offset:])
        assert log.recovery is not None
        assert log.recovery.cut_bytes > 5000


def test_the_entries_of_a_recovered_block_are_refilled(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=128 << 10) as log:
        for number in range(1200):
            log.append(b"%d" % number)
    block = blocks(tmp_path)[0]
    whole = block.read_bytes()
    places = [position for position in range(0, len(whole), 8) if whole[position + 4 : position + 8] == b"idx\0"]
    assert len(places) == 3
    index2index = next(position for position in range(0, 400, 8) if whole[position + 4 : position + 8] == b"i2i\0")
    wounded = bytearray(whole)
    wounded[index2index + 8 : index2index + 72] = bytes(64)
    for place in places:
        wounded[place + 8 : place + 72] = bytes(64)
    block.write_bytes(wounded)
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0, end=0)

    with quick_log(tmp_path) as log:
        assert log.end == 1200

    assert struct.unpack_from("<3Q", block.read_bytes(), index2index + 8) == tuple(places)
    for place in places:
        entries = list(struct.iter_unpack("<II", whole[place + 8 : place + 72]))
        refilled = list(struct.iter_unpack("<II", block.read_bytes()[place + 8 : place + 72]))
        assert [position for position, _ in refilled] == [position for position, _ in entries]
        assert {checksum for _, checksum in refilled} == {0}


def test_a_recovered_block_is_written_on_with_entries(tmp_path: Path) -> None:
    with quick_log(tmp_path, block_size=128 << 10) as log:
        for number in range(600):
            log.append(b"%d" % number)
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0, end=0)

    with quick_log(tmp_path, block_size=128 << 10) as log:
        for number in range(600, 1200):
            log.append(b"%d" % number)

        order = list(range(1200))
        Random(1).shuffle(order)
        assert [log.at(number).body for number in order] == [b"%d" % number for number in order]  # type: ignore[union-attr]
        log.verify()


def test_a_block_whose_making_was_cut_short_is_removed(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    with Log.open(tmp_path, read_only=True) as log:
        end_offset = log.inspect().blocks[-1].end_offset
    leave(tmp_path, boot_id=OTHER_BOOT)
    new = tmp_path / f"{end_offset:020d}.{SUFFIXES[version]}"
    new.write_bytes(bytes(BLOCK_SIZE))

    with reopen(tmp_path) as log:
        assert numbers(log) == list(range(COUNT))
        assert log.append(body(COUNT)).number == COUNT
        log.verify()
    if version == 2:
        assert not new.exists()


def add_block(path: Path, stored: int, behind: bytes = b"") -> Path:
    """Adds a block that a crash left and the index does not name yet: `stored` of its first bytes, then `behind`."""
    with Log.open(path, read_only=True) as log:
        last = log.inspect().blocks[-1]
    whole = first_bytes(BlockHeader(2, last.number + 1, last.end_offset, COUNT, NOW_US, 64, 8))
    file = path / f"{last.end_offset:020d}.block"
    file.write_bytes((whole[:stored].ljust(len(whole), b"\0") + behind).ljust(BLOCK_SIZE, b"\0"))
    return file


@pytest.mark.parametrize("boot_id", [None, OTHER_BOOT])
def test_a_block_whose_first_bytes_were_torn_in_its_making_is_removed(tmp_path: Path, boot_id: bytes | None) -> None:
    """All of them are stored by one write, which a crash can cut after any word."""
    fill(tmp_path, 2)
    leave(tmp_path, boot_id=boot_id)
    whole = add_block(tmp_path, BLOCK_SIZE).read_bytes().rstrip(b"\0")

    for stored in range(8, len(whole), 8):
        new = add_block(tmp_path, stored)
        with reopen(tmp_path) as log:
            assert log.recovery is not None
            assert log.recovery.removed_paths == (str(new),), stored
            assert numbers(log) == list(range(COUNT))
            log.verify()
        leave(tmp_path, boot_id=boot_id)
    with reopen(tmp_path) as log:
        assert log.append(body(COUNT)).number == COUNT


def test_a_block_with_a_torn_header_and_something_after_it_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    leave(tmp_path, boot_id=OTHER_BOOT)
    new = add_block(tmp_path, 64, behind=b"a record")
    before = new.read_bytes()

    with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
        reopen(tmp_path)
    assert new.read_bytes() == before


def test_a_block_with_a_torn_header_is_refused_without_an_index_and_put_aside_by_a_repair(tmp_path: Path) -> None:
    """Without the index it may have held records."""
    fill(tmp_path, 2)
    new = add_block(tmp_path, 64)
    (tmp_path / "index").unlink()

    with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
        reopen(tmp_path)
    with reopen(tmp_path, repair=True) as log:
        assert numbers(log) == list(range(COUNT))
        assert log.append(body(COUNT)).number == COUNT
    assert Path(f"{new}.cut").exists()


def test_a_repair_does_not_put_the_only_block_aside_and_start_again_at_0(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with reopen(tmp_path) as log:
        log.retire(before=COUNT, rolls=True)
    (last,) = blocks(tmp_path)
    last.write_bytes(last.read_bytes()[:64].ljust(BLOCK_SIZE, b"\0"))

    with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
        reopen(tmp_path, repair=True)
    assert blocks(tmp_path) == [last]


def test_a_roll_that_was_cut_short_is_finished(tmp_path: Path, version: int) -> None:
    """The next block exists, and the one before is not cut to its length."""
    fill(tmp_path, version)
    before_last = blocks(tmp_path)[-2]
    sealed = before_last.read_bytes()
    end = int(blocks(tmp_path)[-1].stem) - int(before_last.stem)
    before_last.write_bytes(sealed[:end] + bytes(BLOCK_SIZE - end))
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0)

    with reopen(tmp_path) as log:
        assert numbers(log) == list(range(COUNT))

    assert before_last.read_bytes()[: len(sealed)] == sealed
    assert version == 1 or len(before_last.read_bytes()) == len(sealed)


def test_an_end_word_without_a_next_block_is_taken_back(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    last = blocks(tmp_path)[-1]
    with Log.open(tmp_path, read_only=True) as log:
        end = log.inspect().blocks[-1].end_offset - int(last.stem)
    last.write_bytes(last.read_bytes()[:end] + struct.pack("<II", 0xC0000000, 0))
    leave(tmp_path, boot_id=OTHER_BOOT, synced=0)

    with reopen(tmp_path) as log:
        assert log.recovery is not None
        assert log.recovery.cut_bytes == 0
        assert log.append(body(COUNT)).number == COUNT
        assert numbers(log) == list(range(COUNT + 1))


def test_blocks_that_were_retired_when_the_machine_went_down_do_not_come_back(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    contents = {file.name: file.read_bytes() for file in blocks(tmp_path)}
    with reopen(tmp_path) as log:
        first = log.retire(before=7)
    gone = [name for name in contents if not (tmp_path / name).exists()]
    assert gone
    for name in gone:
        (tmp_path / name).write_bytes(contents[name])
    leave(tmp_path, boot_id=OTHER_BOOT)

    with reopen(tmp_path) as log:
        assert log.recovery is not None
        assert list(log.recovery.removed_paths) == [str(tmp_path / name) for name in gone]
        assert (log.first, log.end) == (first, COUNT)

    assert not any((tmp_path / name).exists() for name in gone)


def test_slots_of_sealed_blocks_survive_a_recovery(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    with Log.open(tmp_path, read_only=True) as log:
        before = log.inspect().blocks
    leave(tmp_path, boot_id=OTHER_BOOT, synced=COUNT)

    with reopen(tmp_path) as log:
        after = log.inspect().blocks

    assert [block.number for block in after] == [block.number for block in before]
    assert list(after[:-1]) == list(before[:-1])
    assert (after[-1].base_offset, after[-1].end_offset) == (before[-1].base_offset, before[-1].end_offset)


# --- Blocks that do not follow each other ---


@pytest.mark.parametrize("has_index", [True, False])
def test_a_block_missing_in_the_middle_is_refused(tmp_path: Path, version: int, has_index: bool) -> None:
    fill(tmp_path, version)
    missing = blocks(tmp_path)[2]
    missing.unlink()
    if has_index:
        leave(tmp_path, boot_id=OTHER_BOOT)
    else:
        (tmp_path / "index").unlink()

    with pytest.raises(CorruptRecord, match=r"the block is missing|does not follow"):
        reopen(tmp_path)

    with reopen(tmp_path, repair=True) as log:
        assert numbers(log) == list(range(6))
        assert log.recovery is not None
        assert len(log.recovery.removed_paths) == len(list(tmp_path.glob("*.cut"))) == 2
        log.verify()


def test_the_last_block_missing_is_refused(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    blocks(tmp_path)[-1].unlink()

    with pytest.raises(CorruptRecord, match=r"the block is missing|14 were on disk"):
        reopen(tmp_path)

    with reopen(tmp_path, repair=True) as log:
        assert numbers(log) == list(range(12))


def test_a_header_that_does_not_check_is_refused_without_an_index(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    wound(blocks(tmp_path)[2], 20)
    (tmp_path / "index").unlink()

    with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
        reopen(tmp_path)


def test_a_header_that_does_not_check_is_restored_from_the_index(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    wound(blocks(tmp_path)[-1], 20)
    leave(tmp_path, boot_id=OTHER_BOOT)

    with reopen(tmp_path) as log:
        assert numbers(log) == list(range(COUNT))


def test_a_header_of_another_place_is_not_believed(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    first, second = blocks(tmp_path)[:2]
    header = first.read_bytes()[:200]
    wound(second, 0, header)
    (tmp_path / "index").unlink()

    with pytest.raises(CorruptRecord, match="the header of the block does not match its checksum"):
        reopen(tmp_path)


def test_all_blocks_missing_is_refused(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    for file in blocks(tmp_path):
        file.unlink()
    leave(tmp_path, boot_id=OTHER_BOOT)

    with pytest.raises(CorruptRecord, match=r"the block is missing|14 were on disk"):
        reopen(tmp_path)


# --- Bytes behind the end of a closed log ---


def test_bytes_past_the_end_of_a_closed_log_are_cleared(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(body(0))
        end = log.inspect().blocks[0].end_offset
    wound(blocks(tmp_path)[0], end, b"\x55" * 300)

    with quick_log(tmp_path) as log:
        assert log.recovery is not None
        assert log.recovery.cut_bytes == 300
        log.append(body(1))
        assert numbers(log) == [0, 1]

    # One such byte may be in a checksum, a row of them cannot.
    assert b"\x55" * 8 not in blocks(tmp_path)[0].read_bytes()


def test_a_closed_log_whose_last_block_was_cut_is_refused(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(body(0))
        log.append(body(1))
        end = log.inspect().blocks[0].end_offset
    os.truncate(blocks(tmp_path)[0], end - 1)

    with pytest.raises(CorruptRecord, match="the log ends at message 1; 2 were on disk"):
        quick_log(tmp_path)


# --- Repair ---


def test_repairing_a_whole_log_changes_nothing_in_it(tmp_path: Path, version: int) -> None:
    fill(tmp_path, version)
    before = [file.read_bytes() for file in blocks(tmp_path)]

    with reopen(tmp_path, repair=True) as log:
        assert log.recovery is not None
        assert (log.recovery.message_count, log.recovery.cut_bytes, log.recovery.removed_paths) == (COUNT, 0, ())
        assert numbers(log) == list(range(COUNT))
        assert (log.flag, log.extension) == (7, {"topic": "orders"})

    assert [file.read_bytes() for file in blocks(tmp_path)] == before


@pytest.mark.parametrize("number", [0, 4, 13])
def test_a_repair_cuts_at_the_first_damage_and_puts_later_blocks_aside(tmp_path: Path, number: int) -> None:
    fill(tmp_path, 2)
    place = offset_of(tmp_path, number)
    file = max((file for file in blocks(tmp_path) if int(file.stem) <= place), key=lambda file: int(file.stem))
    wound(file, place - int(file.stem) + 500)
    later = {str(each): each.read_bytes() for each in blocks(tmp_path) if int(each.stem) > place}

    with reopen(tmp_path, repair=True) as log:
        report = log.recovery
        assert report is not None
        assert (report.message_count, report.cut_path) == (number, str(file))
        assert list(report.removed_paths) == list(later)
        assert {path: Path(path + ".cut").read_bytes() for path in later} == later
        assert numbers(log) == list(range(number))
        assert log.append(body(number)).number == number
        log.verify()


# --- The size of the index ---


@pytest.mark.parametrize(("count_max", "slots"), [(1, 8), (2, 8), (3, 6), (64, 64)])
def test_a_rebuilt_index_has_slots_for_every_block(tmp_path: Path, version: int, count_max: int, slots: int) -> None:
    fill(tmp_path, version)
    (tmp_path / "index").unlink()

    with quick_log(tmp_path, block_size=BLOCK_SIZE, max_block_count=count_max) as log:
        assert log.inspect().max_block_count == slots
        assert len(log.inspect().blocks) == 5


def test_a_rebuilt_index_is_not_smaller_than_the_old_one(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, max_block_count=20) as log:
        log.append(body(0))
    leave(tmp_path, writing=DEAD)

    with quick_log(tmp_path, max_block_count=4) as log:
        assert log.recovery is not None
        assert log.inspect().max_block_count == 20
