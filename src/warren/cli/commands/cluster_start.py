"""`warren cluster start`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer

from warren.broker.cluster.overview import found_cluster, overview
from warren.broker.cluster.paths import ROOT_DEFAULT
from warren.broker.cluster.shard_registry import ShardSettings, min_insync_default
from warren.cli.commands.serve import require_broker
from warren.cli.running.errors import complain
from warren.clock import SYSTEM_CLOCK
from warren.errors import ServerFailed, WarrenError
from warren.registry.addresses import PORT_MAX
from warren.registry.connection import connect_registry, require_kazoo
from warren.registry.java_process import end_with_parent
from warren.registry.server import free_port

HOST: Final = "127.0.0.1"
PORT_DEFAULT: Final = 9092
ZOOKEEPER_PORT: Final = 2181
START_S: Final = 60.0
STOP_S: Final = 20.0
LOOK_S: Final = 0.1


def start(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The directory of all of it.", show_default=False)],
    replicas: Annotated[int, typer.Option(min=1, max=16, help="How many brokers: a master, and slaves.")] = 3,
    min_insync: Annotated[int | None, typer.Option(min=1, help="How many must have a put at least.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=PORT_MAX, help="The port of the first broker; 0 takes any free ports.")
    ] = PORT_DEFAULT,
    zookeeper_port: Annotated[
        int, typer.Option(min=0, max=PORT_MAX, help="The port of ZooKeeper; 0 takes any free port.")
    ] = ZOOKEEPER_PORT,
) -> None:
    """Run a cluster on this machine: ZooKeeper, a master and its slaves, each in a directory below DATA.

    To try what a cluster does: kill one of them, and put more. It is started again. Ctrl-C stops all.
    """
    require_broker()
    require_kazoo()
    least = min_insync_default(replicas) if min_insync is None else min_insync
    settings = ShardSettings(replicas=tuple(range(replicas)), min_insync=least).check()
    stopping = _Stopping()
    cluster = _LocalCluster(data, settings, port, zookeeper_port)
    try:
        cluster.start(stopping)
        while not stopping.is_asked:
            cluster.check()
            SYSTEM_CLOCK.sleep(LOOK_S)
    finally:
        cluster.stop()


class _Stopping:
    """Whether SIGTERM or Ctrl-C has come."""

    def __init__(self) -> None:
        self.is_asked = False
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_asked = True


class _LocalCluster:
    """The processes of a cluster, all children of this one. They are killed if this one is."""

    def __init__(self, data: str, settings: ShardSettings, port: int, zookeeper_port: int) -> None:
        self._data, self._settings = data, settings
        self._port, self._zookeeper_port = port, zookeeper_port or free_port(HOST)
        self._zookeeper: subprocess.Popen[bytes] | None = None
        self._replicas: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def _address(self) -> str:
        return f"{HOST}:{self._zookeeper_port}"

    def start(self, stopping: _Stopping) -> None:
        """Starts everything, and writes the addresses when clients are served."""
        os.makedirs(self._data, exist_ok=True)
        self._zookeeper = self._run(
            ["zookeeper", os.path.join(self._data, "zookeeper"), "--port", str(self._zookeeper_port), "--json"],
            stdout=subprocess.PIPE,
        )
        assert self._zookeeper.stdout is not None
        line = self._zookeeper.stdout.readline()
        if not line:
            raise ServerFailed(self._address, "did not start", os.path.join(self._data, "zookeeper"))
        served = json.loads(line)["address"]
        registry = connect_registry(self._address)
        try:
            found_cluster(registry, ROOT_DEFAULT, 1, self._settings)
            ports = [self._port + each if self._port else free_port(HOST) for each in self._settings.replicas]
            for replica, port in zip(self._settings.replicas, ports, strict=True):
                self._replicas[replica] = self._run(
                    [
                        "serve",
                        os.path.join(self._data, f"replica-{replica}"),
                        *("--cluster", self._address, "--shard", "0", "--replica", str(replica)),
                        *("--port", str(port)),
                    ]
                )
            addresses = ",".join(f"{HOST}:{port}" for port in ports)
            until = SYSTEM_CLOCK.steady_s() + START_S
            while not stopping.is_asked and SYSTEM_CLOCK.steady_s() < until:
                self.check()
                shards = overview(registry, ROOT_DEFAULT)
                if shards and shards[0].master is not None:
                    typer.echo(
                        f"ZooKeeper at {served}, brokers at {addresses}; replica {shards[0].master.replica} leads"
                    )
                    typer.echo(f'warren.connect("{addresses}"), or bootstrap.servers={addresses}')
                    sys.stdout.flush()
                    return
                SYSTEM_CLOCK.sleep(LOOK_S)
        finally:
            registry.close()

    def _run(self, arguments: Sequence[str], stdout: int | None = None) -> subprocess.Popen[bytes]:
        # In a group of their own: Ctrl-C at the terminal shall stop them in order.
        return subprocess.Popen(
            [sys.executable, "-m", "warren", *arguments],
            stdout=stdout,
            preexec_fn=end_with_parent(),
            start_new_session=True,
        )

    def check(self) -> None:
        """Raises ServerFailed if a process has ended that should run: its parent would have started it again."""
        for replica, process in self._replicas.items():
            if process.poll() is not None:
                raise ServerFailed(f"replica {replica}", f"ended with code {process.returncode}", "its lines above")
        if self._zookeeper is not None and self._zookeeper.poll() is not None:
            raise ServerFailed(self._address, "ended", os.path.join(self._data, "zookeeper"))

    def stop(self) -> None:
        """Stops the slaves, then the master, which so need not hand over, then ZooKeeper."""
        master = self._master()
        slaves = [process for replica, process in self._replicas.items() if replica != master]
        last = [self._replicas[master]] if master in self._replicas else []
        for group in (slaves, last, [self._zookeeper] if self._zookeeper is not None else []):
            _stop(group)

    def _master(self) -> int:
        with suppress(WarrenError):
            registry = connect_registry(self._address, connect_s=2.0)
            try:
                shards = overview(registry, ROOT_DEFAULT)
                if shards and shards[0].master is not None:
                    return shards[0].master.replica
            finally:
                registry.close()
        return -1


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            process.terminate()
    for process in processes:
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            complain(f"process {process.pid} does not stop; it is killed")
            process.kill()
            process.wait()
