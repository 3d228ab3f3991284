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


def make_places(count_max: int, dropped: list[str], **more: int | dict[str, int]) -> ConnectionPlaces[str]:
    return ConnectionPlaces(count_max, dropped.append, **more)  # type: ignore[arg-type]


def test_the_oldest_unsettled_connection_of_the_fullest_address_makes_room() -> None:
    dropped: list[str] = []
    places = make_places(4, dropped)
    for name, host in (("user", "10.0.0.1"), ("a", "10.0.0.2"), ("b", "10.0.0.2"), ("c", "10.0.0.2")):
        assert places.admit(name, host) is None
    places.settle("a")

    assert places.admit("d", "10.0.0.3") is None

    assert dropped == ["b"]
    assert sorted(places) == ["a", "c", "d", "user"]


def test_settled_connections_keep_their_places_until_they_leave() -> None:
    dropped: list[str] = []
    places = make_places(2, dropped)
    for name in ("a", "b"):
        places.admit(name, "10.0.0.1")
        places.settle(name)

    assert places.admit("c", "10.0.0.1") == Full(2)
    places.leave("a")
    places.leave("a")
    assert places.admit("c", "10.0.0.1") is None
    assert (dropped, len(places)) == ([], 2)


def test_unsettled_connections_have_a_share_of_all_places() -> None:
    dropped: list[str] = []
    places = make_places(10, dropped, unsettled_max=2)
    for name in "abc":
        places.admit(name, "10.0.0.1")

    assert dropped == ["a"]


def test_a_connection_that_becomes_unsettled_again_is_the_last_to_be_dropped() -> None:
    dropped: list[str] = []
    places = make_places(2, dropped)
    for name in "ab":
        places.admit(name, "10.0.0.1")
    places.settle("a")
    places.unsettle("a")
    for name in "cd":
        places.admit(name, "10.0.0.1")

    assert dropped == ["b", "a"]


def test_an_address_has_a_limit_and_this_machine_only_if_it_is_named() -> None:
    places = make_places(10, [], per_address_max=1, of_address={"10.0.0.3": 2})

    def admitted(name: str, host: str) -> Full | None:
        full = places.admit(name, host)
        places.settle(name)
        return full

    others = [admitted(f"{host}-{count}", host) for host in ("10.0.0.2", "10.0.0.3") for count in range(3)]

    assert others == [None, Full(1, "10.0.0.2"), Full(1, "10.0.0.2"), None, None, Full(2, "10.0.0.3")]
    assert [admitted(f"local-{count}", "127.0.0.1") for count in range(3)] == [None, None, None]
    assert make_places(10, [], of_address={"::1": 0}).admit("a", "::1") == Full(0, "::1")


def test_an_address_at_its_limit_makes_room_by_its_own_unsettled_connections() -> None:
    dropped: list[str] = []
    places = make_places(10, dropped, per_address_max=2)
    for name, host in (("a", "10.0.0.1"), ("x", "10.0.0.2"), ("y", "10.0.0.2")):
        places.admit(name, host)
    places.settle("x")

    assert places.admit("z", "10.0.0.2") is None
    assert dropped == ["y"]


@pytest.mark.parametrize("word", ["10.0.0.1", "10.0.0.1=", "=5", "host=5", "10.0.0.1=many"])
def test_an_invalid_limit_of_an_address_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match="expected an address and a count"):
        _ = BrokerLimits(connections_max_of_address=(word,)).of_address


def opened(running: RunningBroker, count: int, sent: bytes = b"") -> list[socket.socket]:
    sockets = []
    for _ in range(count):
        sockets.append(socket.create_connection((HOST, running.broker.advertised[1]), PATIENCE_S))
        sockets[-1].sendall(sent)
    return sockets


def is_closed(client: socket.socket) -> bool:
    """Returns whether the broker has closed the connection without sending a byte."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_user_gets_in_while_strangers_hold_all_of_their_share(tmp_path: Path) -> None:
    limits = BrokerLimits(connections_max=4 * STRANGERS_PART)
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True), limits=limits) as running:
        Users(str(tmp_path / "data")).create("ann", PASSWORD)
        # Each of them has sent a byte: the broker does not only drop silent ones.
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
        talking = opened(running, 1, VERSIONS)[0]
        assert talking.recv(4)
        silent = opened(running, 2, VERSIONS[:5])

        with connect(running.address) as store:
            store.topic("orders").put(b"in")

        assert is_closed(silent[0])
        talking.sendall(VERSIONS)
        assert talking.recv(4)
        for each in (talking, *silent):
            each.close()


def test_a_connection_that_has_to_log_in_and_sends_nothing_is_closed_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.net.connection.FIRST_BYTE_S_MAX", 0.05)
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True)) as running:
        silent, talking = opened(running, 1)[0], opened(running, 1, VERSIONS[:5])[0]

        assert is_closed(silent)
        talking.sendall(VERSIONS[5:])
        assert talking.recv(4)
        for each in (silent, talking):
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
