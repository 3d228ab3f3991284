"""A queue file at its limits: pointers that cannot reach, full disks, wrong input, and damage."""

from __future__ import annotations

import mmap
import os
import queue
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.fakes import WatchedDisk
from tests.support.patience import SHORT_S, WAIT_S, until_waiting
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from tests.support.store.queue_files import (  # noqa: F401
    NAME,
    opened_queue,
    pull_all,
    queue_path,
    quick,
    record,
    still_clock,
    worker_threads,
)
from warren.errors import BadInput, CorruptQueueFile, NotAQueueFile, QueueFileFull, StorageFull, TooLarge, WarrenError
from warren.queue.standalone.file_queue import FileQueue, open_file
from warren.storage.format.layout import QUEUE_POINTER_MAX

# --- Limits ---


def make_file(path: Path, pull: int, push: int, *records: tuple[int, bytes]) -> None:
    """Makes a sparse file: only the pointers, and the given bytes by position."""
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
        putting = threads.submit(jobs.put, b"next", True, WAIT_S)
        until_waiting(jobs._shared.changed)
        assert not putting.done()
        with path.open("r+b") as file:
            file.write(struct.pack(">i", QUEUE_POINTER_MAX - 3))

        putting.result(WAIT_S)

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


def test_a_full_file_on_a_full_disk_raises_a_clear_error(path: Path) -> None:
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
def test_a_file_cut_anywhere_opens_up_to_its_last_whole_message_and_continues(path: Path, delayed: bool) -> None:
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


def test_a_file_that_is_cut_while_it_is_open_stays_usable(path: Path, jobs: FileQueue) -> None:
    for body in (b"a", b"b", b"cut"):
        jobs.push(body)
    os.truncate(path, path.stat().st_size - 1)

    jobs.push(b"next")

    assert jobs.messages() == [b"a", b"b", b"next"]


def test_the_rest_of_a_cut_file_is_durable_before_more_is_appended(path: Path) -> None:
    path.write_bytes(three(True)[:-3])
    disk = WatchedDisk()
    with open_file(path, filesystem=disk, durability="os"):
        assert disk.syncs == [NAME]


def test_a_file_without_a_byte_is_an_empty_queue(path: Path) -> None:
    with damaged(path, b"") as jobs:
        assert jobs.messages() == []
        assert path.read_bytes() == struct.pack(">ii", 8, 8)


@pytest.mark.parametrize("pointers", [(0, 0), (7, 8), (8, 7), (9, 8), (-1, 8), (8, -1), (-8, -8)])
def test_invalid_pointers_are_an_error(path: Path, pointers: tuple[int, int]) -> None:
    with pytest.raises(NotAQueueFile, match=f"pointers are {pointers[0]} and {pointers[1]}"):
        damaged(path, struct.pack(">ii", *pointers) + b"x" * 100)


@pytest.mark.parametrize(
    ("length", "reason"), [(-1, "length of -1"), (7, "length of 7"), (-(2**31), "length of"), (100, "after the push")]
)
def test_an_invalid_length_is_an_error_that_names_the_place(path: Path, length: int, reason: str) -> None:
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
def test_a_path_that_is_not_a_file_is_an_error(path: Path, jobs: FileQueue, place: str) -> None:
    if place == "removed":
        path.unlink()
        with pytest.raises(NotAQueueFile, match="no such file"):
            jobs.messages()
    else:
        with pytest.raises(NotAQueueFile, match="is a directory"):
            quick(path.parent)
