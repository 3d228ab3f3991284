"""Logins: failed attempts slow down the next ones from their address, and no others."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.http import running_http
from tests.support.broker.running import running_broker
from tests.support.simulated_clock import SimulatedClock
from warren.broker.broker import BROKER_THREADS
from warren.broker.security.logins import (
    LOGIN_DELAY_S_MAX,
    LOGIN_DELAY_S_MIN,
    LOGIN_FAILURES_FREE,
    LOGIN_FAILURES_FREE_IN_ALL,
    LOGIN_FAILURES_HALVED_S,
    LOGIN_FAILURES_REMEMBERED_MAX,
    LOGIN_THREADS,
    LOGIN_WAIT_S_MAX,
    Logins,
    Tries,
)
from warren.broker.settings import BrokerSettings
from warren.client.store import connect
from warren.errors import LoginFailed, TooManyLogins

PASSWORD = "a long password"
HERE, THERE = "10.0.0.1", "10.0.0.2"


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def tries(clock: SimulatedClock) -> Tries:
    return Tries(clock.steady_s)


def fail(tries: Tries, host: str, user: str, count: int) -> None:
    for _ in range(count):
        tries.failed(host, user)


def waits(tries: Tries, host: str, user: str, count: int) -> list[float]:
    return [round(tries.wait_s(host, user), 3) for _ in range(count)]


def test_the_first_failures_cost_nothing_and_the_following_ones_grow(clock: SimulatedClock, tries: Tries) -> None:
    fail(tries, HERE, "ann", LOGIN_FAILURES_FREE - 1)
    assert waits(tries, HERE, "ann", 2) == [0, 0]

    waits_s = []
    for _ in range(6):
        fail(tries, HERE, "ann", 1)
        # The attempt after the next one waits: one at a time is checked.
        tries.wait_s(HERE, "ann")
        waits_s.append(round(tries.wait_s(HERE, "ann"), 2))
        clock.sleep(LOGIN_WAIT_S_MAX)

    assert waits_s[0] == LOGIN_DELAY_S_MIN
    assert waits_s == sorted(waits_s)
    assert max(waits_s) <= LOGIN_DELAY_S_MAX


def test_logins_that_would_wait_too_long_are_refused_and_delay_no_other(clock: SimulatedClock, tries: Tries) -> None:
    fail(tries, HERE, "ann", 50)
    count = round(LOGIN_WAIT_S_MAX / LOGIN_DELAY_S_MAX) + 1
    assert waits(tries, HERE, "ann", count) == [LOGIN_DELAY_S_MAX * each for each in range(count)]

    for _ in range(100):
        with pytest.raises(TooManyLogins):
            tries.wait_s(HERE, "ann")

    clock.sleep(LOGIN_DELAY_S_MAX)
    assert tries.wait_s(HERE, "ann") == LOGIN_WAIT_S_MAX


def test_failures_at_other_addresses_slow_no_login_down(tries: Tries) -> None:
    fail(tries, HERE, "ann", 1000)

    assert waits(tries, THERE, "ann", 3) == [0, 0, 0]
    assert waits(tries, THERE, "bob", 3) == [0, 0, 0]


def test_failures_of_one_user_do_not_slow_down_another_at_the_same_address(tries: Tries) -> None:
    fail(tries, HERE, "ann", LOGIN_FAILURES_FREE_IN_ALL - 1)

    assert waits(tries, HERE, "bob", 3) == [0, 0, 0]


def test_an_address_that_tries_many_users_waits_except_for_users_that_logged_in_from_it(tries: Tries) -> None:
    tries.succeeded(HERE, "carol")
    for number in range(2 * LOGIN_FAILURES_FREE_IN_ALL):
        tries.failed(HERE, f"user-{number}")

    assert waits(tries, HERE, "bob", 2) == [0, LOGIN_DELAY_S_MAX]
    assert waits(tries, HERE, "carol", 3) == [0, 0, 0]


def test_a_user_that_many_addresses_try_is_slow_for_addresses_that_failed(tries: Tries) -> None:
    for number in range(2 * LOGIN_FAILURES_FREE_IN_ALL):
        tries.failed(f"10.1.0.{number}", "ann")

    assert waits(tries, "10.1.0.7", "ann", 2) == [0, LOGIN_DELAY_S_MAX]
    assert waits(tries, THERE, "ann", 2) == [0, 0]


def test_failures_are_forgotten_with_time(clock: SimulatedClock, tries: Tries) -> None:
    fail(tries, HERE, "ann", 2 * LOGIN_FAILURES_FREE)
    clock.sleep(1.1 * LOGIN_FAILURES_HALVED_S)

    assert waits(tries, HERE, "ann", 3) == [0, 0, 0]


def test_the_memory_of_failures_is_limited_and_the_oldest_is_evicted(tries: Tries) -> None:
    fail(tries, HERE, "ann", 50)
    for number in range(LOGIN_FAILURES_REMEMBERED_MAX):
        tries.failed(f"10.1.{number >> 8}.{number & 255}", "bob")
        tries.succeeded(f"10.1.{number >> 8}.{number & 255}", "bob")

    assert len(tries._records) <= LOGIN_FAILURES_REMEMBERED_MAX
    assert len(tries._proven) <= LOGIN_FAILURES_REMEMBERED_MAX
    assert waits(tries, HERE, "ann", 2) == [0, 0]


def test_passwords_are_checked_a_few_at_a_time_and_users_without_failures_go_first(clock: SimulatedClock) -> None:
    async def main() -> list[str]:
        logins, begun, gate = Logins(clock.steady_s), list[str](), threading.Event()
        for user in ("ann", "bob"):
            logins.tries.failed(HERE, user)

        def check(user: str) -> None:
            begun.append(user)
            gate.wait(30)

        users = ["first", "second", "ann", "bob", "clean"]
        tasks = [asyncio.create_task(logins.check(HERE, user, lambda user=user: check(user))) for user in users]  # type: ignore[misc]
        while len(begun) < LOGIN_THREADS:
            await asyncio.sleep(0.001)
        at_first = list(begun)
        gate.set()
        await asyncio.gather(*tasks)
        logins.close()
        assert at_first == ["first", "second"]
        return begun

    begun = asyncio.run(main())

    assert begun[2] == "clean"
    assert sorted(begun[3:]) == ["ann", "bob"]


def test_a_login_that_is_cancelled_while_it_waits_gives_its_turn_on(clock: SimulatedClock) -> None:
    async def main() -> int:
        logins, gate = Logins(clock.steady_s), threading.Event()
        tasks = [asyncio.create_task(logins.check(HERE, "ann", lambda: gate.wait(30))) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        logins.close()
        return sum(each is True for each in results)

    assert asyncio.run(main()) == 3


def test_after_wrong_passwords_a_user_is_refused_unchecked_and_other_users_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOGIN_DELAY_S_MIN", 100.0), ("LOGIN_DELAY_S_MAX", 100.0), ("LOGIN_FAILURES_HALVED_S", 1e30)):
        monkeypatch.setattr(f"warren.broker.security.logins.{name}", value)
    monkeypatch.setattr("warren.broker.kafka.sasl.AUTHENTICATION_ANSWER_S", 0.0)
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        for user in ("ann", "bob"):
            running.broker.users.create(user, PASSWORD)
        for _ in range(LOGIN_FAILURES_FREE + 3):
            with pytest.raises(LoginFailed):
                connect(running.address, user="ann", password="a wrong password")
        with connect(running.address, user="bob", password=PASSWORD) as store:
            store.topic("orders").put(b"in")

        assert running.broker.metrics.logins_failed == LOGIN_FAILURES_FREE + 1
        assert running.broker.metrics.logins_refused == 2


def test_a_login_waits_for_none_of_the_threads_that_do_other_work(tmp_path: Path) -> None:
    gate = threading.Event()
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        running.broker.users.create("ann", PASSWORD)
        for _ in range(2 * BROKER_THREADS):
            running.broker._threads.submit(gate.wait, 30)
        try:
            with Caller(running) as caller:
                assert caller.login("ann", PASSWORD) == 0
        finally:
            gate.set()


def test_over_http_too_many_wrong_passwords_are_answered_with_429(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOGIN_DELAY_S_MIN", 100.0), ("LOGIN_DELAY_S_MAX", 100.0), ("LOGIN_FAILURES_HALVED_S", 1e30)):
        monkeypatch.setattr(f"warren.broker.security.logins.{name}", value)
    monkeypatch.setattr("warren.gateway.http.auth.AUTHENTICATION_ANSWER_S", 0.0)
    with running_http(tmp_path / "data", settings=BrokerSettings(sasl=True)) as served:
        served.broker.users.create("ann", PASSWORD)
        served.login = ("ann", "a wrong password")
        answers = [served.ask("GET", "/v1/topics") for _ in range(LOGIN_FAILURES_FREE + 2)]

    assert [answer.status for answer in answers] == [401] * (LOGIN_FAILURES_FREE + 1) + [429]
    assert answers[-1].problem == (429, "too_many_logins")
    assert int(answers[-1].headers["Retry-After"]) >= 1
