"""The lease clock counts from the sending of a request, and never reports more than is certain."""

from __future__ import annotations

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.registry.lease_clock import LeaseClock


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def lease(clock: SimulatedClock) -> LeaseClock:
    return LeaseClock(6.0, clock)


def test_without_an_answer_no_session_is_certain(lease: LeaseClock) -> None:
    assert lease.remaining_s() == 0


def test_the_session_counts_from_when_the_answered_request_was_sent(lease: LeaseClock, clock: SimulatedClock) -> None:
    sent_s = lease.sent()
    clock.sleep(2)

    lease.answered(sent_s)

    assert lease.remaining_s() == 4


def test_silence_for_the_session_timeout_means_lost(lease: LeaseClock, clock: SimulatedClock) -> None:
    lease.answered(lease.sent())

    clock.sleep(5.5)
    assert lease.remaining_s() == 0.5
    clock.sleep(0.5)
    assert lease.remaining_s() == 0
    clock.sleep(100)
    assert lease.remaining_s() == 0


def test_a_wall_clock_that_is_set_back_changes_nothing(lease: LeaseClock, clock: SimulatedClock) -> None:
    lease.answered(lease.sent())
    clock.sleep(5)

    clock.set_back_ns(10**12)

    assert lease.remaining_s() == 1


def test_answers_in_another_order_do_not_shorten_the_lease(lease: LeaseClock, clock: SimulatedClock) -> None:
    first_s = lease.sent()
    clock.sleep(3)
    second_s = lease.sent()

    lease.answered(second_s)
    lease.answered(first_s)

    assert lease.remaining_s() == 6


def test_an_answer_of_an_older_session_gives_the_new_one_no_time(lease: LeaseClock, clock: SimulatedClock) -> None:
    sent_s = lease.sent()
    clock.sleep(1)

    lease.over()
    lease.answered(sent_s)

    assert lease.remaining_s() == 0
    lease.answered(lease.sent())
    assert lease.remaining_s() == 6


def test_the_server_decides_how_long_a_session_lasts(lease: LeaseClock) -> None:
    lease.agreed(2.0)
    lease.answered(lease.sent())

    assert lease.session_s == lease.remaining_s() == 2
