"""Durability: what is synced when, and that no reader sees a message before it is as durable as requested."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WaitingJobs, WatchedDisk, quick_log
from tests.support.patience import until
from tests.support.simulated_disk import SimulatedFileSystem
from warren.errors import BadInput, LogClosed, SyncFailed
from warren.storage import Log
from warren.storage.append.durability import Durability

SUFFIXES = {1: "zbus", 2: "block"}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def first_block(version: int) -> str:
    return f"{0:020d}.{SUFFIXES[version]}"


def published(path: Path) -> int:
    """Returns MessageCount as it is in the index file right now."""
    data = (path / "index").read_bytes()
    place, order = (20, ">") if data[:4] == b"\0\0\0\1" else (24, "<")
    return int(struct.unpack_from(f"{order}Q", data, place)[0])


# --- Settings ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("commit", Durability("commit")),
        ("os", Durability("os")),
        ("interval:50ms", Durability("interval", 0.05)),
        ("interval:2s", Durability("interval", 2.0)),
        ("interval:0.5s", Durability("interval", 0.5)),
        ("interval:60s", Durability("interval", 60.0)),
        ("interval:1ms", Durability("interval", 0.001)),
    ],
)
def test_durability_is_parsed_from_words(text: str, expected: Durability) -> None:
    assert Durability.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Commit", "os ", "interval", "interval:", "interval:50", "interval:ms", "interval:-1s"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected 'commit', 'os' or 'interval:50ms'"):
        Durability.parse(text)


@pytest.mark.parametrize("text", ["interval:0s", "interval:0ms", "interval:60001ms", "interval:61s"])
def test_an_interval_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="the interval must be above 0 and at most 60 s"):
        Durability.parse(text)


def test_the_default_durability_is_commit(tmp_path: Path) -> None:
    disk = WatchedDisk()
    with Log.open(tmp_path, filesystem=disk) as log:
        log.append(b"one")

        assert log.inspect().synced == 1


# --- Commit ---


@pytest.mark.parametrize(
    "append", [lambda log: log.append(b"the body"), lambda log: log.append_many([b"the body", b"x"])]
)
def test_bytes_come_before_their_sync_and_the_sync_before_the_published_end(
    tmp_path: Path, version: int, append: Callable[[Log], object]
) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, durability="commit", filesystem=disk)
    log.append(b"before")
    syncs: list[tuple[str, bool, int, int]] = []
    disk.on_sync = lambda path: syncs.append(
        (Path(path).name, b"the body" in Path(path).read_bytes(), published(tmp_path), log.end)
    )
    disk.syncs.clear()

    append(log)

    assert syncs == [(first_block(version), True, 1, 1)]
    assert published(tmp_path) == log.end == log.inspect().synced > 1


@pytest.mark.parametrize("size", [10, 20_000])
def test_each_commit_is_one_sync(tmp_path: Path, version: int, size: int) -> None:
    disk = WatchedDisk()
    with quick_log(tmp_path, version=version, durability="commit", filesystem=disk, block_size=1 << 20) as log:
        log.append(b"first")
        disk.syncs.clear()

        for _ in range(10):
            log.append(bytes(size))

        assert disk.syncs == [first_block(version)] * 10


def test_a_roll_makes_the_new_block_durable_and_then_the_old_one_and_then_the_index(
    tmp_path: Path, version: int
) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path / "log", version=version, durability="commit", filesystem=disk, block_size=4096)
    for _ in range(3):
        log.append(bytes(1000))
    disk.syncs.clear()

    log.append(bytes(1000))

    new = Path(log.inspect().blocks[1].path).name
    assert disk.syncs == [new, "log/", first_block(version), "index", new]


def test_the_first_append_notes_durably_that_the_log_is_open(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version, durability="os") as log:
        log.append(b"one")
    disk = WatchedDisk()
    with quick_log(tmp_path, durability="os", filesystem=disk) as log:
        syncs: list[tuple[str, int]] = []
        disk.on_sync = lambda path: syncs.append((Path(path).name, published(tmp_path)))

        log.append(b"two")
        log.append(b"three")

        assert syncs == [("index", 1)]


def test_a_failed_sync_fails_the_put_and_closes_the_log_until_it_is_reopened(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, durability="commit", filesystem=disk)
    log.append(b"before")
    disk.fails = True

    with pytest.raises(SyncFailed, match=r"could not be synced .* closed for writing until it is reopened") as failed:
        log.append(b"lost")

    disk.fails = False
    assert failed.value.path.endswith(first_block(version))
    for _ in range(2):
        with pytest.raises(LogClosed, match="until it is reopened"):
            log.append(b"refused")
    with pytest.raises(LogClosed):
        log.append_many([b"refused"])
    with pytest.raises(LogClosed):
        log.flag = 1
    assert (log.end, [message.body for message in log.read(0)]) == (1, [b"before"])
    log.close()
    with quick_log(tmp_path, filesystem=disk) as reopened:
        assert reopened.recovery is not None
        assert [message.body for message in reopened.read(0)] == [b"before"]
        assert reopened.append(b"after").number == 1


def test_a_sync_that_fails_while_the_log_is_closed_raises(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, filesystem=disk)
    log.append(b"one")
    disk.fails = True

    with pytest.raises(SyncFailed):
        log.close()

    disk.fails = False
    with quick_log(tmp_path) as reopened:
        assert reopened.recovery is not None
        assert reopened.end == 1


def test_a_sync_that_fails_before_the_first_append_closes_the_log(tmp_path: Path, version: int) -> None:
    quick_log(tmp_path, version=version).close()
    disk = WatchedDisk()
    log = quick_log(tmp_path, filesystem=disk)
    disk.fails = True
    with pytest.raises(SyncFailed):
        log.append(b"one")
    disk.fails = False

    with pytest.raises(LogClosed):
        log.append(b"two")

    assert log.end == 0


# --- Interval ---


def test_an_interval_schedules_one_sync_for_all_puts_in_it(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs)
    log.append(b"first")
    jobs.run()
    disk.syncs.clear()

    for _ in range(5):
        log.append(b"one")
    log.append_many([b"two", b"three"])
    assert (disk.syncs, log.end, log.inspect().synced) == ([], 8, 1)
    assert [delay_s for delay_s, _ in jobs.waiting] == [0.05]
    jobs.run()

    assert (disk.syncs, log.inspect().synced) == ([first_block(version)], 8)
    assert jobs.waiting == []
    log.append(b"later")
    assert len(jobs.waiting) == 1


def test_a_failed_sync_of_an_interval_closes_the_log(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs)
    log.append(b"one")
    disk.fails = True

    jobs.run()

    disk.fails = False
    assert log.inspect().synced == 0
    assert log.inspect().state == "a sync failed"
    for _ in range(2):
        with pytest.raises(LogClosed, match="could not be synced"):
            log.append(b"two")
    log.close()
    with quick_log(tmp_path) as reopened:
        assert reopened.recovery is not None
        assert reopened.end == 1


def test_a_sync_that_was_due_when_the_log_was_closed_does_nothing(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs)
    log.append(b"one")
    log.close()
    disk.syncs.clear()

    jobs.run()

    assert disk.syncs == []


@pytest.mark.parametrize("order", [1, -1])
def test_an_interval_never_promises_more_than_the_sealed_blocks_keep(tmp_path: Path, version: int, order: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    promised: list[tuple[str, int]] = []
    log = quick_log(
        tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs, block_size=4096
    )
    for _ in range(10):
        log.append(bytes(1000))
    names = [Path(block.path).name for block in log.inspect().blocks]
    ends = [block.end_number for block in log.inspect().blocks]
    disk.on_sync = lambda path: promised.append((Path(path).name, log.inspect().synced))

    jobs.waiting = jobs.waiting[::order]
    jobs.run()

    assert promised == [*zip(names, [0, *ends[:-1]], strict=True), ("index", 10)]
    assert log.inspect().synced == 10


def test_one_sealed_block_that_cannot_be_synced_holds_back_the_promise(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(
        tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs, block_size=4096
    )
    for _ in range(10):
        log.append(bytes(1000))
    second = Path(log.inspect().blocks[1].path).name

    def fail_second(path: str) -> None:
        if path.endswith(second):
            raise SyncFailed(path, "Input/output error")

    disk.on_sync = fail_second

    jobs.run()

    assert log.inspect().synced == log.inspect().blocks[0].end_number
    with pytest.raises(LogClosed):
        log.append(b"more")


def test_the_background_thread_syncs_an_interval(tmp_path: Path, version: int) -> None:
    with Log.open(tmp_path, version=version, durability="interval:10ms") as log:
        log.append(b"one")
        log.append(b"two")

        until(lambda: log.inspect().synced == 2)


# --- Os ---


def test_os_never_syncs_appended_messages(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, filesystem=disk, background=jobs)
    log.append(b"first")
    disk.syncs.clear()

    for _ in range(100):
        log.append(b"one")
    log.append_many([b"two"] * 100)

    assert (disk.syncs, jobs.waiting) == ([], [])
    assert (log.end, log.inspect().synced) == (201, 0)


def test_os_syncs_a_sealed_block_in_the_background(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, filesystem=disk, background=jobs, block_size=4096)
    for _ in range(4):
        log.append(bytes(1000))
    first, last = [Path(block.path).name for block in log.inspect().blocks]
    assert [delay_s for delay_s, _ in jobs.waiting] == [0.0]
    assert disk.syncs.count(first) == 1, "when it was made"
    disk.syncs.clear()

    jobs.run()

    assert disk.syncs == [first, "index"]
    assert log.inspect().synced == 3
    log.append(bytes(10))
    assert (jobs.waiting, last in disk.syncs) == ([], False)


@pytest.mark.parametrize("durability", ["os", "interval:50ms"])
def test_closing_syncs_the_sealed_blocks_that_still_wait_before_it_calls_the_log_clean(
    tmp_path: Path, version: int, durability: str
) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, durability=durability, filesystem=disk, background=jobs, block_size=4096)
    for _ in range(10):
        log.append(bytes(1000))
    names = [Path(block.path).name for block in log.inspect().blocks]
    disk.syncs.clear()

    log.close()

    assert disk.syncs == [*names, "index", "index"]


@pytest.mark.parametrize("durability", ["os", "interval:50ms"])
@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_was_closed_survives_a_power_cut_whole(durability: str, seed: int) -> None:
    disk, jobs = SimulatedFileSystem(seed=seed), WaitingJobs()
    with Log.open("/log", filesystem=disk, durability=durability, background=jobs, block_size=8192) as log:
        for number in range(20):
            log.append(b"%d" % number * 500)
        before = log.read(0)

    with Log.open("/log", filesystem=disk.after_power_cut(seed)) as log:
        assert log.read(0) == before
        assert log.recovery is None


# --- Syncs in the background ---


def test_a_waiting_reader_is_woken_after_the_sync(tmp_path: Path) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, durability="commit", filesystem=disk)
    log.append(b"first")
    waits: list[bool] = []
    disk.on_sync = lambda path: waits.append(log.wait(1, 0.0))

    log.append(b"second")

    assert waits == [False]
    assert log.wait(1, 0.0)


def test_closing_waits_for_a_sync_that_is_under_way(tmp_path: Path, version: int) -> None:
    disk, jobs = WatchedDisk(), WaitingJobs()
    log = quick_log(tmp_path, version=version, durability="interval:50ms", filesystem=disk, background=jobs)
    log.append(b"one")
    has_begun, may_end = threading.Event(), threading.Event()

    def block_once(path: str) -> None:
        disk.on_sync = lambda _: None
        has_begun.set()
        assert may_end.wait(10)

    disk.on_sync = block_once
    background = threading.Thread(target=jobs.run)
    background.start()
    assert has_begun.wait(10)
    closing = threading.Thread(target=log.close)
    closing.start()
    closing.join(0.05)

    assert closing.is_alive()
    may_end.set()
    closing.join(10)
    background.join(10)
    assert not closing.is_alive()
    with Log.open(tmp_path) as log:
        assert (log.recovery, log.read(0)[0].body) == (None, b"one")


# --- A sync that is asked for ---


@pytest.mark.parametrize("durability", ["os", "interval:60s"])
def test_a_sync_that_is_requested_makes_everything_durable_once(tmp_path: Path, version: int, durability: str) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, durability=durability, filesystem=disk, background=WaitingJobs())
    log.append(b"one")
    log.append(b"two")
    disk.syncs.clear()

    log.sync()
    log.sync()

    assert disk.syncs == [first_block(version)]
    assert log.inspect().synced == 2


def test_a_sync_that_is_requested_covers_blocks_that_were_sealed(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, block_size=4 << 10, filesystem=disk, background=WaitingJobs())
    while len(log.inspect().blocks) < 3:
        log.append(b"x" * 500)
    disk.syncs.clear()

    log.sync()

    assert [name for name in disk.syncs if name != "index"] == [
        Path(name).name for name in sorted(map(str, Path(log.path).glob("0*")))
    ]
    assert log.inspect().synced == log.end


def test_a_sync_of_an_empty_log_does_nothing(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)

    log.sync()

    assert log.end == 0


def test_records_that_another_process_appended_are_synced_too(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, filesystem=disk)
    other = quick_log(tmp_path, version=version)
    other.append(b"from the other")
    disk.syncs.clear()

    log.sync()

    assert first_block(version) in disk.syncs
    assert log.inspect().synced == 1


def test_a_sync_that_is_requested_and_fails_closes_the_log(tmp_path: Path, version: int) -> None:
    disk = WatchedDisk()
    log = quick_log(tmp_path, version=version, filesystem=disk)
    log.append(b"one")
    disk.fails = True

    with pytest.raises(SyncFailed):
        log.sync()

    disk.fails = False
    with pytest.raises(LogClosed):
        log.append(b"refused")


def test_a_read_only_log_cannot_sync(tmp_path: Path, version: int) -> None:
    quick_log(tmp_path, version=version).close()
    log = quick_log(tmp_path, version=version, read_only=True)

    with pytest.raises(LogClosed):
        log.sync()
