"""Waiting for messages: woken by an append, at the latest after the time limit, at almost no cost."""

from __future__ import annotations

import mmap
import threading
import time
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import SimulatedClock
from warren.clock import SYSTEM_CLOCK
from warren.storage import Log
from warren.storage.disk import notify as bell_module
from warren.storage.disk.notify import SLEEP_S_MAX, Bell
from warren.storage.log import wait_for_any

LONG_S = 60.0
SOON_S = 15.0
"""Far more than a wakeup takes, and far less than the time limit of the wait."""


class Waiter(threading.Thread):
    """Waits in its own thread, and records what it got and how long that took."""

    def __init__(self, log: Log, *, number: int = 0, tag: str | None = None) -> None:
        super().__init__(daemon=True)
        self._reader = log.reader("billing") if tag is None else log.reader("billing", tag=tag)
        self._reader.seek(number)
        self.bodies: list[bytes] = []
        self.took_s = LONG_S
        self.start()

    def run(self) -> None:
        started = time.monotonic()
        self.bodies = [message.body for message in self._reader.read(wait=LONG_S)]
        self.took_s = time.monotonic() - started

    def finish(self) -> list[bytes]:
        self.join(LONG_S)
        assert not self.is_alive()
        return self.bodies


def wait_for_waiter(log: Log) -> None:
    """Returns when a reader waits."""
    deadline = time.monotonic() + SOON_S
    while not log._files.index().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(0.02)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize("durability", ["commit", "os", "interval:50ms"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_an_append_wakes_a_waiting_reader(tmp_path: Path, version: int, durability: str, exclusive: bool) -> None:
    log = quick_log(tmp_path, version=version, durability=durability, exclusive=exclusive)
    log.append(b"before")
    waiter = Waiter(log, number=1)
    wait_for_waiter(log)

    log.append(b"here")

    assert waiter.finish() == [b"here"]
    assert waiter.took_s < SOON_S


def test_a_batch_wakes_a_waiting_reader(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    waiter = Waiter(log)
    wait_for_waiter(log)

    log.append_many([b"one", b"two"])

    assert waiter.finish() == [b"one", b"two"]


def test_another_log_object_wakes_a_waiting_reader(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    waiter = Waiter(log)
    wait_for_waiter(log)

    with quick_log(tmp_path) as other:
        other.append(b"here")

    assert waiter.finish() == [b"here"]


def test_a_reader_of_a_read_only_log_is_woken_too(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    log.reader("billing")
    waiter = Waiter(quick_log(tmp_path, read_only=True))

    log.append(b"here")

    assert waiter.finish() == [b"here"]


def test_a_message_that_does_not_pass_the_filter_does_not_end_the_wait(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    waiter = Waiter(log, tag="eu.*")
    wait_for_waiter(log)

    for _ in range(5):
        log.append(b"no", tag="us.ny")
    log.append_many([b"no"] * 3)
    log.append(b"yes", tag="eu.de")

    assert waiter.finish() == [b"yes"]


def test_a_replaced_index_still_wakes_a_waiting_reader(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version, block_size=4096, max_block_count=1)
    waiter = Waiter(log, tag="eu.*")
    wait_for_waiter(log)

    for _ in range(20):
        log.append(bytes(1000))
    log.extension = {"topic": "orders"}
    log.append(b"yes", tag="eu.de")

    assert waiter.finish() == [b"yes"]


def test_an_existing_message_is_returned_without_a_wait(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    log.append(b"here")
    reader = log.reader("billing")

    started = time.monotonic()

    assert [message.body for message in reader.read(wait=LONG_S)] == [b"here"]
    assert time.monotonic() - started < SOON_S


def test_a_wait_ends_when_its_time_is_over(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    started = time.monotonic()

    assert log.reader("billing").read(wait=0.05) == []
    assert not log.wait(0, 0.05)
    assert 0.1 <= time.monotonic() - started < SOON_S


def test_without_a_time_a_call_does_not_wait(tmp_path: Path) -> None:
    log = quick_log(tmp_path, read_only=False, clock=SimulatedClock())

    assert log.reader("billing").read() == []
    assert not log.wait(0, 0.0)


def test_a_wait_returns_whether_the_message_exists(tmp_path: Path, version: int) -> None:
    log = quick_log(tmp_path, version=version)
    log.append(b"zero")

    assert log.wait(0, 0.0)
    assert log.wait(0, LONG_S)
    assert not log.wait(1, 0.0)


def test_waiting_costs_hardly_any_cpu_time(tmp_path: Path) -> None:
    log = quick_log(tmp_path)
    log.append(b"zero")
    before = time.thread_time()

    log.wait(1, 0.6)

    assert time.thread_time() - before < 0.1


def test_the_bell_does_not_ring_for_a_wait_that_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(Bell, "ring", lambda self: rung.append(True))
    clock = SimulatedClock()
    log = quick_log(tmp_path, durability="commit", clock=clock)
    log.append(b"no reader waits")
    assert rung == []
    log.wait(1, 0.0)
    log.append(b"a reader waits")
    assert rung == [True]

    clock.pass_ns(int(3 * SLEEP_S_MAX * 1e9))
    log.append(b"long ago")

    assert rung == [True]


# --- The bell ---


def test_a_bell_wakes_a_sleeping_thread() -> None:
    view = mmap.mmap(-1, 4096)
    bell, woken = Bell(view, 24, SYSTEM_CLOCK, writable=True), threading.Event()
    value = bell.value()

    def sleep() -> None:
        deadline = time.monotonic() + SOON_S
        while bell.value() == value and time.monotonic() < deadline:
            bell.sleep(value, LONG_S)
        woken.set()

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    view[24] = 1
    Bell(view, 24, SYSTEM_CLOCK, writable=True).ring()

    assert woken.wait(SOON_S)


def test_a_bell_whose_word_has_changed_does_not_let_a_thread_sleep() -> None:
    view = mmap.mmap(-1, 4096)
    bell = Bell(view, 24, SYSTEM_CLOCK, writable=True)
    value = bell.value()
    view[24] = 1
    started = time.monotonic()

    for _ in range(100):
        bell.sleep(value, LONG_S)

    assert time.monotonic() - started < 100 * SLEEP_S_MAX / 2


def test_a_sleep_is_no_longer_than_requested_and_no_longer_than_a_stretch() -> None:
    bell = Bell(mmap.mmap(-1, 4096), 24, SYSTEM_CLOCK, writable=True)
    started = time.monotonic()

    bell.sleep(0, 0.01)
    bell.sleep(0, LONG_S)

    assert SLEEP_S_MAX <= time.monotonic() - started < SOON_S


@pytest.mark.parametrize("writable", [True, False])
def test_without_futexes_the_word_is_polled_every_few_ms(writable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    if writable:
        monkeypatch.setattr(bell_module, "_futex", lambda: None)
    bell = Bell(mmap.mmap(-1, 4096), 24, clock, writable=writable)

    bell.sleep(bell.value(), LONG_S)
    bell.sleep(bell.value(), 0.0005)
    bell.ring()

    assert clock.steady_s() == pytest.approx(0.0025)


def test_without_futexes_a_wait_for_a_log_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell_module, "_futex", lambda: None)
    log = quick_log(tmp_path)
    waiter = Waiter(log)
    wait_for_waiter(log)

    log.append(b"here")

    assert waiter.finish() == [b"here"]
    assert waiter.took_s < SOON_S


def test_an_unknown_machine_has_no_futex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")

    assert bell_module._futex.__wrapped__() is None


@pytest.mark.parametrize("grows", range(3))
def test_a_wait_for_several_logs_is_woken_by_any(tmp_path: Path, version: int, grows: int) -> None:
    logs = [quick_log(tmp_path / str(number), version=version) for number in range(3)]
    ends = [(log, 0) for log in logs]
    results: list[bool] = []
    started = time.monotonic()

    def wait() -> None:
        while not wait_for_any(ends, LONG_S):
            assert time.monotonic() - started < LONG_S
        results.append(True)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    wait_for_waiter(logs[grows])

    logs[grows].append(b"here")

    waiter.join(SOON_S)
    assert results == [True]


def test_a_wait_for_several_logs_ends_when_its_time_is_over(tmp_path: Path) -> None:
    logs = [quick_log(tmp_path / str(number)) for number in range(2)]

    assert not wait_for_any([(log, 0) for log in logs], 0.01)

    logs[1].append(b"here")
    assert wait_for_any([(log, 0) for log in logs], LONG_S)


def test_more_logs_than_one_call_takes_are_checked_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell_module, "FUTEX_WAIT_ANY_MAX", 1)
    clock = SimulatedClock()
    logs = [quick_log(tmp_path / str(number)) for number in range(2)]
    before = clock.steady_s()

    assert not wait_for_any([(log, 0) for log in logs], LONG_S, clock)

    assert clock.steady_s() - before == pytest.approx(bell_module.POLL_S)
