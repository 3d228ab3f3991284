"""Answers that never come: every call ends in time, the outcome is unknown, and a later read shows it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.integration.registry.proxies import Proxy
from tests.integration.registry.servers import RunningServer
from tests.support.patience import WAIT_S, until
from warren.errors import RegistryBusy, RegistryUnreached
from warren.registry.connection import connect_registry
from warren.registry.registry import UNKNOWN, Create, Delete, Registry, Set
from warren.registry.server_files import TICK_MS
from warren.registry.zookeeper import CALLS_MAX, ZooKeeperRegistry

SESSION_S = 1.0
SLACK_S = 1.0
"""How much later than its deadline a call may end on a busy machine."""


@pytest.fixture
def proxy(zookeeper: RunningServer) -> Iterator[Proxy]:
    proxy = Proxy(zookeeper.settings.address)
    yield proxy
    proxy.close()


@pytest.fixture
def registry(proxy: Proxy) -> Iterator[ZooKeeperRegistry]:
    registry = connect_registry(proxy.address, session_s=SESSION_S, call_s=WAIT_S)
    yield registry
    registry.close()


@pytest.fixture
def other(zookeeper: RunningServer) -> Iterator[Registry]:
    other = connect_registry(zookeeper.address)
    yield other
    other.close()


def test_a_swallowed_answer_is_unknown_within_the_deadline(
    proxy: Proxy, registry: ZooKeeperRegistry, other: Registry
) -> None:
    proxy.swallows_answers = True
    begun_s = time.monotonic()

    outcome = registry.write([Create("/swallowed-answer")], within_s=0.3)

    assert outcome == UNKNOWN
    assert time.monotonic() - begun_s < 0.3 + SLACK_S
    assert other.read("/swallowed-answer") is not None
    proxy.swallows_answers = False
    assert registry.read("/swallowed-answer") is not None


def test_a_swallowed_request_is_unknown_and_is_never_sent_again(
    proxy: Proxy, registry: ZooKeeperRegistry, other: Registry
) -> None:
    proxy.swallows_requests = True

    assert registry.write([Create("/swallowed-request")], within_s=0.3) == UNKNOWN

    until(lambda: not registry._is_live)
    proxy.swallows_requests = False
    assert registry.read("/swallowed-request") is None
    assert other.read("/swallowed-request") is None


def test_without_answers_the_lease_is_lost_after_the_session_timeout(proxy: Proxy, registry: ZooKeeperRegistry) -> None:
    assert registry.is_connected()
    assert registry.remaining_s() > SESSION_S / 2
    proxy.swallows_answers = True
    begun_s = time.monotonic()

    until(lambda: registry.remaining_s() == 0)

    assert time.monotonic() - begun_s <= SESSION_S + SLACK_S
    assert not registry.is_connected()
    with pytest.raises(RegistryUnreached):
        registry.read("/", within_s=0.2)
    proxy.swallows_answers = False
    until(registry.is_connected)


def test_the_lease_is_as_long_as_the_server_allows_and_not_as_the_client_requested(zookeeper: RunningServer) -> None:
    registry = connect_registry(zookeeper.address, session_s=60.0)

    assert 5 < registry.remaining_s() <= 20 * TICK_MS / 1000
    registry.close()


def test_a_paused_server_lets_calls_end_and_the_lease_run_out(zookeeper: RunningServer) -> None:
    registry = connect_registry(zookeeper.address, session_s=SESSION_S)
    zookeeper.signal(signal.SIGSTOP)
    try:
        begun_s = time.monotonic()
        with pytest.raises(RegistryUnreached):
            registry.read("/", within_s=0.3)
        assert time.monotonic() - begun_s < 0.3 + SLACK_S
        until(lambda: registry.remaining_s() == 0)
    finally:
        zookeeper.signal(signal.SIGCONT)
    until(registry.is_connected)
    registry.close()


def test_calls_that_kazoo_still_holds_count_until_it_gives_them_up(proxy: Proxy, registry: ZooKeeperRegistry) -> None:
    proxy.swallows_answers = True
    for number in range(CALLS_MAX):
        assert registry.write([Create(f"/held-{number}")], within_s=0.001) == UNKNOWN

    with pytest.raises(RegistryBusy):
        registry.write([Create("/held")])

    proxy.swallows_answers = False
    until(lambda: registry._calls == 0)
    assert registry.read("/held") is None


def test_watches_are_armed_and_called_again_after_a_lost_connection(
    proxy: Proxy, registry: ZooKeeperRegistry, other: Registry
) -> None:
    calls: list[float] = []
    other.write([Create("/watched")])
    registry.watch("/watched", lambda: calls.append(time.monotonic()))
    until(lambda: calls)
    proxy.swallows_answers = True
    until(lambda: not registry._is_live)
    other.write([Set("/watched", b"while no client listened")])
    before = len(calls)

    proxy.swallows_answers = False

    until(lambda: len(calls) > before)
    # The connection must be idle, so that the next call is caused only by the change.
    until(registry.is_connected)
    before = len(calls)
    other.write([Delete("/watched")])
    until(lambda: len(calls) > before)


def test_a_new_session_after_an_expiry_has_another_number_and_no_ephemeral_nodes(
    proxy: Proxy, registry: ZooKeeperRegistry, other: Registry
) -> None:
    registry.write([Create("/fleeting", b"", True)])
    session = registry.session()
    proxy.swallows_requests = True

    until(lambda: other.read("/fleeting") is None)

    # Our own clock was not later than the server's.
    assert registry.remaining_s() == 0
    proxy.swallows_requests = False
    until(registry.is_connected)
    assert registry.session() != session


def test_a_counter_over_connections_that_are_cut_loses_and_doubles_nothing(
    zookeeper: RunningServer, other: Registry
) -> None:
    """Each client compares and sets; if the outcome is unknown, its own mark in the node shows the result."""
    other.write([Create("/counter", b"0 start")])
    proxy = Proxy(zookeeper.settings.address, cut_rate=0.1, seed=1)
    counts = [0, 0, 0]

    def count(place: int) -> None:
        registry = connect_registry(proxy.address, session_s=2.0, call_s=WAIT_S, connect_s=WAIT_S)
        for step in range(20):
            counts[place] += increment(registry, f"{os.getpid()}-{place}-{step}")
        registry.close()

    threads = [threading.Thread(target=count, args=[place]) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proxy.close()

    node = other.read("/counter")
    assert node is not None
    assert int(node.data.split()[0]) == sum(counts) > 10
    assert proxy.cuts > 0


def increment(registry: Registry, mark: str) -> int:
    """Tries once to add 1. Returns by how much it did, according to the node's history of marks."""
    node = registry.read("/counter")
    assert node is not None
    value, *marks = node.data.decode().split()
    text = " ".join([str(int(value) + 1), *marks, mark])
    try:
        outcome = registry.write([Set("/counter", text.encode(), node.version)])
    except RegistryUnreached:
        return 0
    if not outcome.is_unknown:
        return int(outcome.is_done)
    after = registry.read("/counter")
    assert after is not None
    return int(mark in after.data.decode().split())
