"""The keeper: calls each duty when it is due, immediately when the store is rung, and survives their errors."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_clock import SimulatedClock
from warren.clock import SYSTEM_CLOCK, Clock
from warren.queue.state.housekeeping import PAUSE_AFTER_ERROR_S, Duty, Keeper
from warren.queue.state.wakeup import Wakeup

PATIENCE_S = 30.0


def new_keeper(path: Path, *, clock: Clock = SYSTEM_CLOCK, threaded: bool = False) -> Keeper:
    return Keeper(Wakeup(QUICK_DISK, str(path / "wakeup"), clock), clock, threaded=threaded)


def noted(calls: list[str], name: str, again_s: float) -> Duty:
    """Returns a duty that records its name in `calls`."""

    def duty() -> float:
        calls.append(name)
        return again_s

    return duty


def test_duties_are_called_when_their_time_has_come(tmp_path: Path) -> None:
    clock = SimulatedClock()
    keeper = new_keeper(tmp_path, clock=clock)
    calls: list[str] = []
    keeper.add(noted(calls, "often", 1.0))
    keeper.add(noted(calls, "rarely", 10.0))

    assert keeper.keep(all_of_them=False) == pytest.approx(1.0)
    clock.sleep(1.0)
    assert keeper.keep(all_of_them=False) == pytest.approx(1.0)
    assert calls == ["often", "rarely", "often"]
    keeper.keep()
    assert calls == ["often", "rarely", "often", "often", "rarely"]


def test_a_duty_that_does_not_listen_is_called_at_its_own_times_alone(tmp_path: Path) -> None:
    clock = SimulatedClock()
    keeper = new_keeper(tmp_path, clock=clock)
    calls: list[str] = []
    keeper.add(noted(calls, "listens", 10.0))
    keeper.add(noted(calls, "deaf", 10.0), listens=False)
    keeper.keep()

    keeper.keep(all_of_them=False, is_rung=True)
    assert calls == ["listens", "deaf", "listens"]
    clock.sleep(10.0)
    keeper.keep(all_of_them=False)

    assert calls[3:] == ["listens", "deaf"]


def test_a_duty_that_was_removed_is_not_called(tmp_path: Path) -> None:
    keeper = new_keeper(tmp_path)
    calls: list[str] = []
    duty = noted(calls, "once", 1.0)
    keeper.add(duty)
    keeper.keep()
    keeper.remove(duty)
    keeper.keep()

    assert calls == ["once"]


def test_a_duty_that_is_removed_while_others_are_called_is_not_called_either(tmp_path: Path) -> None:
    keeper = new_keeper(tmp_path)
    calls: list[str] = []
    late = noted(calls, "late", 1.0)

    def early() -> float:
        keeper.remove(late)
        return 1.0

    keeper.add(early)
    keeper.add(late)
    keeper.keep()

    assert calls == []


def test_a_duty_may_remove_itself_and_be_removed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    keeper = new_keeper(tmp_path, clock=clock)

    def last() -> float:
        keeper.remove(last)
        return 0.0

    keeper.add(last)
    keeper.keep()
    keeper.remove(last)

    assert caplog.records == []
    assert keeper.keep() > 0


def test_a_failed_duty_is_logged_and_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    keeper = new_keeper(tmp_path, clock=clock)
    calls: list[str] = []

    is_lucky = threading.Event()

    def fails() -> float:
        calls.append("fails")
        if not is_lucky.is_set():
            raise OSError("no such luck")
        return 1.0

    keeper.add(fails)
    keeper.add(noted(calls, "works", 5.0))

    with caplog.at_level(logging.ERROR, "warren"):
        wait_s = keeper.keep()

    assert wait_s == pytest.approx(PAUSE_AFTER_ERROR_S)
    assert calls == ["fails", "works"]
    assert "no such luck" in caplog.text
    assert len(caplog.records) == 1
    keeper.keep()
    assert len(caplog.records) == 1
    is_lucky.set()
    keeper.keep()
    is_lucky.clear()
    keeper.keep()
    assert len(caplog.records) == 2


def test_the_thread_calls_immediately_when_the_store_is_rung(tmp_path: Path) -> None:
    keeper = new_keeper(tmp_path, threaded=True)
    called = threading.Semaphore(0)

    def duty() -> float:
        called.release()
        return 3600.0

    keeper.add(duty)
    assert called.acquire(timeout=PATIENCE_S)
    while called.acquire(timeout=0.3):
        pass
    other = Wakeup(QUICK_DISK, str(tmp_path / "wakeup"), SYSTEM_CLOCK)

    other.ring()

    assert called.acquire(timeout=PATIENCE_S)
    keeper.stop()
    assert "warren-keeper" not in {thread.name for thread in threading.enumerate()}
