"""One server as a supervised child: it starts, is restarted, stops on request, and is never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.registry.servers import RunningServer, running_server
from tests.support.patience import until
from warren.errors import ServerFailed
from warren.registry import server as module
from warren.registry.addresses import Address
from warren.registry.connection import connect_registry
from warren.registry.registry import Create
from warren.registry.server import Server, free_port
from warren.registry.server_files import ServerSettings


@pytest.fixture
def started(tmp_path: Path, zookeeper: RunningServer) -> Path:
    """Skips if the shared server cannot run. Returns a place for another one."""
    return tmp_path / "größe zk"


def test_a_killed_server_is_started_again_and_has_lost_nothing(started: Path) -> None:
    with running_server(started) as server:
        registry = connect_registry(server.address, call_s=20.0)
        assert registry.write([Create("/kept", b"1")]).is_done
        session, pid = registry.session(), server.server.pid

        server.signal(signal.SIGKILL)
        server.wait_until_serving()

        node = registry.read("/kept")
        assert node is not None
        assert node.data == b"1"
        assert registry.session() == session
        assert server.server.pid != pid
        assert server.sentences == ["the ZooKeeper server died (killed by SIGKILL); it is started again in 0.2 s"]
        registry.close()
    assert (started / "log" / "zookeeper.log").stat().st_size > 0
    assert server.server.pid is None


def test_a_server_that_keeps_dying_is_given_up_with_its_last_words(
    zookeeper: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS_MAX", 1)
    monkeypatch.setattr(module, "RESTART_S_MIN", 0.01)
    (tmp_path / "empty.jar").touch()
    settings = ServerSettings(directory=str(tmp_path / "zk"), address=Address("127.0.0.1", free_port("127.0.0.1")))

    with pytest.raises(
        ServerFailed, match=r"died 2 times in a row \(.*ClassNotFoundException.*\); see .*zookeeper.log"
    ):
        Server(settings, [str(tmp_path / "empty.jar")], os.environ).run()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process whose parent has not waited for it counts as dead, too.
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_a_supervisor_that_is_killed_leaves_no_server_behind(started: Path) -> None:
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "warren", "zookeeper", str(started), "--port", str(port), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        line = supervisor.stdout.readline()
        pid = int(line.partition('"pid": ')[2].rstrip("}\n"))
        assert is_running(pid)

        supervisor.kill()
        supervisor.wait()

        until(lambda: not is_running(pid))


def test_sigterm_stops_the_server_and_then_the_program(started: Path) -> None:
    command = [sys.executable, "-m", "warren", "zookeeper", str(started), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        line = supervisor.stdout.readline()
        assert line.startswith("ZooKeeper 3.")
        assert "serves at 127.0.0.1:" in line
        pid = int(line.rpartition(" ")[2])
        begun_s = time.monotonic()

        supervisor.send_signal(signal.SIGTERM)
        _, errors = supervisor.communicate()

        assert supervisor.returncode == 0
        assert errors == ""
        assert not is_running(pid)
        assert time.monotonic() - begun_s < module.STOP_S_MAX
