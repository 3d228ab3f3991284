"""The simulated disk loses what a real one may lose, and nothing else. Each loss is seen to happen."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.line_cutter import ENGINE_DIRECTORY, UNWATCHED, LineCutter
from tests.support.simulated_disk import PowerCut, SimulatedFile, SimulatedFileSystem
from tests.support.volatile import PAGE_SIZE, SECTOR_SIZE
from warren.errors import StorageFull, SyncFailed
from warren.storage.disk.filesystem import FileSystem

SEEDS = range(200)
OLD, NEW = b"o", b"n"


def _disk_with_file(content: bytes = b"", **options: int) -> tuple[SimulatedFileSystem, SimulatedFile]:
    """A disk on which `content` is durable in `/log/file`."""
    disk = SimulatedFileSystem(**options)
    disk.make_directory("/log")
    file = disk.open("/log/file", writable=True, create=True)
    if content:
        file.write(0, content)
    file.sync()
    disk.sync_directory("/log")
    return disk, file


def _after_cuts(disk: SimulatedFileSystem, path: str = "/log/file") -> Iterator[bytes | None]:
    """Returns the file after each of many cuts at this moment; None if it does not exist."""
    for seed in SEEDS:
        yield _content(disk.after_power_cut(seed), path)


def _content(disk: SimulatedFileSystem, path: str = "/log/file") -> bytes | None:
    if not disk.exists(path):
        return None
    file = disk.open(path, writable=False)
    return file.read(0, file.size())


def _pages(content: bytes) -> list[bytes]:
    return [content[start : start + PAGE_SIZE] for start in range(0, len(content), PAGE_SIZE)]


def test_the_simulated_disk_fulfils_the_contract_of_the_file_system() -> None:
    disk: FileSystem = SimulatedFileSystem()

    assert disk.names("/") == []


def test_synced_bytes_survive_every_cut() -> None:
    disk, _ = _disk_with_file(OLD * 3 * PAGE_SIZE)

    assert set(_after_cuts(disk)) == {OLD * 3 * PAGE_SIZE}


def test_a_later_page_survives_while_an_earlier_one_is_lost() -> None:
    disk, file = _disk_with_file(OLD * 2 * PAGE_SIZE)
    file.map(2 * PAGE_SIZE, writable=True)[: 2 * PAGE_SIZE] = NEW * 2 * PAGE_SIZE

    survivors = set(_after_cuts(disk))

    assert OLD * PAGE_SIZE + NEW * PAGE_SIZE in survivors
    assert NEW * PAGE_SIZE + OLD * PAGE_SIZE in survivors
    assert {OLD * 2 * PAGE_SIZE, NEW * 2 * PAGE_SIZE} <= survivors


def test_a_page_is_torn_at_sectors_and_nowhere_else() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)

    survivors = [content or b"" for content in _after_cuts(disk)]

    sectors = [
        content[start : start + SECTOR_SIZE] for content in survivors for start in range(0, PAGE_SIZE, SECTOR_SIZE)
    ]
    assert {OLD * SECTOR_SIZE, NEW * SECTOR_SIZE} == set(sectors)
    assert any(len(set(content)) == 2 for content in survivors)


def test_a_page_may_be_durable_at_a_state_in_between() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, b"between".ljust(PAGE_SIZE, b"-"))
    disk.write_back()
    file.write(0, NEW * PAGE_SIZE)

    assert b"between".ljust(PAGE_SIZE, b"-") in set(_after_cuts(disk))
    assert OLD * PAGE_SIZE not in set(_after_cuts(disk))


def test_pages_are_written_back_without_a_sync() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)

    for _ in range(500):
        file.read(0, 1)

    assert set(_after_cuts(disk)) == {NEW * PAGE_SIZE}


@pytest.mark.parametrize(
    ("change", "length"),
    [
        (lambda file: file.truncate(100), 100),
        (lambda file: file.preallocate(5 * PAGE_SIZE), 5 * PAGE_SIZE),
        (lambda file: file.write(2 * PAGE_SIZE, b"x"), 2 * PAGE_SIZE + 1),
    ],
)
def test_a_length_is_volatile_until_the_file_is_synced(change: Callable[[SimulatedFile], None], length: int) -> None:
    disk, file = _disk_with_file(OLD * 2 * PAGE_SIZE)

    change(file)
    lengths_before = {len(content or b"") for content in _after_cuts(disk)}
    file.sync()
    lengths_after = {len(content or b"") for content in _after_cuts(disk)}

    assert lengths_before == {2 * PAGE_SIZE, length}
    assert lengths_after == {length}


def test_the_bytes_after_a_lost_truncate_come_back() -> None:
    disk, file = _disk_with_file(OLD * 2 * PAGE_SIZE)
    file.truncate(PAGE_SIZE)

    assert {OLD * PAGE_SIZE, OLD * 2 * PAGE_SIZE} == set(_after_cuts(disk))


def test_a_file_cut_and_grown_again_holds_zeros() -> None:
    disk, file = _disk_with_file(OLD * 2 * PAGE_SIZE)
    file.truncate(PAGE_SIZE)
    file.preallocate(2 * PAGE_SIZE)
    file.sync()

    assert set(_after_cuts(disk)) == {OLD * PAGE_SIZE + bytes(PAGE_SIZE)}


def test_preallocated_space_that_was_not_written_holds_zeros() -> None:
    _, file = _disk_with_file()
    file.preallocate(2 * PAGE_SIZE)

    assert file.read(0, 2 * PAGE_SIZE) == bytes(2 * PAGE_SIZE)


def test_a_new_name_is_volatile_until_its_directory_is_synced() -> None:
    disk, _ = _disk_with_file()
    disk.open("/log/new", writable=True, create=True).sync()

    assert set(_after_cuts(disk, "/log/new")) == {None, b""}
    disk.sync_directory("/log")
    assert set(_after_cuts(disk, "/log/new")) == {b""}


def test_the_bytes_of_a_lost_file_are_lost_though_they_were_synced() -> None:
    disk, _ = _disk_with_file()
    new = disk.open("/log/new", writable=True, create=True)
    new.write(0, NEW)
    new.sync()

    assert set(_after_cuts(disk, "/log/new")) == {None, NEW}


def test_a_removed_file_comes_back_until_its_directory_is_synced() -> None:
    disk, _ = _disk_with_file(OLD)
    disk.remove("/log/file")

    assert not disk.exists("/log/file")
    assert set(_after_cuts(disk)) == {None, OLD}
    disk.sync_directory("/log")
    assert set(_after_cuts(disk)) == {None}


def test_names_survive_each_on_their_own() -> None:
    disk, _ = _disk_with_file()
    for name in "ab":
        disk.open(f"/log/{name}", writable=True, create=True)

    listings = {tuple(disk.after_power_cut(seed).names("/log")) for seed in SEEDS}

    assert listings == {("file",), ("a", "file"), ("b", "file"), ("a", "b", "file")}


def test_a_replace_leaves_the_old_file_or_the_new_one() -> None:
    disk, _ = _disk_with_file(OLD)
    new = disk.open("/log/new", writable=True, create=True)
    new.write(0, NEW)
    new.sync()
    disk.sync_directory("/log")
    disk.replace("/log/new", "/log/file")

    listings = {(_content(cut), _content(cut, "/log/new")) for cut in map(disk.after_power_cut, SEEDS)}

    assert _content(disk) == NEW
    assert listings == {(OLD, NEW), (NEW, None)}


def test_a_replace_by_a_file_that_was_not_synced_may_leave_an_empty_one() -> None:
    disk, _ = _disk_with_file(OLD)
    disk.open("/log/new", writable=True, create=True).write(0, NEW)
    disk.replace("/log/new", "/log/file")

    assert b"" in set(_after_cuts(disk))


def test_the_same_seed_loses_the_same_bytes() -> None:
    disk, file = _disk_with_file(OLD * 8 * PAGE_SIZE)
    file.write(0, NEW * 8 * PAGE_SIZE)

    assert list(_after_cuts(disk)) == list(_after_cuts(disk))


def test_a_cut_frees_the_locks_and_changes_the_boot_id() -> None:
    disk, _ = _disk_with_file()
    lock = disk.lock("/log/writer.lock")
    assert lock.try_acquire()
    assert not disk.lock("/log/writer.lock").try_acquire()

    cut, killed = disk.after_power_cut(1), disk.after_process_kill()

    assert cut.lock("/log/writer.lock").try_acquire()
    assert cut.boot_id() != disk.boot_id()
    assert killed.lock("/log/writer.lock").try_acquire()
    assert killed.boot_id() == disk.boot_id()


def test_unsynced_bytes_can_be_lost_without_a_restart() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)
    file.vouch()
    other = disk.open(file.path, writable=True)
    assert (file.is_vouched(), other.is_vouched()) == (False, True)

    lost = [disk.after_power_cut(seed, same_boot=True) for seed in SEEDS]

    assert {cut.boot_id() for cut in lost} == {disk.boot_id()}
    assert not any(cut.open(file.path, writable=True).is_vouched() for cut in lost)
    assert {_content(cut) for cut in lost} == set(_after_cuts(disk))


def test_a_lock_names_its_holder_and_is_free_after_release() -> None:
    disk, _ = _disk_with_file()
    first, second = disk.lock("/log/writer.lock"), disk.lock("/log/writer.lock")
    assert first.try_acquire()
    first.note_holder(42)

    assert second.holder() == 42
    first.release()
    assert second.try_acquire()


def test_a_killed_process_loses_nothing_and_makes_nothing_durable() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)

    killed = disk.after_process_kill()
    file.write(0, b"later".ljust(PAGE_SIZE))

    assert _content(killed) == NEW * PAGE_SIZE
    assert OLD * PAGE_SIZE in set(_after_cuts(killed))


def test_a_failed_sync_makes_its_pages_clean_though_they_are_not_durable() -> None:
    disk, file = _disk_with_file(OLD * 2 * PAGE_SIZE)
    file.write(0, NEW * 2 * PAGE_SIZE)
    disk.fail_sync()
    with pytest.raises(SyncFailed):
        file.sync()
    file.write(PAGE_SIZE, b"again")

    file.sync()

    survivors = [_pages(content or b"") for content in _after_cuts(disk)]
    assert OLD * PAGE_SIZE in {first for first, _ in survivors}
    assert {second for _, second in survivors} == {b"again".ljust(PAGE_SIZE, NEW)}


def test_writing_the_same_bytes_again_makes_a_page_dirty() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)
    disk.fail_sync()
    with pytest.raises(SyncFailed):
        file.sync()

    file.write(0, NEW * PAGE_SIZE)
    file.sync()

    assert set(_after_cuts(disk)) == {NEW * PAGE_SIZE}


def test_pages_of_a_failed_sync_may_be_read_back_as_they_were_before() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    file.write(0, NEW * PAGE_SIZE)
    disk.fail_sync()
    with pytest.raises(SyncFailed):
        file.sync()

    disk.evict()

    assert _content(disk) == OLD * PAGE_SIZE


def test_only_the_named_sync_fails() -> None:
    disk, file = _disk_with_file(OLD)
    disk.fail_sync(nth=2)

    file.sync()
    with pytest.raises(SyncFailed):
        file.sync()
    file.sync()


def test_a_full_disk_raises_and_keeps_its_content() -> None:
    _, file = _disk_with_file(OLD * PAGE_SIZE, size_max=2 * PAGE_SIZE)

    with pytest.raises(StorageFull):
        file.preallocate(10 * PAGE_SIZE)
    with pytest.raises(StorageFull):
        file.write(PAGE_SIZE, NEW * 2 * PAGE_SIZE)

    assert file.read(0, PAGE_SIZE) == OLD * PAGE_SIZE
    file.write(0, NEW * 2 * PAGE_SIZE)


def test_removing_a_file_makes_room() -> None:
    disk, _ = _disk_with_file(OLD * PAGE_SIZE, size_max=PAGE_SIZE)
    disk.remove("/log/file")

    other = disk.open("/log/other", writable=True, create=True)
    other.preallocate(PAGE_SIZE)

    assert other.size() == PAGE_SIZE


def test_a_map_is_the_file_itself() -> None:
    disk, file = _disk_with_file(OLD * PAGE_SIZE)
    view = disk.open("/log/file", writable=False).map(PAGE_SIZE, writable=False)

    file.write(0, NEW)

    assert view[:2] == NEW + OLD


def test_a_mapped_write_past_the_end_is_noticed() -> None:
    _, file = _disk_with_file(OLD * 100)
    file.map(100, writable=True)[100] = 1

    with pytest.raises(AssertionError, match="SIGBUS"):
        file.sync()


def test_misuse_fails_as_it_does_on_a_real_disk() -> None:
    disk, file = _disk_with_file(OLD * 100)
    for_reading = disk.open("/log/file", writable=False)

    with pytest.raises(ValueError, match="map"):
        file.map(101, writable=True)
    with pytest.raises(PermissionError):
        for_reading.map(100, writable=True)
    with pytest.raises(OSError, match="reading"):
        for_reading.write(0, NEW)
    with pytest.raises(FileNotFoundError):
        disk.open("/log/missing", writable=True)
    with pytest.raises(FileNotFoundError):
        disk.names("/missing")
    with pytest.raises(OSError) as caught:  # noqa: PT011 the number is checked below
        file.preallocate(100)
    assert caught.value.errno == errno.EINVAL


def test_a_cut_at_a_call_happens_before_the_call() -> None:
    disk, file = _disk_with_file(OLD)
    disk.cut_at_call = disk.calls + 2

    file.write(0, b"1")
    with pytest.raises(PowerCut):
        file.write(0, b"2")

    assert disk.is_cut
    assert _content(disk.after_process_kill()) == b"1"


def test_calls_after_the_cut_change_nothing() -> None:
    disk, file = _disk_with_file(OLD)
    view = file.map(1, writable=True)

    with pytest.raises(PowerCut):
        disk.cut()
    view[:1] = NEW
    with pytest.raises(PowerCut):
        file.sync()

    assert _content(disk.after_process_kill()) == OLD
    assert set(_after_cuts(disk)) == {OLD}


def test_a_line_cutter_cuts_between_any_two_lines() -> None:
    contents = set()
    for line in range(1, 5):
        disk, file = _disk_with_file(bytes(3))
        view = file.map(3, writable=True)
        with pytest.raises(PowerCut), LineCutter(disk, line, directory=__file__):
            _three_stores(view)
        contents.add(_content(disk.after_process_kill()))

    assert contents == {bytes([0, 0, 0]), bytes([1, 0, 0]), bytes([1, 1, 0]), bytes([1, 1, 1])}


def test_a_line_cutter_cuts_in_the_midst_of_a_store() -> None:
    contents = set()
    for seed in SEEDS:
        disk, file = _disk_with_file(OLD * 24, seed=seed)
        view = file.map(24, writable=True)
        with pytest.raises(PowerCut), LineCutter(disk, 2, directory=__file__):
            _one_long_store(view)
        contents.add(_content(disk.after_process_kill()))

    assert contents == {NEW * 24, OLD * 24, NEW * 8 + OLD * 16, NEW * 16 + OLD * 8}


def test_a_line_cutter_without_a_line_counts_and_does_not_cut() -> None:
    disk, _ = _disk_with_file()

    with LineCutter(disk, None, directory=__file__) as cutter:
        _three_stores(bytearray(3))

    assert cutter.lines == 4
    assert not disk.is_cut


def _one_long_store(view: mmap.mmap) -> int:
    view[:24] = NEW * 24
    return 24


def _three_stores(view: bytearray | object) -> int:
    view[0] = 1  # type: ignore[index]
    view[1] = 1  # type: ignore[index]
    view[2] = 1  # type: ignore[index]
    return 3


def test_every_module_that_a_line_cutter_leaves_out_exists() -> None:
    names = {path.name for path in Path(ENGINE_DIRECTORY).rglob("*.py")}

    assert sorted(UNWATCHED - names) == []
