"""Background work runs when it is due, in order, in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.simulated_clock import SimulatedClock
from warren.clock import SYSTEM_CLOCK
from warren.storage.append.background_sync import AtOnce, BackgroundThread, process_background

TIMEOUT_S = 30.0


class Notes:
    """The jobs that ran, and their threads."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.threads: set[str] = set()
        self._count = threading.Semaphore(0)

    def job(self, name: str) -> Callable[[], None]:
        def do() -> None:
            self.done.append(name)
            self.threads.add(threading.current_thread().name)
            self._count.release()

        return do

    def wait(self, count: int) -> list[str]:
        for _ in range(count):
            assert self._count.acquire(timeout=TIMEOUT_S)
        return self.done


def test_jobs_are_done_by_one_thread_in_the_order_in_which_they_are_due() -> None:
    background, notes = BackgroundThread(SYSTEM_CLOCK), Notes()

    background.schedule(0.2, notes.job("last"))
    background.schedule(0.05, notes.job("second"))
    background.schedule(0.0, notes.job("first"))

    assert notes.wait(3) == ["first", "second", "last"]
    assert notes.threads == {"warren-background"}


def test_a_job_is_not_done_before_it_is_due() -> None:
    clock = SimulatedClock()
    background, notes = BackgroundThread(clock), Notes()
    background.schedule(3600.0, notes.job("in an hour"))
    for number in range(20):
        # Each of these wakes the thread, and none of them makes the first one due.
        background.schedule(7200.0 + number, notes.job("much later"))
        background.schedule(0.0, notes.job("now"))
        notes.wait(1)
    assert notes.done == ["now"] * 20

    clock.pass_ns(3600 * 10**9)
    background.schedule(0.0, notes.job("now"))

    assert notes.wait(2)[20:] == ["in an hour", "now"]


def test_jobs_due_at_the_same_time_run_in_the_order_in_which_they_came() -> None:
    background, notes = BackgroundThread(SYSTEM_CLOCK), Notes()

    for number in range(50):
        background.schedule(0.0, notes.job(str(number)))

    assert notes.wait(50) == [str(number) for number in range(50)]


def test_a_job_may_schedule_another() -> None:
    background, notes = BackgroundThread(SYSTEM_CLOCK), Notes()

    background.schedule(0.0, lambda: background.schedule(0.0, notes.job("second")))

    assert notes.wait(1) == ["second"]


def test_no_thread_is_started_before_there_is_work() -> None:
    before = threading.active_count()

    background = BackgroundThread(SYSTEM_CLOCK)

    assert threading.active_count() == before
    notes = Notes()
    background.schedule(0.0, notes.job("first"))
    notes.wait(1)
    assert threading.active_count() == before + 1


def test_the_thread_does_not_keep_the_process_alive() -> None:
    background, notes = BackgroundThread(SYSTEM_CLOCK), Notes()
    background.schedule(0.0, notes.job("first"))
    notes.wait(1)

    thread = next(each for each in threading.enumerate() if each.name == "warren-background")

    assert thread.daemon


def test_a_child_starts_without_the_jobs_and_the_thread_of_its_parent() -> None:
    background, notes = BackgroundThread(SYSTEM_CLOCK), Notes()
    background.schedule(3600.0, notes.job("of the parent"))

    background.after_fork()
    background.schedule(0.0, notes.job("of the child"))

    assert notes.wait(1) == ["of the child"]


def test_a_process_has_one_background() -> None:
    assert isinstance(process_background(), BackgroundThread)
    assert process_background() is process_background()


def test_without_a_thread_a_job_runs_in_the_thread_that_schedules_it() -> None:
    notes = Notes()

    AtOnce().schedule(60.0, notes.job("now"))

    assert notes.done == ["now"]
    assert notes.threads == {threading.current_thread().name}
