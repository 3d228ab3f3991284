"""The networks of the long run: one direction of a link is cut alone, slow links lose nothing, and nothing is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.soak.cluster.matrix import HOST, Matrix
from tests.soak.cluster.namespaces import NAMES, PREFIX, Namespaces, NoNamespaces, reason_against, remove, run
from tests.soak.cluster.network import CLIENTS, Network
from tests.soak.cluster.shard import NAMESPACES, PROXIES, running_network
from tests.support.patience import WAIT_S, until
from warren.errors import BadInput
from warren.registry.server import free_port

SERVER = "0"
SILENT_S = 1.0
LARGE = bytes(100_000)


@pytest.fixture(params=[PROXIES, NAMESPACES])
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    if request.param == NAMESPACES and (reason := reason_against()):
        pytest.skip(reason)
    network: Network = Matrix() if request.param == PROXIES else Namespaces([SERVER, CLIENTS])
    try:
        yield network
    finally:
        network.close()


@contextmanager
def connection_to_an_echo(network: Network) -> Iterator[socket.socket]:
    port = free_port(HOST)
    with network.place(SERVER):
        listener = socket.create_server((network.host(SERVER), port))

    def echo() -> None:
        with listener.accept()[0] as accepted:
            while data := accepted.recv(1 << 16):
                accepted.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    host, port_text = network.address(SERVER, port).split(":")
    with network.place(CLIENTS):
        client = socket.create_connection((host, int(port_text)), WAIT_S)
    with listener:
        try:
            yield client
        finally:
            network.heal()
            client.close()
            thread.join(WAIT_S)
    assert not thread.is_alive()


def echoed(client: socket.socket, data: bytes, within_s: float = WAIT_S) -> bytes | None:
    """Returns the bytes that come back, or None if they do not all come in time."""
    client.settimeout(within_s)
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    echo = b""
    try:
        while len(echo) < len(data):
            echo += client.recv(1 << 16)
    except TimeoutError:
        return None
    finally:
        sender.join()
    return echo


def received(client: socket.socket) -> bytes:
    client.settimeout(WAIT_S)
    return client.recv(10)


def test_one_direction_of_a_link_is_cut_and_bytes_are_late_and_not_lost(network: Network) -> None:
    with connection_to_an_echo(network) as client:
        assert echoed(client, b"1") == b"1"

        for link in ((SERVER, CLIENTS), (CLIENTS, SERVER)):
            network.cut({link})
            assert echoed(client, b"2", SILENT_S) is None
            network.join({link})
            assert received(client) == b"2"
            assert echoed(client, b"3") == b"3"


def test_joining_one_direction_twice_leaves_the_other_direction_cut(network: Network) -> None:
    link = SERVER, CLIENTS
    with connection_to_an_echo(network) as client:
        network.cut({link})
        network.cut({link, link[::-1]})
        network.join({link})
        network.join({link})
        assert echoed(client, b"1", SILENT_S) is None
        network.heal()
        assert received(client) == b"1"


def test_a_slow_link_passes_everything_and_is_fast_afterwards(network: Network) -> None:
    with connection_to_an_echo(network) as client:
        network.slow({(SERVER, CLIENTS): 0.01, (CLIENTS, SERVER): 0.01})
        begun = time.monotonic()
        assert echoed(client, LARGE) == LARGE
        slow_s = time.monotonic() - begun
        network.heal()
        begun = time.monotonic()
        assert echoed(client, LARGE) == LARGE
        fast_s = time.monotonic() - begun

    assert fast_s < slow_s


def test_nothing_is_left_of_namespaces_after_a_failure() -> None:
    if reason := reason_against():
        pytest.skip(reason)
    own = Path("/proc/thread-self/ns/net")
    home, away, made = own.readlink(), None, []

    with suppress(ZeroDivisionError), running_network(NAMESPACES):
        away, made = own.readlink(), list(NAMES.glob(f"{PREFIX}-{os.getpid()}-*"))
        raise ZeroDivisionError

    assert len(made) == 10
    assert not list(NAMES.glob(f"{PREFIX}-{os.getpid()}-*"))
    # The thread is back in the network of the machine.
    assert away != home == own.readlink()


def test_namespaces_of_a_killed_run_are_removed_by_the_next_one() -> None:
    if reason := reason_against():
        pytest.skip(reason)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(WAIT_S)
    left = f"{PREFIX}-{ended.pid}-router"
    run("ip", "netns", "add", left)

    try:
        Namespaces([SERVER]).close()

        until(lambda: not (NAMES / left).exists())
    finally:
        remove(left)


def test_without_namespaces_the_run_has_proxies_and_says_why_it_may_not_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with running_network(None) as network:
        assert network.kind == PROXIES
    with pytest.raises(BadInput, match="need root"), running_network(NAMESPACES):
        pass
    with pytest.raises(NoNamespaces, match="need root"):
        Namespaces([SERVER])
