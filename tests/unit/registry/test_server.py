"""The supervision of a server, as far as it needs no process."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from warren.errors import BadInput, CannotListen, JavaMissing
from warren.registry.addresses import Address
from warren.registry.java_process import MAIN_CLASS, java_command
from warren.registry.server import (
    LOG_TAIL_SIZE,
    RESTART_S_MAX,
    RESTARTS_MAX,
    STEADY_S,
    Restarts,
    Server,
    check_port,
    free_port,
    tail,
)
from warren.registry.server_files import ServerSettings


def test_the_pauses_before_restarts_grow_and_end() -> None:
    restarts = Restarts()

    pauses = [restarts.next_pause_s(1.0) for _ in range(RESTARTS_MAX + 1)]

    assert pauses[:3] == [0.2, 0.4, 0.8]
    assert pauses[-2] == RESTART_S_MAX
    assert pauses[-1] is None


def test_a_server_that_served_for_a_while_starts_again_immediately() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.next_pause_s(0.0)

    assert restarts.next_pause_s(STEADY_S) == 0.2


def test_a_port_in_use_is_a_sentence_and_a_free_one_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(CannotListen, match="the port is in use"):
            check_port(address)

    check_port(address)
    check_port(Address("127.0.0.1", free_port("127.0.0.1")))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this file")
def test_a_free_port_is_not_one_that_outgoing_connections_get() -> None:
    first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()

    ports = {free_port("127.0.0.1") for _ in range(20)}

    assert not ports & {*range(int(first), int(last) + 1)}


def test_a_port_in_use_is_not_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(CannotListen, match="none of 100 ports"):
        free_port("127.0.0.1", [listener.getsockname()[1]])


def test_an_address_of_another_machine_is_a_sentence() -> None:
    with pytest.raises(CannotListen, match="cannot listen on"):
        check_port(Address("192.0.2.1", 2181))


def test_without_a_java_the_sentence_says_what_needs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.java.import_module", missing)
    settings = ServerSettings(directory=str(tmp_path / "zk"), address=Address("127.0.0.1", 1))

    with pytest.raises(JavaMissing, match=r"ZooKeeper needs Java 17 .* 'warren\[cluster\]'"):
        Server(settings, [], {"PATH": ""}).run()

    assert os.listdir(tmp_path) == []


def missing(name: str) -> None:
    raise ImportError(name)


def test_settings_are_checked_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="belong together"):
        Server(ServerSettings(directory=str(tmp_path), address=Address("127.0.0.1", 1), id=1), [], {})


@pytest.mark.parametrize(("host", "near"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1")])
def test_a_server_that_listens_everywhere_is_queried_over_loopback(tmp_path: Path, host: str, near: str) -> None:
    server = Server(ServerSettings(directory=str(tmp_path), address=Address(host, 7)), [], {})

    assert server.near_address == Address(near, 7)
    assert server.pid is None


def test_the_command_has_the_class_path_and_the_files() -> None:
    command = java_command("/bin/java", ["/a.jar", "/b.jar"], "/zk/log4j2.properties", "/zk/zoo.cfg")

    assert command[0] == "/bin/java"
    assert command[-4:] == ["-cp", "/a.jar:/b.jar", MAIN_CLASS, "/zk/zoo.cfg"]
    assert "-Dlog4j2.configurationFile=/zk/log4j2.properties" in command


def test_the_end_of_a_log_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a" * LOG_TAIL_SIZE + "end")

    assert tail(str(path)) == "a" * (LOG_TAIL_SIZE - 3) + "end"
    assert tail(str(tmp_path / "none")) == ""
