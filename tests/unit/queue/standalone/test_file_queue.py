"""A queue file as `queue.Queue`, with threads, other openers, children, and concurrent closes."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import WatchedDisk
from tests.support.patience import SHORT_S, WAIT_S, until_waiting
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from tests.support.store.queue_files import NAME, opened_queue, queue_path, quick, still_clock, worker_threads  # noqa: F401
from warren.errors import BadInput, LogClosed, LogLocked, NotAQueueFile
from warren.queue.standalone.file_queue import FileQueue, open_file

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
        waiting = threads.submit(jobs.get, True, WAIT_S)
        until_waiting(jobs._shared.changed)

        jobs.push(b"a")

        assert waiting.result(WAIT_S) == b"a"


def test_a_push_wakes_immediately(path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.standalone.file_queue.QUEUE_FILE_LOOK_S", 1000.0)
    with quick(path) as jobs:
        waiting = threads.submit(jobs.get, True, WAIT_S)
        until_waiting(jobs._shared.changed)

        jobs.push(b"a")

        assert waiting.result(WAIT_S / 2) == b"a"


@pytest.mark.parametrize("last", [FileQueue.pull, FileQueue.task_done])
def test_a_join_is_woken_immediately(
    path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, last: Callable[[FileQueue], object]
) -> None:
    monkeypatch.setattr("warren.queue.standalone.file_queue.QUEUE_FILE_LOOK_S", 1000.0)
    with quick(path) as jobs:
        jobs.push(b"a")
        if last is FileQueue.task_done:
            jobs.get()
        joined = threads.submit(jobs.join)
        until_waiting(jobs._shared.changed)

        last(jobs)

        assert joined.result(WAIT_S / 2) is None
        assert jobs.empty()


def test_a_waiting_get_receives_the_push_of_another_opener(path: Path, threads: ThreadPoolExecutor) -> None:
    with quick(path) as jobs, quick(path) as other:
        waiting = threads.submit(jobs.get, True, WAIT_S)
        until_waiting(jobs._shared.changed)

        other.push(b"a")

        assert waiting.result(WAIT_S) == b"a"


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
        until_waiting(jobs._shared.changed)
        assert not joined.done(), "a message is left"
        jobs.get()
        until_waiting(jobs._shared.changed)
        assert not joined.done(), "a task is left"

        jobs.task_done()

        joined.result(WAIT_S)
        with pytest.raises(BadInput, match="task_done"):
            jobs.task_done()


def test_a_pull_does_not_count_as_a_task(jobs: FileQueue) -> None:
    jobs.put(b"a")
    jobs.pull()

    jobs.join()
    assert jobs.empty()
    with pytest.raises(BadInput, match="task_done"):
        jobs.task_done()


# --- Company ---


def test_openers_see_each_others_changes_also_after_an_optimisation(path: Path) -> None:
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


def test_a_lock_that_stays_held_is_an_error(clock: SimulatedClock) -> None:
    disk = SimulatedFileSystem()
    with open_file("/jobs.bunny", filesystem=disk, clock=clock) as jobs:
        lock = disk.lock("/jobs.bunny.lock")
        lock.try_acquire()
        lock.note_holder(7)
        with pytest.raises(LogLocked) as caught:
            jobs.push(b"a")
        assert caught.value.pid == 7
        assert clock.steady_s() >= 30
        assert disk.calls < 10_000, "it polled as often at the end as at the beginning"

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
def test_a_closed_queue_raises(jobs: FileQueue, call: Callable[[FileQueue], object]) -> None:
    jobs.close()
    jobs.close()

    with pytest.raises(LogClosed, match="close"):
        call(jobs)


def test_a_queue_is_closed_at_the_end_of_its_block(path: Path) -> None:
    with quick(path) as jobs:
        pass

    with pytest.raises(LogClosed):
        jobs.pull()


def test_closing_wakes_waiting_calls(path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.queue.standalone.file_queue.QUEUE_FILE_LOOK_S", 1000.0)
    jobs = quick(path)
    waiting = threads.submit(jobs.get)
    until_waiting(jobs._shared.changed)

    jobs.close()

    assert isinstance(waiting.exception(WAIT_S), LogClosed)


def test_no_file_stays_open_between_two_operations_but_that_of_the_lock(path: Path) -> None:
    opened: list[Any] = []

    class Disk(WatchedDisk):
        """Keeps a reference to everything that it opened, so that only a `close` closes it."""

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


def test_a_file_queue_has_no_open_files_to_close_for_others(jobs: FileQueue) -> None:
    assert jobs._shared.file_count == 0
    assert not jobs._shared.rest()


# --- The chapter ---
