"""The files of delayed messages: done bits, runs by due time, the order of a parked log, intents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import pytest

from tests.support.fakes import QUICK_DISK, WatchedDisk, quick_log
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.queue.delay import done_bits, due_index
from warren.queue.delay.done_bits import DoneBits
from warren.queue.delay.due_index import (
    NO_PAIRS,
    DueRun,
    Pairs,
    ParkingOrder,
    in_order,
    map_run,
    merged,
    pairs_after,
    rows_up_to,
    run_chain,
    write_run,
)
from warren.queue.delay.intent import HEAD_SIZE, Intent, IntentFile, PartitionRows
from warren.queue.state import paths
from warren.queue.store import Store
from warren.storage import Log

BITS: Final = 64
SECOND_NS: Final = 1_000_000_000


def numbers_of(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def pairs_of(*rows: tuple[int, int]) -> Pairs:
    return np.array(rows, "<i8").reshape(len(rows), 2)


# --- Bits ---


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(done_bits, "BITS_PER_FILE", BITS)


def open_bits(path: Path, first: int = 0) -> DoneBits:
    return DoneBits(QUICK_DISK, str(path / "done"), lambda: first)


@pytest.mark.usefixtures("small_files")
def test_exactly_the_messages_that_were_marked_done_are_done_in_every_process(tmp_path: Path) -> None:
    bits, other = open_bits(tmp_path), open_bits(tmp_path)
    assert not other.is_done(3)
    marked = {0, 3, 63, 64, 200, 201}
    bits.set(numbers_of(*marked))
    bits.set(numbers_of(3))

    for each in (bits, other, open_bits(tmp_path)):
        assert {number for number in range(300) if each.is_done(number)} == marked
        assert np.flatnonzero(each.are_done(np.arange(300))).tolist() == sorted(marked)
    assert sorted(os.listdir(tmp_path / "done")) == [f"{first:020d}.done" for first in (0, 64, 192)]


@pytest.mark.usefixtures("small_files")
def test_the_first_open_number_is_found_across_files(tmp_path: Path) -> None:
    bits = open_bits(tmp_path)
    assert bits.first_open(10) == 0
    bits.set(np.arange(100))

    assert (bits.first_open(300), bits.first_open(50)) == (100, 50)
    bits.set(np.arange(101, 128))
    assert bits.first_open(300) == 100
    bits.set(numbers_of(100))
    assert (bits.first_open(300), bits.first_open(128)) == (128, 128)
    assert open_bits(tmp_path, first=200).first_open(300) == 200


@pytest.mark.usefixtures("small_files")
def test_retired_messages_are_done_and_their_files_removed(tmp_path: Path) -> None:
    bits = open_bits(tmp_path)
    bits.set(np.arange(130))
    bits.retire(before=127)
    assert sorted(os.listdir(tmp_path / "done")) == [f"{first:020d}.done" for first in (64, 128)]

    later = open_bits(tmp_path, first=127)
    assert later.is_done(0)
    assert later.are_done(numbers_of(0, 126, 127, 129, 130)).tolist() == [True, True, True, True, False]
    open_bits(tmp_path / "nothing").retire(before=5)


@pytest.mark.usefixtures("small_files")
def test_a_file_of_bits_that_was_not_made_to_its_end_holds_none(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / f"{0:020d}.done").write_bytes(b"")
    bits = open_bits(tmp_path)
    assert not bits.is_done(0)

    bits.set(numbers_of(1))
    assert open_bits(tmp_path).is_done(1)


def test_a_sync_writes_each_changed_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(done_bits, "BITS_PER_FILE", BITS)
    disk = WatchedDisk()
    bits = DoneBits(disk, str(tmp_path / "done"), lambda: 0)
    bits.set(numbers_of(1, 70))
    disk.syncs.clear()

    bits.set(numbers_of(2))
    bits.sync()
    assert sorted(disk.syncs) == [f"{0:020d}.done", f"{64:020d}.done"]
    disk.syncs.clear()
    bits.sync()
    assert disk.syncs == []
    bits.sync_range(range(64, 200))
    assert disk.syncs == [f"{64:020d}.done"]


# --- Runs ---


def test_rows_are_ordered_by_due_time_and_then_by_number() -> None:
    rows = in_order(pairs_of((5, 0), (3, 1), (5, 2)), pairs_of((3, 3), (5, 4)))

    assert rows.tolist() == [[3, 1], [3, 3], [5, 0], [5, 2], [5, 4]]
    assert in_order().tolist() == []


def test_rows_up_to_a_row_are_counted() -> None:
    pairs = pairs_of((3, 1), (3, 3), (5, 0), (5, 2), (9, 7))

    counts = {row: rows_up_to(pairs, *row) for row in [(2, 9), (3, 0), (3, 1), (3, 9), (5, 1), (5, 2), (9, 9)]}
    assert counts == {(2, 9): 0, (3, 0): 0, (3, 1): 1, (3, 9): 2, (5, 1): 3, (5, 2): 4, (9, 9): 5}


@pytest.mark.parametrize("rows", [1, 3, 10, 1000])
def test_merged_runs_hold_every_row_once_in_order(rows: int) -> None:
    random, number, runs = Random(rows), 0, []
    for size in (0, 1, 40, 7, 100, 0):
        runs.append(in_order(pairs_of(*((random.randrange(12), number + each) for each in range(size)))))
        number += size

    parts = list(merged(runs, rows))
    assert np.concatenate(parts).tolist() == sorted(row for run in runs for row in run.tolist())
    assert max(map(len, parts)) <= max(rows, len(runs))
    assert list(merged([], rows)) == []


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = str(tmp_path)
    parts = [pairs_of((3, 1), (3, 3)), NO_PAIRS, pairs_of((5, 0))]
    steps = write_run(QUICK_DISK, directory, range(4), parts)
    next(steps)
    assert run_chain(QUICK_DISK, directory, 0, 4) == [], "it has no name before it is whole"
    for _ in steps:
        pass

    run = map_run(QUICK_DISK, directory, range(4))
    assert run.pairs.tolist() == [[3, 1], [3, 3], [5, 0]]
    assert [each.numbers for each in run_chain(QUICK_DISK, directory, 2, 4)] == [range(4)]


def test_a_run_skips_messages_that_are_done(tmp_path: Path) -> None:
    bits = open_bits(tmp_path)
    run = DueRun(pairs_of(*((number, number) for number in range(3000))), range(3000))
    bits.set(np.arange(2500))
    bits.set(numbers_of(2502))
    run.skip_done(bits)

    assert (run.at, len(run), run.first_due_us()) == (2500, 500, 2500)
    assert run.open_pairs(bits, run.at, 2504, 100)[:, 1].tolist() == [2500, 2501, 2503, 2504]
    assert run.open_pairs(bits, run.at, 9999, 3)[:, 1].tolist() == [2500, 2501, 2503]
    assert run.open_pairs(bits, run.at, 2499, 3).tolist() == []
    bits.set(np.arange(3000))
    run.skip_done(bits)
    assert len(run) == 0


@pytest.mark.parametrize(
    ("ranges", "first_open", "expected"),
    [
        ([(0, 4), (4, 8)], 0, [(0, 4), (4, 8)]),
        ([(0, 4), (4, 8), (0, 8)], 0, [(0, 8)]),
        ([(0, 4), (4, 6), (6, 8), (4, 8)], 0, [(0, 4), (4, 8)]),
        ([(0, 4), (6, 8)], 0, [(0, 4)]),
        ([(4, 8)], 0, []),
        ([(4, 8)], 4, [(4, 8)]),
        ([(0, 4), (4, 8)], 5, [(4, 8)]),
        ([(0, 4), (2, 8)], 0, [(0, 4)]),
        ([(0, 4), (4, 11)], 0, [(0, 4)]),
        ([], 0, []),
    ],
)
def test_runs_are_used_up_to_the_first_gap(
    tmp_path: Path, ranges: list[tuple[int, int]], first_open: int, expected: list[tuple[int, int]]
) -> None:
    for start, end in ranges:
        for _ in write_run(QUICK_DISK, str(tmp_path), range(start, end), []):
            pass
    (tmp_path / "stranger").write_bytes(b"")

    chain = run_chain(QUICK_DISK, str(tmp_path), first_open, 10)
    assert [(run.numbers.start, run.numbers.stop) for run in chain] == expected


# --- The order of a parked log ---


class Parked:
    """A parked log with its bits and its order, and the due times that were put."""

    def __init__(self, path: Path) -> None:
        self.log = quick_log(path / "log")
        self.bits = DoneBits(QUICK_DISK, str(path / "done"), lambda: self.log.first)
        self.directory = str(path / "order")
        self.dues: list[int] = []
        self.order = self.open()

    def open(self) -> ParkingOrder:
        self.order = ParkingOrder(self.log, self.bits, QUICK_DISK, self.directory)
        return self.order

    def park(self, *dues: int) -> None:
        self.log.append_many([b"x"] * len(dues), corr_offsets=dues)
        self.dues += dues

    def catch_up(self) -> None:
        while not self.order.catch_up() or self.order.is_merging:
            pass

    def finish(self, *numbers: int) -> None:
        self.bits.set(numbers_of(*numbers))

    def expected(self, now_us: int = 1 << 60) -> list[list[int]]:
        rows = [[due, number] for number, due in enumerate(self.dues) if due <= now_us]
        return sorted(row for row in rows if not self.bits.is_done(row[1]))

    def files(self) -> list[str]:
        return sorted(os.listdir(self.directory)) if os.path.exists(self.directory) else []


@pytest.fixture
def parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parked]:
    """With a small tail, so that runs are stored and merged."""
    monkeypatch.setattr(due_index, "TAIL_ROWS_MAX", 10)
    monkeypatch.setattr(due_index, "TAIL_NUMBERS_MAX", 50)
    monkeypatch.setattr(due_index, "FILES_MAX", 3)
    monkeypatch.setattr(due_index, "MERGE_ROWS", 8)
    parked = Parked(tmp_path)
    yield parked
    parked.log.close()


def test_due_messages_come_in_order(parked: Parked) -> None:
    assert parked.order.next_due_us() is None
    parked.park(50, 10, 40, 10)
    parked.catch_up()

    assert parked.order.next_due_us() == 10
    assert parked.order.due(9, 5).tolist() == []
    assert parked.order.due(40, 5).tolist() == [[10, 1], [10, 3], [40, 2]]
    assert parked.order.due(99, 3).tolist() == [[10, 1], [10, 3], [40, 2]]
    parked.finish(1, 3)
    assert parked.order.due(99, 3).tolist() == [[40, 2], [50, 0]]
    assert parked.order.next_due_us() == 40


def test_the_order_is_the_same_after_it_was_opened_again(parked: Parked) -> None:
    random = Random(5)
    for _ in range(60):
        parked.park(*(random.randrange(1000) for _ in range(random.randint(1, 9))))
        if random.random() < 0.7:
            parked.order.catch_up()
        open_numbers = [number for _, number in parked.expected()]
        parked.finish(*random.sample(open_numbers, min(3, len(open_numbers))))
        if random.random() < 0.2:
            parked.open()
    parked.catch_up()

    for order in (parked.order, parked.open()):
        while not order.catch_up():
            pass
        assert order.due(500, 10_000).tolist() == parked.expected(500)
        assert order.due(2000, 7).tolist() == parked.expected()[:7]


def test_few_runs_are_kept(parked: Parked) -> None:
    for number in range(400):
        parked.park(number * 7919 % 1000)
        parked.order.catch_up()
    parked.catch_up()

    assert 1 <= len(parked.files()) <= 3
    assert parked.order.due(2000, 1000).tolist() == parked.expected()


def test_runs_that_are_used_up_are_removed(parked: Parked) -> None:
    parked.park(*range(100))
    parked.catch_up()
    assert parked.files()
    parked.finish(*range(100))

    assert parked.order.next_due_us() is None
    assert parked.files() == []
    assert parked.open().next_due_us() is None


def test_numbers_that_were_done_quickly_are_not_read_again(parked: Parked) -> None:
    """A message with a long delay must not make the next opener read all later messages."""
    parked.park(1 << 50)
    for number in range(1, 200):
        parked.park(number)
        parked.order.catch_up()
        parked.finish(number)
        assert parked.order.next_due_us() == 1 << 50
    parked.catch_up()

    (*_, last) = run_chain(QUICK_DISK, parked.directory, 0, parked.log.end)
    assert parked.log.end - last.numbers.stop < 50
    assert parked.open().next_due_us() == 1 << 50


def test_files_of_a_dead_mover_are_removed(parked: Parked) -> None:
    parked.park(*range(30))
    parked.catch_up()
    half_done = Path(parked.directory) / f"{0:020d}-{99:020d}.run.new"
    half_done.write_bytes(b"half")
    ahead = Path(parked.directory) / f"{0:020d}-{99:020d}.run"
    ahead.write_bytes(b"")

    order = parked.open()
    assert not half_done.exists()
    assert not ahead.exists(), "it speaks of numbers that are not there"
    while not order.catch_up():
        pass
    assert order.due(1000, 100).tolist() == parked.expected()


def test_the_order_is_rebuilt_from_the_log(parked: Parked) -> None:
    parked.park(*range(30, 0, -1))
    parked.catch_up()
    for name in parked.files():
        os.remove(os.path.join(parked.directory, name))

    order = parked.open()
    while not order.catch_up():
        pass
    assert order.due(1000, 100).tolist() == parked.expected()
    order.rebuild()
    assert parked.files() == []
    while not order.catch_up():
        pass
    assert order.due(1000, 100).tolist() == parked.expected()


def test_any_process_can_list_the_messages_after_a_row(parked: Parked) -> None:
    random = Random(3)
    parked.park(*(random.randrange(40) for _ in range(100)))
    parked.catch_up()
    parked.finish(*range(0, 100, 3))
    parked.park(*(random.randrange(40) for _ in range(35)))
    expected = parked.expected()

    for place in range(-1, len(expected), 5):
        after = (-1, -1) if place < 0 else (expected[place][0], expected[place][1])
        pairs = pairs_after(parked.log, parked.bits, QUICK_DISK, parked.directory, after, 12)
        assert pairs.tolist() == expected[place + 1 : place + 13]


def test_large_bodies_are_not_read_together_to_find_their_due_times(
    parked: Parked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_index, "READ_BYTES_MAX", 100)
    for due in (3, 2, 1):
        parked.log.append(bytes(90), corr_offset=due)
        parked.dues.append(due)
    parked.catch_up()

    assert parked.order.due(5, 5).tolist() == parked.expected()


def test_many_are_scanned_and_few_are_read(tmp_path: Path) -> None:
    parked = Parked(tmp_path)
    dues = [Random(1).randrange(10**6) for _ in range(3000)]
    parked.park(*dues)
    for due in dues[:700]:
        parked.log.append(b"single", corr_offset=due)
        parked.dues.append(due)
    parked.catch_up()

    assert parked.order.due(10**6, 10_000).tolist() == parked.expected()
    parked.log.close()


def test_a_wrong_order_is_rebuilt_and_no_message_comes_early(tmp_path: Path) -> None:
    clock = SimulatedClock()
    store = quick_store(tmp_path, clock=clock)
    topic = store.topic("orders")
    topic.put(b"now", delay=0.0)
    topic.put(b"later", delay=50.0)
    store.mover.run()
    order = topic.delay.parking("minute").order
    order._tail = [DueRun(pairs_of((1, 1)), range(2))]

    bodies = _run(store)
    assert bodies == [b"now"], "the order said that the other one is due"
    clock.pass_ns(50 * SECOND_NS)
    assert _run(store) == [b"now", b"later"]
    store.close()


def _run(store: Store) -> list[bytes]:
    for _ in range(10):
        store.mover.run()
    return [message.body for message in store.topic("orders").partition(0).read(0)]


# --- Intents ---


INTENT: Final = Intent(
    "marker",
    [
        PartitionRows(0, 17, [("minute", 4), ("minute", 5), ("hour", 6), ("minute", 6), ("minute", 9)]),
        PartitionRows(3, 0, [("hour", 1)]),
    ],
)


def test_an_intent_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "intent")
    mine, other = IntentFile(QUICK_DISK, path), IntentFile(QUICK_DISK, path)
    assert other.read() is None
    mine.write(INTENT)

    assert mine.read() == other.read() == IntentFile(QUICK_DISK, path).read() == INTENT
    mine.write(Intent("next", []))
    assert other.read() == Intent("next", [])
    assert INTENT.numbers() == {"minute": [4, 5, 6, 9], "hour": [6, 1]}


def test_a_torn_intent_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "intent"
    IntentFile(QUICK_DISK, str(path)).write(INTENT)
    whole = path.read_bytes()
    size = HEAD_SIZE + int(whole.split()[1])

    for at in (0, 5, HEAD_SIZE, HEAD_SIZE + 20, size - 1):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        assert IntentFile(QUICK_DISK, str(path)).read() is None, at
        path.write_bytes(whole[:at])
        assert IntentFile(QUICK_DISK, str(path)).read() is None, at


# --- Names ---


def test_names_are_parsed_as_they_were_made() -> None:
    assert paths.run_numbers(os.path.basename(paths.run_path("/d", range(3, 70)))) == range(3, 70)
    assert paths.done_first(os.path.basename(paths.done_path("/d", 64))) == 64
    assert [paths.run_numbers(name) for name in ("a.run", "1-2.run.new", "1-2", "1-x.run")] == [None] * 4
    assert [paths.done_first(name) for name in ("x.done", "64", "64.done.new")] == [None] * 3


def test_a_parked_log_is_an_ordinary_log(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        delayed = store.topic("orders").put(b"a", tag="eu", delay=9.0)

        with Log.open(tmp_path / "topics" / "orders" / "delayed" / "minute", read_only=True) as log:
            (message,) = log.read(0)
        assert (message.body, message.tag, message.corr_offset) == (b"a", "eu", delayed.due_us)
