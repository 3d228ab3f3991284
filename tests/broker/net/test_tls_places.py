"""Places of TLS handshakes: a connection counts from its accept on, so that silent ones take no descriptors."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.http import running_http, until
from tests.support.broker.running import HOST, PATIENCE_S, running_broker
from warren.broker.net.places import ConnectionPlaces, Full, Reservation
from warren.broker.net.tls_listener import TlsListener, bound_sockets
from warren.broker.security.tls import tls_context
from warren.broker.settings import BrokerLimits
from warren.gateway.server import HTTP_CONNECTIONS_MAX, HTTP_SPARE_CONNECTIONS_MAX

trustme = pytest.importorskip("trustme")

PLACES = 8
SILENT = 5 * PLACES
HANDSHAKE_S = "warren.broker.net.tls_listener.TLS_HANDSHAKE_S_MAX"
VERSIONS = bytes.fromhex("0000000a 00120000 00000001 ffff".replace(" ", ""))
LOOPS = ["asyncio", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of the broker, and one of a client that trusts it."""
    authority, trusting = trustme.CA(), ssl.create_default_context()
    authority.issue_cert(HOST, "localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "broker.pem"))
    authority.configure_trust(trusting)
    serving = tls_context(str(tmp_path / "broker.pem"))
    assert serving is not None
    return serving, trusting


def opened(port: int, count: int) -> list[socket.socket]:
    return [socket.create_connection((HOST, port), PATIENCE_S) for _ in range(count)]


def is_closed(client: socket.socket) -> bool:
    """Returns whether the broker has closed the connection without sending a byte."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def ask_versions(trusting: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    """Returns a connection that has the answer to its first request."""
    client = trusting.wrap_socket(opened(port, 1)[0], server_hostname=HOST)
    client.sendall(VERSIONS)
    assert client.recv(4)
    return client


def test_a_handshake_takes_a_place_and_makes_room_for_the_next(
    tmp_path: Path, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    with running_broker(tmp_path / "data", tls=tls[0], limits=BrokerLimits(connections_max=PLACES)) as running:
        port, broker = running.broker.advertised[1], running.broker
        first = ask_versions(tls[1], port)
        silent = opened(port, SILENT)

        assert all(is_closed(each) for each in silent[: SILENT - PLACES])
        assert len(broker.connections) <= PLACES
        another = ask_versions(tls[1], port)
        assert broker.metrics.connections_dropped >= SILENT - PLACES
        first.sendall(VERSIONS)
        assert first.recv(4)
        assert [each.peer.host for each in broker.connections] == [HOST, HOST]
        for each in (first, another, *silent):
            each.close()


def test_a_silent_handshake_ends_early_and_frees_its_place(
    tmp_path: Path, tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HANDSHAKE_S, 0.05)
    with running_broker(tmp_path / "data", tls=tls[0]) as running:
        (silent,) = opened(running.broker.advertised[1], 1)

        assert is_closed(silent)
        until(lambda: len(running.broker.connections) == 0)
        silent.close()


def test_an_address_over_its_limit_gets_no_handshake(
    tmp_path: Path, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    limits = BrokerLimits(connections_max_of_address=(f"{HOST}=1",))
    with running_broker(tmp_path / "data", tls=tls[0], limits=limits) as running:
        first = ask_versions(tls[1], running.broker.advertised[1])
        (second,) = opened(running.broker.advertised[1], 1)

        assert is_closed(second)
        assert running.broker.metrics.connections_refused == 1
        for each in (first, second):
            each.close()


def test_a_broker_that_stops_does_not_wait_for_handshakes(
    tmp_path: Path, tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HANDSHAKE_S, 2 * PATIENCE_S)
    with running_broker(tmp_path / "data", tls=tls[0]) as running:
        (silent,) = opened(running.broker.advertised[1], 1)
        until(lambda: len(running.broker.connections) == 1)

    assert is_closed(silent)
    silent.close()


def test_handshakes_over_http_take_places_and_health_is_answered(
    tmp_path: Path, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    more = 40
    with running_http(tmp_path / "data", tls=tls[0], trusted=tls[1]) as served:
        silent = opened(served.port, HTTP_CONNECTIONS_MAX + HTTP_SPARE_CONNECTIONS_MAX + more)

        assert all(is_closed(each) for each in silent[:more])
        assert served.get("/healthz") == {"is_alive": True}
        assert served.get("/v1/topics") == {"topics": []}
        for each in silent:
            each.close()


# --- Both event loops ---


def descriptor_count() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("name", LOOPS)
def test_descriptors_stay_within_the_places_in_each_event_loop(
    name: str, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    dropped: list[asyncio.Protocol] = []
    places: ConnectionPlaces[asyncio.Protocol] = ConnectionPlaces(PLACES, dropped.append)

    async def main() -> None:
        def reserve(host: str, close: Callable[[], None]) -> Reservation | None:
            place = places.reserve(host, close)
            return None if isinstance(place, Full) else place

        async with asyncio.TaskGroup() as tasks:
            sockets = await bound_sockets(HOST, 0)
            listener = TlsListener(sockets, tls[0], reserve, lambda _: asyncio.Protocol(), tasks)
            port, before = sockets[0].getsockname()[1], descriptor_count()
            silent = await asyncio.to_thread(opened, port, SILENT)
            async with asyncio.timeout(PATIENCE_S):
                while descriptor_count() - before - SILENT > PLACES or not len(places):
                    await asyncio.sleep(0.01)
                greeted, stream = await asyncio.open_connection(HOST, port, ssl=tls[1])
                stream.close()
                listener.close()
                listener.close()
                while descriptor_count() > before + SILENT - len(sockets):
                    await asyncio.sleep(0.01)
            assert greeted is not None
            assert len(places) == 0
            for each in silent:
                each.close()

    runner: Any = asyncio.run
    if name == "uvloop":
        import uvloop

        runner = uvloop.run
    runner(main())
