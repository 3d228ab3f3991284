"""How a client waits for an answer: spinning if the last one came quickly, and never in two threads of a process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.client.net import spin_wait
from warren.client.net.spin_wait import CLIENT_AWAKE_S_MAX, SpinWait


class Ticking(SimulatedClock):
    """A clock on which each reading takes some time."""

    tick_s = CLIENT_AWAKE_S_MAX / 100

    def steady_s(self) -> float:
        self.sleep(self.tick_s)
        return super().steady_s()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def answered(waiting: SpinWait, clock: SimulatedClock, seconds: float) -> None:
    waiting.begin()
    clock.sleep(seconds)
    waiting.end()


def awake_s(waiting: SpinWait, clock: SimulatedClock) -> float:
    """Returns how long it spins for an answer that does not come."""
    waiting.begin()
    start_s = SimulatedClock.steady_s(clock)
    waiting.stay_awake()
    return SimulatedClock.steady_s(clock) - start_s


def test_no_thread_spins_for_the_first_answer(ends: tuple[socket.socket, socket.socket]) -> None:
    clock = Ticking()

    assert awake_s(SpinWait(ends[0], clock, has_cores=True), clock) == 0


def test_after_a_fast_answer_the_next_wait_spins_up_to_the_limit(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    clock = Ticking()
    waiting = SpinWait(ends[0], clock, has_cores=True)
    answered(waiting, clock, CLIENT_AWAKE_S_MAX / 2)

    assert awake_s(waiting, clock) == pytest.approx(CLIENT_AWAKE_S_MAX, rel=0.05)


def test_spinning_ends_with_the_answer(ends: tuple[socket.socket, socket.socket]) -> None:
    clock = Ticking()
    waiting = SpinWait(ends[0], clock, has_cores=True)
    answered(waiting, clock, 0.0)
    ends[1].send(b"x")

    assert waiting.has_come()
    assert awake_s(waiting, clock) == 0


def test_after_a_slow_answer_no_thread_spins(ends: tuple[socket.socket, socket.socket]) -> None:
    clock = Ticking()
    waiting = SpinWait(ends[0], clock, has_cores=True)
    answered(waiting, clock, 0.0)
    answered(waiting, clock, CLIENT_AWAKE_S_MAX * 2)

    assert awake_s(waiting, clock) == 0


def test_on_a_single_core_no_thread_spins(ends: tuple[socket.socket, socket.socket]) -> None:
    clock = Ticking()
    waiting = SpinWait(ends[0], clock, has_cores=False)
    answered(waiting, clock, 0.0)

    assert awake_s(waiting, clock) == 0


def test_only_one_thread_spins(ends: tuple[socket.socket, socket.socket]) -> None:
    clock = Ticking()
    waiting = SpinWait(ends[0], clock, has_cores=True)
    answered(waiting, clock, 0.0)

    with spin_wait.AWAKE:
        assert awake_s(waiting, clock) == 0
    seconds: list[float] = []
    other = threading.Thread(target=lambda: seconds.append(awake_s(waiting, clock)))
    other.start()
    other.join()
    assert seconds[0] > 0
