"""One log and many processes: numbers, locks, wakes, and what a fork child may do."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.storage import workers
from tests.integration.storage.workers import open_log
from tests.support.fork import in_child
from tests.support.moody_filesystem import MoodyFileSystem
from warren.errors import LogClosed, LogLocked
from warren.storage import Log
from warren.storage.disk.open_files import Residents

SPAWN = multiprocessing.get_context("spawn")
TIMEOUT_S = 60.0
SOON_S = 20.0

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Worker:
    """A newly started process, and the pipe to it."""

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: BaseProcess = SPAWN.Process(target=target, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self) -> Any:
        assert self.pipe.poll(TIMEOUT_S), "the process tells nothing"
        return self.pipe.recv()

    def send(self, value: object) -> None:
        self.pipe.send(value)

    def end(self) -> None:
        self.process.join(TIMEOUT_S)
        assert self.process.exitcode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.join(TIMEOUT_S)


@contextmanager
def working(*workers_started: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers_started:
            worker.process.kill()
            worker.process.join(TIMEOUT_S)


def bodies(log: Log) -> list[bytes]:
    return [message.body for message in log.read(log.first, limit=100_000)]


# --- Appending together ---


@pytest.mark.parametrize("version", [1, 2])
def test_processes_append_together_without_loss_and_in_their_order(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "log")
    open_log(path, version=version).close()
    names = {"commit": 60, "os": 600, "interval:5ms": 600}
    started = {name: Worker(workers.append, path, name, count, name) for name, count in names.items()}
    with working(*started.values()):
        for worker in started.values():
            assert worker.receive() == "ready"
        for worker in started.values():
            worker.send("go")
        numbers = {name: worker.receive() for name, worker in started.items()}
        for worker in started.values():
            worker.end()

    with open_log(path) as log:
        stored = bodies(log)
        assert log.recovery is None
        assert log.verify().messages == sum(names.values())
        assert log.inspect().max_block_count > 1
    assert sorted(number for each in numbers.values() for number in each) == list(range(sum(names.values())))
    for name, count in names.items():
        assert numbers[name] == sorted(numbers[name])
        expected = [f"{name}:{place}".encode() for place in range(count)]
        assert [stored[number] for number in numbers[name]] == expected


def test_processes_may_create_the_same_log_at_the_same_time(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "log")
    started = [Worker(workers.create, path, 1 + place % 2) for place in range(4)]
    with working(*started):
        for worker in started:
            assert worker.receive() == "ready"
        for worker in started:
            worker.send("go")

        numbers = [worker.receive() for worker in started]

    assert sorted(numbers) == [0, 1, 2, 3]
    with open_log(path) as log:
        assert log.verify().messages == 4


# --- Keeping a log for oneself ---


def test_an_exclusive_writer_keeps_others_out_until_it_closes(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    early = open_log(path, durability="os")
    early.append(b"early")
    holder = Worker(workers.hold, path)
    with working(holder):
        pid = holder.receive()

        for options in ({"exclusive": True}, {}, {"durability": "os"}):
            with pytest.raises(LogLocked, match=f"is locked for writing by process {pid}") as locked:
                open_log(path, **options)
            assert (locked.value.pid, locked.value.path, locked.value.retryable) == (pid, path, True)
        retire = partial(early.retire, before=1, exactly=True)
        for use in (lambda: early.append(b"no"), lambda: early.append_many([b"no"]), retire):
            with pytest.raises(LogLocked) as locked:
                use()
            assert locked.value.pid == pid
        assert bodies(early) == [b"early", b"mine"]
        with Log.open(path, read_only=True) as reading:
            assert bodies(reading) == [b"early", b"mine"]
            assert reading.inspect().writing == pid

        holder.send("close")
        assert holder.receive() == "closed"

    assert early.append(b"late").number == 2
    early.close()
    with open_log(path, exclusive=True) as log:
        assert bodies(log) == [b"early", b"mine", b"late"]
        assert log.recovery is None


def test_a_killed_exclusive_writer_frees_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    holder = Worker(workers.hold, path)
    with working(holder):
        holder.receive()
        holder.kill()

    with open_log(path) as log:
        assert log.recovery is not None
        assert log.append(b"after").number == 1
        assert bodies(log) == [b"mine", b"after"]
    with open_log(path, exclusive=True) as log:
        assert log.append(b"again").number == 2


def test_a_killed_exclusive_writer_frees_the_log_for_open_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    early = open_log(path, durability="os")
    holder = Worker(workers.hold, path)
    with working(holder):
        holder.receive()
        holder.kill()

    assert early.append(b"after").number == 1
    assert early.recovery is not None
    assert bodies(early) == [b"mine", b"after"]


def test_a_second_exclusive_writer_in_the_same_process_is_kept_out_too(tmp_path: Path) -> None:
    with open_log(str(tmp_path), exclusive=True) as log:
        with pytest.raises(LogLocked) as locked:
            open_log(str(tmp_path), exclusive=True)

        assert locked.value.pid == os.getpid()
        assert log.append(b"one").number == 0


def test_an_exclusive_writer_is_not_kept_out_by_occasional_appenders(tmp_path: Path) -> None:
    with open_log(str(tmp_path)) as shared:
        shared.append(b"one")

        with open_log(str(tmp_path), exclusive=True) as exclusive:
            assert exclusive.append(b"two").number == 1
            with pytest.raises(LogLocked):
                shared.append(b"no")

        assert shared.append(b"three").number == 2


# --- Waking ---


@pytest.mark.parametrize("read_only", [False, True])
def test_a_process_that_waits_is_woken_by_an_append_here(tmp_path: Path, read_only: bool) -> None:
    path = str(tmp_path / "log")
    log = open_log(path, durability="os")
    log.append(b"first")
    log.reader("billing")
    waiter = Worker(workers.wait_for, path, read_only)
    with working(waiter):
        assert waiter.receive() == "waiting"
        time.sleep(0.05)
        started = time.monotonic()

        log.append(b"wake up")

        assert waiter.receive() == [b"wake up"]
        assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_an_append_of_another_process_wakes_a_waiting_reader(tmp_path: Path, durability: str) -> None:
    path = str(tmp_path / "log")
    appender = Worker(workers.append_when_told, path, durability)
    with working(appender):
        assert appender.receive() == "ready"
        log = open_log(path)
        reader = log.reader("billing")
        assert [message.body for message in reader.read()] == [b"first"]
        timer = threading.Timer(0.05, lambda: appender.send(b"wake up"))
        timer.start()
        started = time.monotonic()

        messages = [message.body for message in reader.read(wait=TIMEOUT_S)]

        assert messages == [b"wake up"]
        assert time.monotonic() - started < SOON_S
        timer.join()
        appender.send(b"")
        appender.end()


# --- Fork ---


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("durability", ["commit", "os", "interval:20ms"])
def test_a_fork_child_appends_and_reads_and_so_does_its_parent(tmp_path: Path, version: int, durability: str) -> None:
    log = open_log(str(tmp_path), version=version, durability=durability)
    reader = log.reader("billing")
    log.append(b"parent 0")

    def work() -> object:
        numbers = [log.append(b"child %d" % place).number for place in range(20)]
        numbers += log.append_many([b"child 20", b"child 21"])
        messages = [message.body for message in reader.read()]
        reader.commit()
        log.close()
        return numbers, messages, log.recovery

    numbers, messages, recovery = in_child(work)

    assert numbers == list(range(1, 23))
    assert messages == [b"parent 0", *(b"child %d" % place for place in range(22))]
    assert recovery is None
    assert log.append(b"parent 1").number == 23
    assert log.reader("billing").position == 23
    assert log.recovery is None
    assert log.verify().messages == 24


def test_parent_and_child_append_at_the_same_time(tmp_path: Path) -> None:
    log = open_log(str(tmp_path), durability="os")
    log.append(b"first")
    child = os.fork()
    if not child:
        for _ in range(300):
            log.append(b"child")
        os._exit(0)

    numbers = [log.append(b"parent").number for _ in range(300)]

    _, status = os.waitpid(child, 0)
    assert status == 0
    assert len(set(numbers)) == 300
    stored = bodies(log)
    assert (stored.count(b"parent"), stored.count(b"child")) == (300, 300)
    assert [stored[number] for number in numbers] == [b"parent"] * 300
    log.verify()


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_a_child_of_an_exclusive_writer_may_read_and_not_append(tmp_path: Path, durability: str) -> None:
    log = open_log(str(tmp_path), durability=durability, exclusive=True)
    log.append(b"parent")

    refused = in_child(lambda: log.append(b"child"))
    stored = in_child(lambda: bodies(log))
    locked = in_child(lambda: open_log(str(tmp_path)))

    assert refused[0] == LogClosed.__name__
    assert "exclusive=True by the parent" in refused[1]
    assert stored == [b"parent"]
    assert locked[0] == LogLocked.__name__
    with pytest.raises(LogLocked):
        open_log(str(tmp_path), exclusive=True)
    assert log.append(b"parent").number == 1
    log.close()
    with open_log(str(tmp_path), exclusive=True) as other:
        assert bodies(other) == [b"parent"] * 2


def test_a_child_that_closes_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    log = open_log(str(tmp_path), exclusive=True)
    log.append(b"parent")

    in_child(log.close)

    with pytest.raises(LogLocked):
        open_log(str(tmp_path))
    assert log.append(b"parent").number == 1
    assert log.recovery is None


def test_a_child_of_an_exclusive_writer_that_rested_may_not_append_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Residents(4)
    os.register_at_fork(after_in_child=few.after_fork)
    monkeypatch.setattr("warren.storage.append.open.process_residents", lambda: few)
    log = open_log(str(tmp_path / "exclusive"), durability="os", exclusive=True)
    log.append(b"parent")
    others = [open_log(str(tmp_path / str(number)), durability="os") for number in range(4)]
    for other in others:
        other.append(b"other")
    assert log._files.file_count == 0

    refused = in_child(lambda: log.append(b"child"))

    assert refused[0] == LogClosed.__name__
    assert log.append(b"parent").number == 1


def test_a_child_syncs_its_own_intervals(tmp_path: Path) -> None:
    log = open_log(str(tmp_path), durability="interval:20ms")
    log.append(b"parent")

    def work() -> bool:
        log.append(b"child")
        deadline = time.monotonic() + SOON_S
        while log.inspect().synced < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        return log.inspect().synced == 2

    assert in_child(work)


def test_a_fork_during_a_commit_of_another_thread_does_not_deadlock(tmp_path: Path) -> None:
    disk = MoodyFileSystem(really_syncs=False)
    log = open_log(str(tmp_path), filesystem=disk)
    log.append(b"first")
    while disk.syncs_waiting.acquire(blocking=False):
        pass
    disk.gate.clear()
    thread = threading.Thread(target=log.append, args=(b"in the middle",))
    thread.start()
    assert disk.syncs_waiting.acquire(timeout=TIMEOUT_S)
    threading.Timer(0.1, disk.gate.set).start()

    def work() -> int:
        disk.gate = threading.Event()
        disk.gate.set()
        return log.append(b"child").number

    assert in_child(work) == 2
    thread.join(TIMEOUT_S)
    assert bodies(log) == [b"first", b"in the middle", b"child"]


def test_a_child_that_waits_is_woken_by_its_parent(tmp_path: Path) -> None:
    log = open_log(str(tmp_path), durability="os")
    log.append(b"first")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"w")
        os._exit(0 if log.wait(1, TIMEOUT_S) else 1)
    os.read(reading, 1)
    time.sleep(0.05)
    started = time.monotonic()

    log.append(b"wake up")

    _, status = os.waitpid(child, 0)
    assert (status, time.monotonic() - started < SOON_S) == (0, True)
    os.close(reading)
    os.close(writing)
