"""A shard of real processes: `warren serve --cluster` with its parent and its child, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.process import warren_command
from tests.tidy.source import SOURCE
from warren.broker.cluster.overview import ShardOverview, overview
from warren.broker.cluster.paths import ClusterPaths
from warren.broker.cluster.shard_registry import ShardRegistry, ShardSettings
from warren.errors import WarrenError
from warren.registry.connection import connect_registry
from warren.registry.server import free_port

PATIENCE_S: Final = 90.0
SESSION_S: Final = "2"
ROOTS: Final = count()
NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


class ReplicaProcess:
    """A parent, and the child that it runs."""

    def __init__(
        self, data: Path, cluster: ProcessCluster, replica: int, port: int, *flags: str, **variables: str
    ) -> None:
        self.replica, self.port, self.log = replica, port, data.with_suffix(f".{next(ROOTS)}.log")
        command = warren_command(
            "serve",
            str(data),
            *("--cluster", cluster.addresses, "--replica", str(replica), "--port", str(port)),
            *flags,
        )
        environment = os.environ | {
            "PYTHONPATH": str(SOURCE),
            "WARREN_CLUSTER_ROOT": cluster.root,
            "WARREN_CLUSTER_RACK": f"rack-{replica}",
            "WARREN_CLUSTER_SESSION_TIMEOUT_S": SESSION_S,
            **variables,
        }
        with self.log.open("wb") as log:
            self.parent = subprocess.Popen(command, cwd=data.parent, env=environment, stderr=log, stdout=log)

    @property
    def child(self) -> int:
        """Returns the process id of the replica itself."""
        children = Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        assert len(children) == 1, children
        return int(children[0])

    def output(self) -> str:
        return self.log.read_text()

    def end(self) -> int:
        """Asks it to stop, and returns its exit code."""
        self.parent.send_signal(signal.SIGTERM)
        return self.parent.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kills the parent, and with it the child."""
        self.parent.kill()
        self.parent.wait(PATIENCE_S)


class ProcessCluster:
    """One shard below a root of its own. Its processes read the file warren.toml of the folder, if there is one."""

    def __init__(self, folder: Path, addresses: str, settings: ShardSettings, secret: str | None = None) -> None:
        self.folder, self.addresses, self.settings = folder, addresses, settings
        self.root = f"/cluster-{next(ROOTS)}"
        self.registry = connect_registry(self.addresses, secret=secret)
        self.ports = {replica: free_port(HOST) for replica in settings.replicas}
        self.http_ports: dict[int, int] = {}
        """The ports of HTTP; empty if it is not served."""
        self.replicas: dict[int, ReplicaProcess] = {}
        shard = ShardRegistry(self.registry, ClusterPaths(self.root), 0)
        shard.found_cluster("6f0f1bb3-44a5-4a58-9b5f-0a5c7a0f6f3d")
        shard.found_shard(settings)

    def data(self, replica: int) -> Path:
        return self.folder / f"replica-{replica}"

    def start(self, *replicas: int, **variables: str) -> None:
        """Starts replicas, with more variables of the environment."""
        for replica in replicas:
            port, http_port = self.ports[replica], self.http_ports.get(replica)
            flags = () if http_port is None else ("--http-port", str(http_port))
            self.replicas[replica] = ReplicaProcess(self.data(replica), self, replica, port, *flags, **variables)

    @property
    def brokers(self) -> str:
        """Returns the addresses for clients."""
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def overview(self) -> ShardOverview:
        return overview(self.registry, self.root)[0]

    def wait_for(self, what: str, is_true: Callable[[ShardOverview], bool]) -> ShardOverview:
        """Waits until the overview of the shard in the registry is as `is_true` demands."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                shard = self.overview()
            except WarrenError:
                continue
            if is_true(shard):
                return shard
            time.sleep(0.05)
        raise AssertionError(f"{what} did not come\n{self.logs()}")

    def logs(self) -> str:
        """Returns the output of the replicas."""
        return "\n".join(f"replica {each.replica}:\n{each.output()}" for each in self.replicas.values())

    def master(self, epoch: int = 1) -> int:
        """Waits for the master of an epoch, or of a later one."""

        def is_led(shard: ShardOverview) -> bool:
            return shard.master is not None and shard.view is not None and shard.view.state.epoch >= epoch

        master = self.wait_for(f"the master of epoch {epoch}", is_led).master
        assert master is not None
        return master.replica

    def all_in_sync(self) -> ShardOverview:
        return self.wait_for("a full in-sync set", lambda shard: not shard.fault)


@contextmanager
def process_cluster(
    folder: Path,
    zookeeper: RunningServer,
    replicas: Sequence[int] = (0, 1, 2),
    min_insync: int = 2,
    secret: str | None = None,
    *,
    is_http_served: bool = False,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> Iterator[ProcessCluster]:
    """Runs a shard of processes, with more variables of the environment. They are killed at the end."""
    settings = ShardSettings(replicas=tuple(replicas), min_insync=min_insync)
    cluster = ProcessCluster(folder, zookeeper.address, settings, secret)
    if is_http_served:
        cluster.http_ports = {replica: free_port(HOST) for replica in replicas}
    try:
        cluster.start(*replicas, **variables)
        yield cluster
    finally:
        for each in cluster.replicas.values():
            if each.parent.poll() is None:
                each.kill()
        cluster.registry.close()
