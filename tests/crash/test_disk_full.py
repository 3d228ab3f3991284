"""A disk without room, and a disk that refuses to sync: the put fails, and earlier promises still hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.support.moody_filesystem import MoodyFileSystem
from tests.support.simulated_disk import SimulatedFile, SimulatedFileSystem
from warren.errors import LogClosed, StorageFull, SyncFailed
from warren.storage import Log
from warren.storage.disk.block import end_of_block
from warren.storage.format.versions import FORMATS

BLOCK_SIZE: Final = 16 << 10
ROOM: Final = 100 << 10
MOUNT_SIZE: Final = 1 << 20
TIMEOUT_S: Final = 60

Append = Callable[[Log, bytes], object]
APPENDS: Final[list[Append]] = [
    lambda log, body: log.append(body),
    lambda log, body: log.append_many([body] * 3),
]


def _open(disk: SimulatedFileSystem, **options: Any) -> Log:
    return Log.open("/log", filesystem=disk, block_size=BLOCK_SIZE, max_block_count=2, **options)


def _bodies(log: Log) -> list[bytes]:
    return [message.body for message in log.read(log.first, limit=100_000)]


def _fill(log: Log, append: Append, repeats: int = 40) -> None:
    """Appends until there is no room."""
    for number in range(100_000):
        append(log, b"%d" % number * repeats)


# --- No room ---


@pytest.mark.parametrize("append", APPENDS)
@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("room", range(8 << 10, 60 << 10, 4 << 10))
def test_a_full_disk_fails_the_put_and_changes_nothing(append: Append, durability: str, room: int) -> None:
    disk = SimulatedFileSystem(seed=room)
    with _open(disk, durability=durability) as log:
        log.append(b"first")
        disk.size_max = ROOM + room
        with pytest.raises(StorageFull):
            _fill(log, append)
        end, before = log.end, _bodies(log)

        with pytest.raises(StorageFull):
            append(log, bytes(BLOCK_SIZE // 4))

        assert log.end == end
        assert _bodies(log) == before
        log.verify()


@pytest.mark.parametrize("append", APPENDS)
@pytest.mark.parametrize("seed", range(20))
def test_writing_continues_when_there_is_room_again(append: Append, seed: int) -> None:
    disk = SimulatedFileSystem(seed=seed, size_max=ROOM + seed * 1000)
    log = _open(disk)
    with pytest.raises(StorageFull):
        _fill(log, append)
    before = _bodies(log)
    disk.size_max = None

    append(log, b"more")

    count = len(_bodies(log)) - len(before)
    assert _bodies(log) == before + [b"more"] * count
    assert count in (1, 3)
    del log
    with _open(disk.after_power_cut(seed)) as recovered:
        assert _bodies(recovered) == before + [b"more"] * count
        recovered.verify()


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("seed", range(20))
def test_an_append_without_room_for_the_next_block_does_not_change_the_last_one(seed: int, durability: str) -> None:
    """A writer in another process considers a log with the same end unchanged, and continues in its old block."""
    disk = SimulatedFileSystem(seed=seed)
    log, other = (_open(disk, durability=durability) for _ in range(2))
    bodies = [b"%d" % number * 1000 for number in range(2 + seed % 9)]
    for body in bodies:
        other.append(body)
    disk.size_max = BLOCK_SIZE // 4 + sum(
        disk.open(f"/log/{name}", writable=False).size() for name in disk.names("/log")
    )
    with pytest.raises(StorageFull):
        log.append(bytes(BLOCK_SIZE - 2000))

    for writer in (log, other) if seed % 2 else (other, log):
        bodies.append(b"small")
        writer.append(b"small")

    assert _bodies(log) == _bodies(other) == bodies
    log.verify()
    disk.size_max = None
    for survivor in (disk.after_process_kill(), disk.after_power_cut(seed)):
        with _open(survivor) as recovered:
            assert _bodies(recovered) == bodies[: recovered.end]
            assert durability == "os" or recovered.end == len(bodies)
            recovered.verify()


def test_a_block_that_cannot_be_ended_leaves_no_next_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that copies on write may have no room for the word that ends a block."""
    disk, write = SimulatedFileSystem(), SimulatedFile.write

    def write_no_end(file: SimulatedFile, position: int, data: bytes | memoryview) -> None:
        if data == end_of_block(FORMATS[2]):
            raise StorageFull(file.path, len(data))
        write(file, position, data)

    with _open(disk, durability="os") as log:
        log.append(bytes(3000))
        with monkeypatch.context() as patched:
            patched.setattr(SimulatedFile, "write", write_no_end)
            with pytest.raises(StorageFull):
                log.append(bytes(BLOCK_SIZE - 2000))
        assert [name for name in disk.names("/log") if name.endswith(".block")] == ["00000000000000000000.block"]

        log.append(b"small")
        log.append(bytes(BLOCK_SIZE - 2000))

        assert _bodies(log) == [bytes(3000), b"small", bytes(BLOCK_SIZE - 2000)]


def test_a_message_is_visible_although_the_index_grew_for_a_block_without_room() -> None:
    disk = SimulatedFileSystem()
    options = {"filesystem": disk, "durability": "os", "block_size": BLOCK_SIZE}
    log = Log.open("/log", max_block_count=1, exclusive=True, **options)  # type: ignore[arg-type]
    log.append(bytes(3000))
    disk.size_max = 2 * BLOCK_SIZE
    with pytest.raises(StorageFull):
        log.append(bytes(BLOCK_SIZE - 2000))

    log.append(b"small")

    with Log.open("/log", read_only=True, filesystem=disk) as other:
        assert _bodies(other) == [bytes(3000), b"small"]


@pytest.mark.parametrize("seed", range(20))
def test_retiring_makes_room(seed: int) -> None:
    disk = SimulatedFileSystem(seed=seed, size_max=2 * ROOM)
    with _open(disk) as log:
        with pytest.raises(StorageFull):
            _fill(log, APPENDS[0])
        end = log.end

        log.retire(before=end)
        receipt = log.append(b"more")

        assert receipt.number == end
        assert log.read(end)[0].body == b"more"


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_on_a_full_disk_loses_nothing_acknowledged(seed: int) -> None:
    disk = SimulatedFileSystem(seed=seed, size_max=ROOM + Random(seed).randrange(ROOM))
    log = _open(disk)
    with pytest.raises(StorageFull):
        _fill(log, APPENDS[seed % 2])
    before = _bodies(log)
    del log

    disk = disk.after_power_cut(seed) if seed % 4 else disk.after_process_kill(seed)
    disk.size_max = None

    with _open(disk) as recovered:
        assert _bodies(recovered) == before
        recovered.verify()
        recovered.append(b"more")


def test_a_log_that_finds_no_room_at_all_is_made_later() -> None:
    disk = SimulatedFileSystem(size_max=100)
    with pytest.raises(StorageFull):
        _open(disk).append(b"first")
    disk.size_max = None

    with _open(disk) as log:
        log.append(b"first")

        assert _bodies(log) == [b"first"]


@pytest.fixture(params=["tmpfs", "ext4"])
def small_mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A real file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system; the simulated disk is tested above")
    place, image = tmp_path / "mount", tmp_path / "image"
    place.mkdir()
    if request.param == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={MOUNT_SIZE}", "tmpfs", str(place)]
    else:
        if not shutil.which("mkfs.ext4"):
            pytest.skip("mkfs.ext4 is not installed; tmpfs is tested as well")
        image.write_bytes(bytes(4 * MOUNT_SIZE))
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)], check=True, timeout=TIMEOUT_S)
        command = ["mount", "-o", "loop", str(image), str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine does not mount {request.param}: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize("append", APPENDS)
def test_a_real_full_disk_fails_the_put_and_changes_nothing(small_mount: Path, append: Append) -> None:
    ballast = small_mount / "ballast"
    ballast.write_bytes(bytes(MOUNT_SIZE // 4))
    with Log.open(str(small_mount / "log"), block_size=128 << 10) as log:
        with pytest.raises(StorageFull):
            _fill(log, append, repeats=2000)
        end, before = log.end, _bodies(log)
        with pytest.raises(StorageFull):
            append(log, bytes(40 << 10))
        assert (log.end, _bodies(log)) == (end, before)
        log.verify()

        ballast.unlink()
        append(log, b"more")

        assert log.end > end
        assert set(_bodies(log)[end:]) == {b"more"}
        log.verify()
    with Log.open(str(small_mount / "log"), read_only=True) as log:
        assert _bodies(log)[:end] == before


# --- Syncs that fail ---


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("append", APPENDS)
@pytest.mark.parametrize("seed", range(30))
def test_after_a_failed_sync_nothing_is_acknowledged_until_the_log_is_reopened(
    seed: int, append: Append, evicts: bool
) -> None:
    disk = SimulatedFileSystem(seed=seed)
    log = _open(disk)
    disk.fail_sync(nth=1 + seed)
    acknowledged = _append_until_sync_fails(log, append)
    with pytest.raises(LogClosed):
        append(log, b"refused")
    assert _bodies(log) == acknowledged, "what was not acknowledged is not published"
    log.close()
    if evicts:
        disk.evict()

    with _open(disk) as reopened:
        bodies = _bodies(reopened)
        append(reopened, b"more")
        found_later = _bodies(reopened)
        reopened.verify()

    assert bodies[: len(acknowledged)] == acknowledged
    assert b"refused" not in found_later
    # The kernel considers the pages of the failed sync clean; a process that relies on them must write them again
    # first.
    for cut in range(20):
        with _open(disk.after_power_cut(cut)) as recovered:
            assert _bodies(recovered) == found_later


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_a_sync_that_failed_in_the_background_does_not_undermine_a_later_commit(seed: int, evicts: bool) -> None:
    disk = SimulatedFileSystem(seed=seed)
    log = _open(disk, durability="interval:50ms")
    disk.fail_sync(nth=3 + seed)
    with pytest.raises((LogClosed, SyncFailed)):
        _fill(log, APPENDS[0], repeats=300)
    log.close()
    if evicts:
        disk.evict()

    with _open(disk, durability="commit") as reopened:
        reopened.append(b"more")
        bodies = _bodies(reopened)

    for cut in range(20):
        with _open(disk.after_power_cut(cut)) as recovered:
            assert _bodies(recovered) == bodies


def _append_until_sync_fails(log: Log, append: Append) -> list[bytes]:
    """Returns the messages that were acknowledged before."""
    acknowledged: list[bytes] = []
    for number in range(10_000):
        try:
            append(log, b"%d" % number * 90)
        except SyncFailed:
            return acknowledged
        acknowledged = _bodies(log)
    raise AssertionError("no sync failed")


def test_every_put_that_waited_for_a_failed_sync_fails(tmp_path: Path) -> None:
    disk = MoodyFileSystem()
    log = Log.open(str(tmp_path / "log"), filesystem=disk)
    log.append(b"before")
    outcomes: dict[int, BaseException | None] = {}
    threads = [threading.Thread(target=_try_append, args=(log, number, outcomes)) for number in range(8)]
    disk.gate.clear()
    while disk.syncs_waiting.acquire(blocking=False):
        pass
    for thread in threads:
        thread.start()
    assert disk.syncs_waiting.acquire(timeout=TIMEOUT_S)

    disk.fails = True
    disk.gate.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    disk.fails = False

    assert len(outcomes) == len(threads)
    assert {type(error) for error in outcomes.values()} <= {SyncFailed, LogClosed}
    assert any(isinstance(error, SyncFailed) for error in outcomes.values())
    assert _bodies(log) == [b"before"]
    with pytest.raises(LogClosed):
        log.append(b"refused")
    log.close()
    with Log.open(str(tmp_path / "log"), filesystem=disk) as reopened:
        reopened.append(b"after")
        assert _bodies(reopened)[0] == b"before"
        assert _bodies(reopened)[-1] == b"after"


def _try_append(log: Log, number: int, outcomes: dict[int, BaseException | None]) -> None:
    try:
        log.append(b"%d" % number)
        outcomes[number] = None
    except (SyncFailed, LogClosed) as error:
        outcomes[number] = error
