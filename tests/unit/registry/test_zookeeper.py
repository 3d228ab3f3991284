"""The registry at a ZooKeeper, as far as it needs no server: calls end in time, and never pile up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.patience import SHORT_S, WAIT_S, until
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput, ClusterMissing, RegistryBusy, RegistryClosed, RegistryUnreached
from warren.registry import connection
from warren.registry.addresses import Address
from warren.registry.connection import connect_registry
from warren.registry.registry import Create
from warren.registry.zookeeper import CALLS_MAX, SESSION_S_MAX, ZooKeeperRegistry


@pytest.fixture
def nowhere() -> Address:
    """An address at which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


@pytest.fixture
def registry(nowhere: Address) -> Iterator[ZooKeeperRegistry]:
    registry = ZooKeeperRegistry([nowhere], session_s=1.0)
    yield registry
    registry.close()


def test_a_call_without_a_server_ends_at_its_deadline(registry: ZooKeeperRegistry) -> None:
    begun_s = SYSTEM_CLOCK.steady_s()

    for call in (registry.read, registry.children):
        with pytest.raises(RegistryUnreached, match="--status"):
            call("/a", SHORT_S)
    with pytest.raises(RegistryUnreached):
        registry.write([Create("/a")], SHORT_S)

    assert SYSTEM_CLOCK.steady_s() - begun_s < 2.0
    assert not registry.is_connected()
    assert registry.session() == 0
    assert registry.remaining_s() == 0


def test_more_calls_than_the_limit_are_refused_and_not_queued(registry: ZooKeeperRegistry) -> None:
    def wait() -> None:
        with pytest.raises((RegistryUnreached, RegistryClosed)):
            registry.read("/a", WAIT_S)

    threads = [threading.Thread(target=wait) for _ in range(CALLS_MAX)]
    for thread in threads:
        thread.start()
    until(lambda: registry._calls == CALLS_MAX)

    with pytest.raises(RegistryBusy, match="was not sent"):
        registry.write([Create("/a")])

    registry.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert registry._calls == 0


def test_after_close_every_call_is_refused(registry: ZooKeeperRegistry) -> None:
    registry.close()
    registry.close()

    with pytest.raises(RegistryClosed):
        registry.read("/a")
    with pytest.raises(RegistryClosed):
        registry.watch("/a", print)


def test_bad_input_is_refused_before_a_connection_is_waited_for(registry: ZooKeeperRegistry) -> None:
    with pytest.raises(BadInput):
        registry.read("a")
    with pytest.raises(BadInput):
        registry.write([])
    with pytest.raises(BadInput):
        registry.watch("a", print)
    with pytest.raises(BadInput):
        registry.read("/a", 0)


@pytest.mark.parametrize("session_s", [0.5, SESSION_S_MAX + 1])
def test_a_session_has_a_shortest_and_a_longest_time(nowhere: Address, session_s: float) -> None:
    with pytest.raises(BadInput, match="session_s"):
        ZooKeeperRegistry([nowhere], session_s=session_s)


def test_no_server_means_a_reason_and_not_a_wait_without_end(nowhere: Address) -> None:
    with pytest.raises(RegistryUnreached, match=r"[Cc]onnection refused"):
        connect_registry(str(nowhere), connect_s=0.5)


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "find_spec", lambda name: None)

    with pytest.raises(ClusterMissing, match=r"pip install 'warren\[cluster\]'"):
        connect_registry("127.0.0.1:1")
