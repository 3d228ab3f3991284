"""A queue file: the bytes of BunnyMQ, messages that are due later, optimisation, and durability."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import warren
from tests.support.fakes import WatchedDisk
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.queue_files import NAME, NOW_MS, opened_queue, pull_all, queue_path, quick, record, still_clock  # noqa: F401
from warren.queue.standalone.file_queue import FileQueue, open_file
from warren.queue.standalone.pointer_file import QUEUE_FILE_COPY_SIZE, QUEUE_FILE_READ_SIZE

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


def test_pushed_messages_exist_when_the_file_is_reopened(path: Path, clock: SimulatedClock) -> None:
    with warren.open_file(path, clock=clock) as jobs:
        for number in range(10):
            jobs.push(b"%d" % number)
        jobs.pull()

    with warren.open_file(str(path), clock=clock) as jobs:
        assert jobs.qsize() == 9
        assert pull_all(jobs) == [b"%d" % number for number in range(1, 10)]
        assert jobs.empty()


def test_messages_longer_than_a_read_or_copy_window_are_kept_whole(jobs: FileQueue) -> None:
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
    assert (jobs.pull_pointer, path.stat().st_size) == (8, size - 13), "a gap was closed by writing the file again"
    assert jobs.pull() == b"d"
    assert (jobs.pull_pointer, jobs.push_pointer) == (8, 8 + 2 * 13), "the last message goes by the push pointer"
    assert jobs.pull() is None
    clock.pass_ns(2 * 10**9)
    assert pull_all(jobs) == [b"a", b"c"]


def test_bytes_after_a_pulled_last_message_are_overwritten(path: Path, jobs: FileQueue, clock: SimulatedClock) -> None:
    jobs.push(b"late", delay=1)
    jobs.push(b"a longer one")
    jobs.pull()

    jobs.push(b"short", delay=1)

    assert jobs.messages() == [b"late", b"short"]
    jobs.optimise()
    assert path.stat().st_size == jobs.push_pointer, "nothing follows the push pointer"


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


def test_a_file_without_taken_messages_is_not_rewritten(path: Path) -> None:
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
    contents: list[bytes] = []
    disk = WatchedDisk(on_sync=lambda synced: contents.append(path.read_bytes() if path.exists() else b""))
    with open_file(path, filesystem=disk, delayed=False) as jobs:
        contents.clear()
        jobs.push(b"a")
        assert contents == [struct.pack(">ii", 8, 8) + record(b"a"), struct.pack(">ii", 8, 13) + record(b"a")]

        contents.clear()
        jobs.pull()
        assert contents == [struct.pack(">ii", 13, 13) + record(b"a")]


def test_a_new_file_is_synced_before_it_takes_its_place_and_its_name_afterwards(path: Path) -> None:
    disk = WatchedDisk()
    with open_file(path, filesystem=disk) as jobs:
        assert disk.syncs[:2] == [f"{NAME}.new", f"{path.parent.name}/"]
        jobs.push(b"a")
        jobs.pull()
        disk.syncs.clear()

        jobs.optimise()

        assert disk.syncs == [f"{NAME}.new", f"{path.parent.name}/"]


def test_opening_makes_the_visible_messages_durable(path: Path) -> None:
    quick(path).close()
    disk = WatchedDisk()

    open_file(path, filesystem=disk).close()

    assert disk.syncs == [NAME, f"{path.parent.name}/"]


def test_bytes_after_the_push_pointer_are_written_over_only_when_the_pointers_are_durable(
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


def test_the_note_of_a_process_that_died_while_it_replaced_the_file_is_handled(path: Path) -> None:
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
