"""The single-file queue: BunnyMQ's bytes and operations, its pointers' limits, damage, and the company it keeps."""

from __future__ import annotations

import mmap
import os
import queue
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

import warren
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT, SOURCE
from tests.unit.fakes import QUICK_DISK, WatchedDisk
from tests.unit.test_memory_queue import SHORT_S, WAIT_S, until
from warren.config import QUEUE_FILE_COPY_SIZE, QUEUE_FILE_READ_SIZE
from warren.errors import (
    BadInput,
    CorruptQueueFile,
    LogClosed,
    LogLocked,
    NotAQueueFile,
    QueueFileFull,
    StorageFull,
    TooLarge,
    WarrenError,
)
from warren.queue.file_queue import FileQueue, open_file
from warren.storage.layout import QUEUE_POINTER_MAX

NOW_MS: Final = 1_794_725_025_921
NAME: Final = "jobs.bunny"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOW_MS * 1_000_000)


@pytest.fixture
def jobs(path: Path, clock: SimulatedClock) -> Iterator[FileQueue]:
    with quick(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def quick(path: Path, **options: Any) -> FileQueue:
    """A queue whose syncs cost nothing."""
    return open_file(path, **{"filesystem": QUICK_DISK, **options})


def record(body: bytes, expires_ms: int | None = None) -> bytes:
    payload = body if expires_ms is None else struct.pack(">q", expires_ms) + body
    return struct.pack(">i", len(payload)) + payload


def pull_all(jobs: FileQueue) -> list[bytes]:
    pulled = []
    while (body := jobs.pull()) is not None:
        pulled.append(body)
    return pulled


# --- The bytes ---


def test_an_empty_queue_is_two_pointers_of_eight(path: Path, jobs: FileQueue) -> None:
    assert path.read_bytes() == struct.pack(">ii", 8, 8)
    assert (jobs.pull_pointer, jobs.push_pointer, jobs.messages(), jobs.pull()) == (8, 8, [], None)


def test_a_message_is_its_length_its_expiry_and_its_body(path: Path, jobs: FileQueue) -> None:
    jobs.push(b"one")
    jobs.push(b"")
    jobs.push(b"three", delay=5)

    records = record(b"one", NOW_MS) + record(b"", NOW_MS) + record(b"three", NOW_MS + 5000)
    assert path.read_bytes() == struct.pack(">ii", 8, 8 + len(records)) + records


def test_without_delays_a_message_is_its_length_and_its_body(path: Path) -> None:
    with quick(path, delayed=False) as jobs:
        jobs.push(b"one")
        jobs.push(bytearray(b"two"))
        jobs.push(memoryview(b"_three_")[1:-1], delay=0)
        assert [message.expires_ms for message in jobs.records()] == [None, None, None]
        assert jobs.pull() == b"one"

    records = record(b"one") + record(b"two") + record(b"three")
    assert path.read_bytes() == struct.pack(">ii", 15, 8 + len(records)) + records


def test_a_delay_is_rounded_so_that_no_message_is_due_early(jobs: FileQueue, clock: SimulatedClock) -> None:
    clock.pass_ns(1)
    jobs.push(b"prompt")
    jobs.push(b"delayed", delay=0.001)

    assert [message.expires_ms for message in jobs.records()] == [NOW_MS, NOW_MS + 2]
    assert jobs.pull() == b"prompt"
    clock.pass_ns(1_999_998)
    assert jobs.pull() is None
    clock.pass_ns(1)
    assert jobs.pull() == b"delayed"


def test_what_was_pushed_is_there_when_the_file_is_opened_again(path: Path, clock: SimulatedClock) -> None:
    with warren.open_file(path, clock=clock) as jobs:
        for number in range(10):
            jobs.push(b"%d" % number)
        jobs.pull()

    with warren.open_file(str(path), clock=clock) as jobs:
        assert jobs.qsize() == 9
        assert pull_all(jobs) == [b"%d" % number for number in range(1, 10)]
        assert jobs.empty()


def test_messages_longer_than_what_is_read_or_copied_at_a_time(jobs: FileQueue) -> None:
    sizes = (0, QUEUE_FILE_READ_SIZE, QUEUE_FILE_READ_SIZE - 12, 3, QUEUE_FILE_COPY_SIZE + 5, 1)
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    for body in (b"taken", *bodies):
        jobs.push(body)
    jobs.pull()
    assert jobs.messages() == bodies

    jobs.optimise()

    assert jobs.messages() == bodies
    assert jobs.pull_pointer == 8


def test_many_small_messages_are_walked_in_windows(jobs: FileQueue) -> None:
    bodies = [b"%d" % number for number in range(QUEUE_FILE_READ_SIZE // 12)]
    for body in bodies:
        jobs.push(body)

    assert jobs.messages() == bodies


# --- Delays ---


def test_a_message_that_is_not_due_is_passed_over_and_keeps_its_place(
    path: Path, jobs: FileQueue, clock: SimulatedClock
) -> None:
    for body, delay in ((b"a", 2), (b"b", None), (b"c", 1), (b"d", None)):
        jobs.push(body, delay)
    size = path.stat().st_size

    assert jobs.pull() == b"b"
    assert jobs.messages() == [b"a", b"c", b"d"]
    assert (jobs.pull_pointer, path.stat().st_size) == (8, size - 13), "a gap was closed by writing the file anew"
    assert jobs.pull() == b"d"
    assert (jobs.pull_pointer, jobs.push_pointer) == (8, 8 + 2 * 13), "the last message goes by the push pointer"
    assert jobs.pull() is None
    clock.pass_ns(2 * 10**9)
    assert pull_all(jobs) == [b"a", b"c"]


def test_what_a_pulled_last_message_left_behind_is_written_over(
    path: Path, jobs: FileQueue, clock: SimulatedClock
) -> None:
    jobs.push(b"late", delay=1)
    jobs.push(b"a longer one")
    jobs.pull()

    jobs.push(b"short", delay=1)

    assert jobs.messages() == [b"late", b"short"]
    jobs.optimise()
    assert path.stat().st_size == jobs.push_pointer, "nothing is behind the push pointer"


def test_a_clock_that_is_set_back_loses_nothing(jobs: FileQueue, clock: SimulatedClock) -> None:
    jobs.push(b"a")
    clock.set_back_ns(10**10)
    jobs.push(b"b")

    assert pull_all(jobs) == [b"b"]
    clock.pass_ns(10**10)
    assert pull_all(jobs) == [b"a"]


# --- Optimisation ---


def test_a_file_within_its_limit_is_not_rewritten(path: Path) -> None:
    with quick(path, optimise_above=8 + 4 * 13) as jobs:
        for body in (b"a", b"b", b"c"):
            jobs.push(body)
        jobs.pull()
        jobs.push(b"d")
        assert jobs.pull_pointer == 21

        jobs.push(b"e")

        assert (jobs.pull_pointer, jobs.push_pointer) == (8, 8 + 4 * 13)
        assert jobs.messages() == [b"b", b"c", b"d", b"e"]


def test_a_file_of_which_nothing_was_taken_is_not_rewritten(path: Path) -> None:
    with quick(path, optimise_above=0) as jobs:
        before = path.stat().st_ino
        jobs.push(b"a")
        jobs.push(b"b")

        assert path.stat().st_ino == before


def test_a_file_that_stays_over_its_limit_is_rewritten_when_half_of_it_was_taken(path: Path) -> None:
    with quick(path, optimise_above=50) as jobs:
        for number in range(20):
            jobs.push(b"%02d" % number)
        for number in range(9):
            jobs.pull()
            jobs.push(b"%02d" % (20 + number))
        assert jobs.pull_pointer == 8 + 9 * 14

        while jobs.pull_pointer > 8:
            jobs.pull()
            jobs.push(b"xx")

        assert jobs.qsize() == 20
        assert jobs.messages()[0] == b"19"


def test_optimising_an_optimal_file_does_nothing(path: Path, jobs: FileQueue) -> None:
    jobs.push(b"a")
    before = path.stat().st_ino

    jobs.optimise()

    assert path.stat().st_ino == before


def test_a_new_file_left_by_a_crash_is_no_obstacle(path: Path, jobs: FileQueue) -> None:
    path.with_name(NAME + ".new").write_bytes(b"x" * 1000)
    jobs.push(b"a")
    jobs.push(b"b")
    jobs.pull()

    jobs.optimise()

    assert path.read_bytes() == struct.pack(">ii", 8, 21) + record(b"b", NOW_MS)


# --- Durability ---


def test_data_is_synced_before_the_pointers_and_the_pointers_before_the_call_returns(path: Path) -> None:
    seen: list[bytes] = []
    disk = WatchedDisk(on_sync=lambda synced: seen.append(path.read_bytes() if path.exists() else b""))
    with open_file(path, filesystem=disk, delayed=False) as jobs:
        seen.clear()
        jobs.push(b"a")
        assert seen == [struct.pack(">ii", 8, 8) + record(b"a"), struct.pack(">ii", 8, 13) + record(b"a")]

        seen.clear()
        jobs.pull()
        assert seen == [struct.pack(">ii", 13, 13) + record(b"a")]


def test_a_new_file_is_synced_before_it_takes_its_place_and_its_name_afterwards(path: Path) -> None:
    disk = WatchedDisk()
    with open_file(path, filesystem=disk) as jobs:
        assert disk.syncs[:2] == [f"{NAME}.new", f"{path.parent.name}/"]
        jobs.push(b"a")
        jobs.pull()
        disk.syncs.clear()

        jobs.optimise()

        assert disk.syncs == [f"{NAME}.new", f"{path.parent.name}/"]


def test_opening_makes_durable_what_it_shows(path: Path) -> None:
    quick(path).close()
    disk = WatchedDisk()

    open_file(path, filesystem=disk).close()

    assert disk.syncs == [NAME, f"{path.parent.name}/"]


def test_bytes_behind_the_push_pointer_are_written_over_only_when_the_pointers_are_durable(
    path: Path, clock: SimulatedClock
) -> None:
    disk = WatchedDisk()
    with open_file(path, filesystem=disk, clock=clock) as jobs:
        jobs.push(b"late", delay=1)
        jobs.push(b"last")
        jobs.pull()
        disk.syncs.clear()

        jobs.push(b"next")

        assert disk.syncs == [NAME] * 3


def test_with_os_nothing_is_synced_but_a_file_that_takes_the_place_of_another(path: Path) -> None:
    disk = WatchedDisk()
    with open_file(path, filesystem=disk, durability="os") as jobs:
        disk.syncs.clear()
        jobs.push(b"a")
        jobs.push(b"b")
        jobs.pull()
        assert disk.syncs == []

        jobs.optimise()

        assert disk.syncs == [f"{NAME}.new", f"{path.parent.name}/"]
    disk.syncs.clear()
    open_file(path, filesystem=disk, durability="os").close()
    assert disk.syncs == []


def test_the_note_of_a_process_that_died_while_it_replaced_the_file_is_seen_to(path: Path) -> None:
    disk = WatchedDisk()
    with open_file(path, filesystem=disk) as jobs:
        path.with_name(NAME + ".lock").write_text("4711\n")
        disk.syncs.clear()

        jobs.messages()

        assert disk.syncs == [f"{path.parent.name}/"]
        assert path.with_name(NAME + ".lock").read_text() == ""
        jobs.messages()
        assert disk.syncs == [f"{path.parent.name}/"]


def test_the_note_stands_while_the_name_of_a_new_file_is_not_durable(path: Path) -> None:
    notes: list[str] = []

    class Disk(WatchedDisk):
        def replace(self, source: str, target: str) -> None:
            notes.append(path.with_name(NAME + ".lock").read_text())
            super().replace(source, target)

        def sync_directory(self, path_: str) -> None:
            notes.append(path.with_name(NAME + ".lock").read_text())

    with open_file(path, filesystem=Disk()) as jobs:
        jobs.push(b"a")
        jobs.pull()
        notes.clear()

        jobs.optimise()

        assert notes == [f"{os.getpid()}\n"] * 2
        assert path.with_name(NAME + ".lock").read_text() == ""


# --- Limits ---


def make_file(path: Path, pull: int, push: int, *records: tuple[int, bytes]) -> None:
    """A file with holes: nothing but the pointers, and what is given by position."""
    with path.open("wb") as file:
        file.write(struct.pack(">ii", pull, push))
        for position, data in records:
            file.seek(position)
            file.write(data)
        file.truncate(push)


def nearly_full(path: Path, room: int) -> None:
    """A file with one huge message that leaves `room` bytes."""
    push = QUEUE_POINTER_MAX - room
    make_file(path, 8, push, (8, struct.pack(">i", push - 12)))


def test_pointers_that_would_not_reach_are_an_error_and_nothing_is_changed(path: Path) -> None:
    nearly_full(path, room=10)
    with quick(path, delayed=False) as jobs:
        jobs.push(b"fits")
        assert (jobs.push_pointer, jobs.full()) == (QUEUE_POINTER_MAX - 2, True)

        with pytest.raises(QueueFileFull) as caught:
            jobs.push(b"")
        with pytest.raises(queue.Full):
            jobs.put_nowait(b"")
        with pytest.raises(queue.Full):
            jobs.put(b"", timeout=SHORT_S)

        assert (caught.value.size, caught.value.size_max) == (4, QUEUE_POINTER_MAX)
        assert (jobs.pull_pointer, jobs.push_pointer) == (8, QUEUE_POINTER_MAX - 2)


@pytest.mark.parametrize(
    ("delayed", "room", "is_full"), [(False, 4, False), (False, 3, True), (True, 12, False), (True, 11, True)]
)
def test_a_file_is_full_when_not_even_an_empty_message_fits(
    path: Path, delayed: bool, room: int, is_full: bool
) -> None:
    nearly_full(path, room)
    with quick(path, delayed=delayed) as jobs:
        assert jobs.full() is is_full


def test_a_message_that_fits_to_the_last_byte(path: Path) -> None:
    nearly_full(path, room=10)
    with quick(path, delayed=False) as jobs:
        jobs.push(b"sixsix")

        assert jobs.push_pointer == QUEUE_POINTER_MAX


def test_taken_messages_make_room_in_a_file_that_cannot_grow(path: Path) -> None:
    live = record(b"live")
    pull = QUEUE_POINTER_MAX - len(live)
    make_file(path, pull, QUEUE_POINTER_MAX, (pull, live))

    with quick(path, delayed=False, optimise_above=QUEUE_POINTER_MAX) as jobs:
        assert not jobs.full()
        jobs.push(b"next")

        assert jobs.messages() == [b"live", b"next"]
        assert jobs.push_pointer == 8 + 16


def test_a_put_waits_until_another_process_has_made_room(path: Path, threads: ThreadPoolExecutor) -> None:
    nearly_full(path, room=3)
    with quick(path, delayed=False) as jobs:
        done = threads.submit(jobs.put, b"next", True, WAIT_S)
        time.sleep(SHORT_S)
        assert not done.done()
        with path.open("r+b") as file:
            file.write(struct.pack(">i", QUEUE_POINTER_MAX - 3))

        done.result(WAIT_S)

        assert jobs.messages() == [b"next"]


@pytest.mark.parametrize(("delayed", "head"), [(False, 4), (True, 12)])
def test_a_body_that_fits_in_no_file_is_refused(path: Path, delayed: bool, head: int) -> None:
    size_max = QUEUE_POINTER_MAX - 8 - head
    with mmap.mmap(-1, size_max + 1) as huge, memoryview(huge) as body, quick(path, delayed=delayed) as jobs:
        with pytest.raises(TooLarge) as caught:
            jobs.push(body)

        assert (caught.value.size, caught.value.size_max) == (size_max + 1, size_max)
        assert jobs.empty()


def test_a_full_disk_changes_nothing_and_an_optimisation_is_left_for_later() -> None:
    disk = SimulatedFileSystem(size_max=600)
    with open_file("/jobs.bunny", filesystem=disk, delayed=False, optimise_above=100) as jobs:
        for _ in range(2):
            jobs.push(b"x" * 200)
        jobs.pull()
        jobs.push(b"y" * 50)
        assert jobs.pull_pointer == 212, "there was no room for a second file"

        with pytest.raises(StorageFull):
            jobs.push(b"z" * 300)
        with pytest.raises(StorageFull):
            jobs.optimise()

        assert jobs.messages() == [b"x" * 200, b"y" * 50]
        assert disk.names("/") == ["jobs.bunny", "jobs.bunny.lock"]
        jobs.pull()
        jobs.push(b"w")
        assert (jobs.pull_pointer, jobs.messages()) == (8, [b"y" * 50, b"w"])


def test_where_a_file_cannot_grow_and_the_disk_is_full_the_error_says_so(path: Path) -> None:
    class FullDisk(WatchedDisk):
        def open(self, path: str, *, writable: bool, create: bool = False) -> Any:
            if path.endswith(".new"):
                super().open(path, writable=writable, create=create).close()
                raise StorageFull(path, 1)
            return super().open(path, writable=writable, create=create)

    make_file(path, QUEUE_POINTER_MAX, QUEUE_POINTER_MAX)
    with open_file(path, filesystem=FullDisk()) as jobs, pytest.raises(StorageFull):
        jobs.push(b"next")


@pytest.mark.parametrize("body", ["text", None, 5, [b"a"]])
def test_a_body_that_is_not_bytes_is_refused(jobs: FileQueue, body: Any) -> None:
    with pytest.raises(BadInput, match="body"):
        jobs.push(body)
    assert jobs.empty()


@pytest.mark.parametrize("delay", [-1, float("nan"), "1", 1e12])
def test_a_wrong_delay_is_refused(jobs: FileQueue, delay: Any) -> None:
    with pytest.raises(BadInput, match="delay"):
        jobs.push(b"a", delay)
    assert jobs.empty()


def test_a_file_without_delays_refuses_one(path: Path) -> None:
    with quick(path, delayed=False) as jobs, pytest.raises(BadInput, match="delayed=True"):
        jobs.push(b"a", delay=1)


@pytest.mark.parametrize(
    "options",
    [
        {"optimise_above": -1},
        {"optimise_above": QUEUE_POINTER_MAX + 1},
        {"optimise_above": "1"},
        {"durability": "sometimes"},
        {"durability": "interval:50ms"},
    ],
)
def test_wrong_options_are_refused_and_no_file_is_made(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        quick(path, **options)
    assert not path.exists()


# --- Damage ---


def damaged(path: Path, data: bytes, **options: Any) -> FileQueue:
    path.write_bytes(data)
    return quick(path, **options)


THREE: Final = (b"first", b"second one", b"")


def three(delayed: bool) -> bytes:
    records = b"".join(record(body, 1000 if delayed else None) for body in THREE)
    return struct.pack(">ii", 8, 8 + len(records)) + records


@pytest.mark.parametrize("delayed", [True, False])
def test_a_file_cut_anywhere_opens_up_to_its_last_whole_message_and_goes_on(path: Path, delayed: bool) -> None:
    data = three(delayed)
    ends = [8]
    for body in THREE:
        ends.append(ends[-1] + len(body) + (12 if delayed else 4))
    for size in range(8, len(data) + 1):
        with damaged(path, data[:size], delayed=delayed) as jobs:
            whole = sum(end <= size for end in ends[1:])

            assert jobs.messages() == list(THREE[:whole]), size
            assert jobs.push_pointer == ends[whole]
            jobs.push(b"a new message, longer than what was cut off")
            assert len(pull_all(jobs)) == whole + 1


@pytest.mark.parametrize("size", range(1, 8))
def test_a_file_without_whole_pointers_is_not_a_queue(path: Path, size: int) -> None:
    with pytest.raises(NotAQueueFile, match=f"{size} bytes"):
        damaged(path, three(True)[:size])
    assert path.stat().st_size == size


def test_a_file_cut_before_its_pull_pointer_is_empty(path: Path) -> None:
    with damaged(path, struct.pack(">ii", 60, 90) + b"x" * 20) as jobs:
        assert (jobs.messages(), jobs.pull_pointer, jobs.push_pointer) == ([], 8, 8)
        jobs.push(b"a")
        assert jobs.messages() == [b"a"]


def test_a_file_that_is_cut_while_it_is_open_goes_on_too(path: Path, jobs: FileQueue) -> None:
    for body in (b"a", b"b", b"cut"):
        jobs.push(body)
    os.truncate(path, path.stat().st_size - 1)

    jobs.push(b"next")

    assert jobs.messages() == [b"a", b"b", b"next"]


def test_what_is_left_of_a_cut_file_is_durable_before_it_is_built_upon(path: Path) -> None:
    path.write_bytes(three(True)[:-3])
    disk = WatchedDisk()
    with open_file(path, filesystem=disk, durability="os"):
        assert disk.syncs == [NAME]


def test_a_file_without_a_byte_is_an_empty_queue(path: Path) -> None:
    with damaged(path, b"") as jobs:
        assert jobs.messages() == []
        assert path.read_bytes() == struct.pack(">ii", 8, 8)


@pytest.mark.parametrize("pointers", [(0, 0), (7, 8), (8, 7), (9, 8), (-1, 8), (8, -1), (-8, -8)])
def test_pointers_that_cannot_be_are_an_error(path: Path, pointers: tuple[int, int]) -> None:
    with pytest.raises(NotAQueueFile, match=f"pointers are {pointers[0]} and {pointers[1]}"):
        damaged(path, struct.pack(">ii", *pointers) + b"x" * 100)


@pytest.mark.parametrize(
    ("length", "reason"), [(-1, "length of -1"), (7, "length of 7"), (-(2**31), "length of"), (100, "behind the push")]
)
def test_a_length_that_cannot_be_is_an_error_that_names_the_place(path: Path, length: int, reason: str) -> None:
    records = record(b"good", 0) + struct.pack(">iq", length, 0) + b"bad" + b"x" * 50
    with damaged(path, struct.pack(">ii", 8, 8 + 16 + 15) + records) as jobs:
        assert jobs.pull() == b"good"

        with pytest.raises(CorruptQueueFile, match=reason) as caught:
            jobs.pull()

        assert caught.value.position == 24
        with pytest.raises(CorruptQueueFile):
            jobs.messages()


def test_a_push_pointer_in_the_middle_of_a_head_is_an_error(path: Path) -> None:
    with damaged(path, struct.pack(">ii", 8, 8 + 16 + 5) + record(b"good", 0) * 2) as jobs:
        assert jobs.pull() == b"good"
        with pytest.raises(CorruptQueueFile, match="fits"):
            jobs.pull()


@pytest.mark.parametrize("delayed", [True, False])
def test_any_flipped_bit_gives_a_right_prefix_or_a_named_error(path: Path, delayed: bool) -> None:
    data = three(delayed)
    head = 12 if delayed else 4
    for bit in range(len(data) * 8):
        wounded = bytearray(data)
        wounded[bit // 8] ^= 1 << bit % 8
        pulled = []
        try:
            with damaged(path, bytes(wounded), delayed=delayed, clock=SimulatedClock(2**62)) as jobs:
                while (body := jobs.pull()) is not None:
                    pulled.append(body)
                    assert len(pulled) <= len(data), "no end in sight"
        except WarrenError:
            pass
        if bit // 8 >= 4:
            hurt, position = 0, 8 + head + len(THREE[0])
            while hurt < 3 and position <= bit // 8:
                hurt += 1
                position += head + len(THREE[hurt])
            assert pulled[:hurt] == list(THREE[:hurt])[: len(pulled)], bit


@pytest.mark.parametrize("place", ["directory", "removed"])
def test_what_is_no_file_is_an_error(path: Path, jobs: FileQueue, place: str) -> None:
    if place == "removed":
        path.unlink()
        with pytest.raises(NotAQueueFile, match="no such file"):
            jobs.messages()
    else:
        with pytest.raises(NotAQueueFile, match="is a directory"):
            quick(path.parent)


# --- As queue.Queue ---


def test_put_and_get_are_push_and_pull(jobs: FileQueue, clock: SimulatedClock) -> None:
    jobs.put(b"a")
    jobs.put_nowait(b"b", delay=1)
    jobs.put(b"c", delay=None)

    assert (jobs.qsize(), jobs.empty(), jobs.full()) == (3, False, False)
    assert [jobs.get(), jobs.get_nowait()] == [b"a", b"c"]
    with pytest.raises(queue.Empty):
        jobs.get_nowait()
    with pytest.raises(queue.Empty):
        jobs.get(False)
    assert (jobs.qsize(), jobs.empty()) == (1, False)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1"])
def test_a_wrong_timeout_is_refused(jobs: FileQueue, timeout: Any) -> None:
    with pytest.raises(BadInput, match="timeout"):
        jobs.get(timeout=timeout)
    with pytest.raises(BadInput, match="timeout"):
        jobs.put(b"a", timeout=timeout)
    assert jobs.empty()


def test_a_get_that_finds_nothing_in_time_is_empty(path: Path) -> None:
    started_s = time.monotonic()
    with quick(path) as jobs, pytest.raises(queue.Empty):
        jobs.get(timeout=SHORT_S)

    assert time.monotonic() - started_s >= SHORT_S


def test_a_waiting_get_is_woken_by_a_thread(path: Path, threads: ThreadPoolExecutor) -> None:
    with quick(path) as jobs:
        taken = threads.submit(jobs.get, True, WAIT_S)
        time.sleep(SHORT_S)

        jobs.push(b"a")

        assert taken.result(WAIT_S) == b"a"


def test_a_push_wakes_at_once(path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.file_queue.QUEUE_FILE_LOOK_S", 1000.0)
    with quick(path) as jobs:
        taken = threads.submit(jobs.get, True, WAIT_S)
        until(lambda: jobs._shared.changed._waiters)  # type: ignore[attr-defined]

        jobs.push(b"a")

        assert taken.result(WAIT_S / 2) == b"a"


def test_a_waiting_get_finds_what_another_opener_pushed(path: Path, threads: ThreadPoolExecutor) -> None:
    with quick(path) as jobs, quick(path) as other:
        taken = threads.submit(jobs.get, True, WAIT_S)
        time.sleep(SHORT_S)

        other.push(b"a")

        assert taken.result(WAIT_S) == b"a"


def test_a_waiting_get_gives_a_delayed_message_when_it_is_due(path: Path) -> None:
    with quick(path) as jobs:
        started_s = time.monotonic()
        jobs.push(b"a", delay=SHORT_S)

        assert jobs.get(timeout=WAIT_S) == b"a"
        assert time.monotonic() - started_s >= SHORT_S


def test_join_returns_when_the_file_is_empty_and_every_task_is_done(path: Path, threads: ThreadPoolExecutor) -> None:
    with quick(path) as jobs:
        jobs.join()
        jobs.put(b"a")
        jobs.put(b"b")
        joined = threads.submit(jobs.join)
        jobs.get()
        jobs.task_done()
        time.sleep(SHORT_S)
        assert not joined.done(), "a message is left"
        jobs.get()
        time.sleep(SHORT_S)
        assert not joined.done(), "a task is left"

        jobs.task_done()

        joined.result(WAIT_S)
        with pytest.raises(BadInput, match="task_done"):
            jobs.task_done()


def test_a_pull_is_no_task(jobs: FileQueue) -> None:
    jobs.put(b"a")
    jobs.pull()

    jobs.join()


# --- Company ---


def test_openers_see_what_each_other_does_also_after_an_optimisation(path: Path) -> None:
    with quick(path) as one, quick(path) as other:
        one.push(b"a")
        one.push(b"b")
        assert other.pull() == b"a"
        other.optimise()
        one.push(b"c")

        assert other.messages() == one.messages() == [b"b", b"c"]
        assert one.pull_pointer == 8


def test_threads_and_openers_lose_and_repeat_nothing(path: Path, threads: ThreadPoolExecutor) -> None:
    openers = [quick(path, optimise_above=200) for _ in range(2)]

    def push(name: int) -> None:
        for number in range(100):
            openers[number % 2].put(b"%d:%d" % (name, number), delay=0.001 if number % 5 == 0 else None)

    def pull(name: int) -> list[bytes]:
        return [openers[(name + number) % 2].get(timeout=WAIT_S) for number in range(100)]

    pullers = [threads.submit(pull, name) for name in range(3)]
    for pusher in [threads.submit(push, name) for name in range(3)]:
        pusher.result(WAIT_S)
    pulled = [body for puller in pullers for body in puller.result(WAIT_S)]

    assert sorted(pulled) == sorted(b"%d:%d" % (name, number) for name in range(3) for number in range(100))
    assert openers[0].empty()


def test_a_link_leads_to_the_file_and_stays_a_link(path: Path) -> None:
    link = path.with_name("link.bunny")
    with quick(path) as jobs:
        jobs.push(b"a")
        jobs.push(b"b")
        link.symlink_to(path)
        with quick(link) as linked:
            assert linked.pull() == b"a"
            linked.optimise()

        assert link.is_symlink()
        assert jobs.messages() == [b"b"]


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    with quick(tmp_path / "deep" / "down" / NAME) as jobs:
        jobs.push(b"a")

        assert jobs.path == str(tmp_path / "deep" / "down" / NAME)
        assert repr(jobs) == f"<FileQueue {jobs.path!r}, with delays>"


def test_a_lock_that_nobody_gives_up_is_an_error(clock: SimulatedClock) -> None:
    disk = SimulatedFileSystem()
    with open_file("/jobs.bunny", filesystem=disk, clock=clock) as jobs:
        lock = disk.lock("/jobs.bunny.lock")
        lock.try_acquire()
        lock.note_holder(7)
        with pytest.raises(LogLocked) as caught:
            jobs.push(b"a")
        assert caught.value.pid == 7
        assert clock.steady_s() >= 30
        assert disk.calls < 10_000, "it was asked for ever more seldom"

        lock.release()
        jobs.push(b"a")


def test_a_lock_is_freed_by_an_operation_that_failed(path: Path, jobs: FileQueue) -> None:
    path.unlink()
    with pytest.raises(NotAQueueFile):
        jobs.messages()

    with quick(path) as other:
        other.push(b"a")
        assert jobs.messages() == [b"a"]


@pytest.mark.parametrize(
    "call",
    [
        lambda jobs: jobs.push(b"a"),
        FileQueue.pull,
        FileQueue.messages,
        FileQueue.optimise,
        FileQueue.get,
        FileQueue.qsize,
        FileQueue.empty,
        FileQueue.full,
        FileQueue.join,
        lambda jobs: jobs.put(b"a"),
        lambda jobs: jobs.pull_pointer,
        lambda jobs: jobs.push_pointer,
    ],
)
def test_a_closed_queue_says_so(jobs: FileQueue, call: Callable[[FileQueue], object]) -> None:
    jobs.close()
    jobs.close()

    with pytest.raises(LogClosed, match="close"):
        call(jobs)


def test_closing_wakes_whoever_waits(path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.file_queue.QUEUE_FILE_LOOK_S", 1000.0)
    jobs = quick(path)
    taken = threads.submit(jobs.get)
    until(lambda: jobs._shared.changed._waiters)  # type: ignore[attr-defined]

    jobs.close()

    assert isinstance(taken.exception(WAIT_S), LogClosed)


def test_no_file_stays_open_between_two_operations_but_that_of_the_lock(path: Path) -> None:
    opened: list[Any] = []

    class Disk(WatchedDisk):
        """Keeps what it opened, so that only a `close` closes it."""

        def open(self, path: str, *, writable: bool, create: bool = False) -> Any:
            opened.append(super().open(path, writable=writable, create=create))
            return opened[-1]

        def lock(self, path: str) -> Any:
            opened.append(super().lock(path))
            return opened[-1]

    before = len(os.listdir("/proc/self/fd"))
    jobs = open_file(path, filesystem=Disk())
    jobs.push(b"a")
    jobs.push(b"b")
    jobs.pull()
    jobs.optimise()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(opened) > 5

    jobs.close()

    assert len(os.listdir("/proc/self/fd")) == before


def in_child(act: Callable[[], object]) -> bool:
    """Whether `act` ends well in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    code = 1
    try:
        act()
        code = 0
    finally:
        os._exit(code)


def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have(path: Path) -> None:
    held, let_go = threading.Event(), threading.Event()
    with quick(path) as jobs:

        def hold() -> None:
            with jobs._shared.changed:
                held.set()
                let_go.wait(WAIT_S)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(WAIT_S)

        is_done = in_child(lambda: jobs.push(b"from the child"))

        let_go.set()
        thread.join(WAIT_S)
        assert is_done
        assert jobs.messages() == [b"from the child"]


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.shared_file.LOCK_WAIT_S_MAX", 2 * SHORT_S)

    def push_in_vain() -> None:
        with pytest.raises(LogLocked):
            jobs.push(b"from the child")

    with quick(path) as jobs:
        with jobs._shared.opened():
            assert in_child(push_in_vain)

        assert jobs.messages() == []


def test_there_is_no_file_that_it_could_give_up_to_others(jobs: FileQueue) -> None:
    assert jobs._shared.file_count == 0
    assert not jobs._shared.rest()


# --- The chapter ---


@pytest.mark.parametrize("example", fenced((ROOT / "docs" / "queues.md").read_text(), "python"))
def test_the_examples_of_the_chapter_run(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("at once a little later\nb'10 carrots' None [b'1 leek']\n", "a parcel\n")
