"""Places for connections: strangers take only the places of strangers, and no address takes all of them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.broker.running import HOST, PATIENCE_S, RunningBroker, running_broker
from warren.broker.broker import STRANGERS_PART
from warren.broker.net.places import ConnectionPlaces, Full
from warren.broker.security.users import Users
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.client.store import connect
from warren.errors import BadInput

PASSWORD = "a long password"
VERSIONS = bytes.fromhex("0000000a 00120000 00000001 ffff".replace(" ", ""))


def places(count_max: int, dropped: list[str], **more: int | dict[str, int]) -> ConnectionPlaces[str]:
    return ConnectionPlaces(count_max, dropped.append, **more)  # type: ignore[arg-type]


def test_the_oldest_unsettled_one_of_the_address_with_most_makes_room() -> None:
    dropped: list[str] = []
    found = places(4, dropped)
    for name, host in (("user", "10.0.0.1"), ("a", "10.0.0.2"), ("b", "10.0.0.2"), ("c", "10.0.0.2")):
        assert found.admit(name, host) is None
    found.settle("a")

    assert found.admit("d", "10.0.0.3") is None

    assert dropped == ["b"]
    assert sorted(found) == ["a", "c", "d", "user"]


def test_settled_ones_keep_their_places_until_they_leave() -> None:
    dropped: list[str] = []
    found = places(2, dropped)
    for name in ("a", "b"):
        found.admit(name, "10.0.0.1")
        found.settle(name)

    assert found.admit("c", "10.0.0.1") == Full(2)
    found.leave("a")
    found.leave("a")
    assert found.admit("c", "10.0.0.1") is None
    assert (dropped, len(found)) == ([], 2)


def test_unsettled_ones_have_a_share_of_all_places() -> None:
    dropped: list[str] = []
    found = places(10, dropped, unsettled_max=2)
    for name in "abc":
        found.admit(name, "10.0.0.1")

    assert dropped == ["a"]


def test_one_that_becomes_unsettled_again_is_the_last_to_go() -> None:
    dropped: list[str] = []
    found = places(2, dropped)
    for name in "ab":
        found.admit(name, "10.0.0.1")
    found.settle("a")
    found.unsettle("a")
    for name in "cd":
        found.admit(name, "10.0.0.1")

    assert dropped == ["b", "a"]


def test_an_address_has_a_limit_and_this_machine_only_if_it_is_named() -> None:
    found = places(10, [], per_address_max=1, of_address={"10.0.0.3": 2})

    def admitted(name: str, host: str) -> Full | None:
        full = found.admit(name, host)
        found.settle(name)
        return full

    others = [admitted(f"{host}-{count}", host) for host in ("10.0.0.2", "10.0.0.3") for count in range(3)]

    assert others == [None, Full(1, "10.0.0.2"), Full(1, "10.0.0.2"), None, None, Full(2, "10.0.0.3")]
    assert [admitted(f"local-{count}", "127.0.0.1") for count in range(3)] == [None, None, None]
    assert places(10, [], of_address={"::1": 0}).admit("a", "::1") == Full(0, "::1")


def test_an_address_that_has_its_limit_makes_room_by_its_own_unsettled_ones() -> None:
    dropped: list[str] = []
    found = places(10, dropped, per_address_max=2)
    for name, host in (("a", "10.0.0.1"), ("x", "10.0.0.2"), ("y", "10.0.0.2")):
        found.admit(name, host)
    found.settle("x")

    assert found.admit("z", "10.0.0.2") is None
    assert dropped == ["y"]


@pytest.mark.parametrize("word", ["10.0.0.1", "10.0.0.1=", "=5", "host=5", "10.0.0.1=many"])
def test_an_invalid_limit_of_an_address_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="expected an address and a count"):
        _ = BrokerLimits(connections_max_of_address=(word,)).of_address


def opened(running: RunningBroker, count: int, sent: bytes = b"") -> list[socket.socket]:
    found = []
    for _ in range(count):
        found.append(socket.create_connection((HOST, running.broker.advertised[1]), PATIENCE_S))
        found[-1].sendall(sent)
    return found


def is_closed(client: socket.socket) -> bool:
    """Whether the broker has closed the connection without a byte."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_user_gets_in_while_strangers_hold_all_of_their_share(tmp_path: Path) -> None:
    limits = BrokerLimits(connections_max=4 * STRANGERS_PART)
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True), limits=limits) as running:
        Users(str(tmp_path / "data")).create("ann", PASSWORD)
        # Each of them has sent a byte: what is dropped is not only what is silent.
        strangers = opened(running, limits.connections_max, b"\0")
        with connect(running.address, user="ann", password=PASSWORD) as store:
            store.topic("orders").put(b"in")
            strangers += opened(running, limits.connections_max, b"\0")
            again = store.topic("orders").put(b"still in")

        assert again.number == 1
        assert is_closed(strangers[0])
        assert running.broker.metrics.connections_dropped >= limits.connections_max
        for each in strangers:
            each.close()


def test_without_users_a_connection_without_requests_makes_room(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", limits=BrokerLimits(connections_max=3)) as running:
        asked = opened(running, 1, VERSIONS)[0]
        assert asked.recv(4)
        silent = opened(running, 2, VERSIONS[:5])

        with connect(running.address) as store:
            store.topic("orders").put(b"in")

        assert is_closed(silent[0])
        asked.sendall(VERSIONS)
        assert asked.recv(4)
        for each in (asked, *silent):
            each.close()


def test_a_connection_that_has_to_log_in_and_sends_nothing_is_closed_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.net.connection.FIRST_BYTE_S_MAX", 0.05)
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        silent, heard = opened(running, 1)[0], opened(running, 1, VERSIONS[:5])[0]

        assert is_closed(silent)
        heard.sendall(VERSIONS[5:])
        assert heard.recv(4)
        for each in (silent, heard):
            each.close()


def test_an_address_over_its_limit_is_refused_and_counted(tmp_path: Path) -> None:
    limits = BrokerLimits(connections_max_of_address=(f"{HOST}=1",))
    with running_broker(tmp_path / "data", limits=limits) as running:
        first = opened(running, 1, VERSIONS)[0]
        assert first.recv(4)
        second = opened(running, 1)[0]

        assert is_closed(second)
        assert running.broker.metrics.connections_refused == 1
        for each in (first, second):
            each.close()
