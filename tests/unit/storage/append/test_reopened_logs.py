"""A log that closed itself after a failed sync is reopened: failed puts are removed, promised ones are on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WatchedDisk, quick_log
from tests.support.simulated_disk import SimulatedFileSystem
from warren.errors import LogClosed, SyncFailed
from warren.storage import Log
from warren.storage.disk.open_files import process_residents


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def failed_logs(path: Path) -> list[str]:
    return [log.directory for log in process_residents().failed if log.directory.startswith(str(path))]


def bodies(log: Log) -> list[bytes]:
    return [message.body for message in log.read(0)]


def test_a_reopened_log_accepts_puts_and_failed_ones_are_not_there(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    with quick_log(tmp_path, version=version, durability="commit", filesystem=disk) as log:
        log.append(b"before")
        disk.fails = True
        with pytest.raises(SyncFailed):
            log.append(b"lost")
        with pytest.raises(LogClosed):
            log.append(b"refused")
        failed = failed_logs(tmp_path)
        with pytest.raises(SyncFailed):
            log.reopen()
        still_failed = failed_logs(tmp_path)

        disk.fails = False
        log.reopen()
        log.reopen()

        assert (failed, still_failed, failed_logs(tmp_path)) == ([str(tmp_path)], [str(tmp_path)], [])
        assert log.append(b"after").number == 1
        assert bodies(log) == [b"before", b"after"]


def test_a_log_that_was_closed_is_not_reopened(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, durability="commit", filesystem=disk)
    log.append(b"before")
    disk.fails = True
    with pytest.raises(SyncFailed):
        log.append(b"lost")
    disk.fails = False
    log.close()

    log.reopen()

    assert failed_logs(tmp_path) == []
    with pytest.raises(LogClosed):
        log.append(b"refused")


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("durability", ["commit", "os"])
def test_messages_acknowledged_after_a_reopening_survive_a_power_cut(durability: str, nth: int) -> None:
    """The system considers pages clean after a failed sync: data that a later sync promises must be stored again."""
    disk = SimulatedFileSystem(seed=nth)
    log = Log.open("/log", durability=durability, filesystem=disk)
    acknowledged: list[bytes] = []

    def put(body: bytes) -> None:
        log.append(body)
        log.sync()
        acknowledged.append(body)

    put(b"first")
    disk.fail_sync(nth)
    for number in range(8):
        try:
            put(b"%d" % number)
        except (SyncFailed, LogClosed):
            try:
                log.reopen()
            except SyncFailed:
                continue
    put(b"last")
    promised = bodies(log)

    with Log.open("/log", filesystem=disk.after_power_cut(nth)) as survivor:
        assert bodies(survivor) == promised
        assert set(acknowledged) <= set(promised)


@pytest.mark.parametrize("seed", range(10))
def test_after_a_failed_sync_another_process_writes_the_pages_again_that_the_system_calls_clean(seed: int) -> None:
    """The index is marked: the other process has noticed no failure of its own, and syncing alone
    would write nothing.
    """
    disk = SimulatedFileSystem(seed=seed)
    log, other = (Log.open("/log", filesystem=disk, durability="os") for _ in range(2))
    log.append(b"published")
    disk.fail_sync()
    with pytest.raises(SyncFailed):
        log.sync()

    other.append(b"more")
    other.sync()

    with Log.open("/log", filesystem=disk.after_power_cut(seed)) as survivor:
        assert bodies(survivor) == [b"published", b"more"]
