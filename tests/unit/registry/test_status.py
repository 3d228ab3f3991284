"""The status of a server: what its answer to `srvr` means."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.patience import SHORT_S
from warren.registry.addresses import Address
from warren.registry.status import ask_status, ask_statuses, parse_status

ADDRESS = Address("127.0.0.1", 2181)
ANSWER = """\
Zookeeper version: 3.9.5-2f3e6c1, built on 2026-01-11 10:33 UTC
Latency min/avg/max: 0/0.0/0
Received: 1
Sent: 0
Connections: 3
Outstanding: 0
Zxid: 0x100000003
Mode: follower
Node count: 1234
"""


def test_a_server_that_shows_its_mode_serves() -> None:
    status = parse_status(ADDRESS, ANSWER)

    assert status.is_serving
    assert (status.mode, status.version, status.connections, status.nodes) == ("follower", "3.9.5", 3, 1234)
    assert status.to_json() == {
        "address": "127.0.0.1:2181",
        "serving": True,
        "mode": "follower",
        "version": "3.9.5",
        "connections": 3,
        "nodes": 1234,
        "reason": None,
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("This ZooKeeper instance is not currently serving requests\n", "does not serve: it has no quorum"),
        ("srvr is not executed because it is not in the whitelist.\n", "4lw.commands.whitelist"),
        ("imok", "does not serve"),
        ("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", "does not serve"),
        ("", "it closed the connection"),
    ],
)
def test_any_other_answer_means_that_it_does_not_serve(text: str, reason: str) -> None:
    status = parse_status(ADDRESS, text)

    assert not status.is_serving
    assert reason in status.reason
    assert status.to_json()["mode"] is None


@contextmanager
def answering(answer: bytes | None) -> Iterator[Address]:
    """A server that sends `answer` to one client and closes the connection; with None it stays silent."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is None:
                    stop.wait()
                else:
                    assert connection.recv(4) == b"srvr"
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        stop.set()
        thread.join()


def test_a_server_is_queried_over_a_socket() -> None:
    with answering(ANSWER.encode()) as address:
        assert ask_status(address).mode == "follower"


def test_a_silent_server_is_not_waited_for_longer_than_the_deadline() -> None:
    with answering(None) as address:
        assert ask_status(address, within_s=SHORT_S).reason == "no answer within 0.05 s"


def test_a_port_without_a_server_and_a_host_without_an_address_are_reasons() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = Address("127.0.0.1", listener.getsockname()[1])

    statuses = ask_statuses([closed, Address("no.such.host.invalid", 1)], within_s=2.0)

    assert [status.is_serving for status in statuses] == [False, False]
    assert statuses[0].reason == "connection refused"
    assert statuses[1].reason
