"""The shard that is measured: ZooKeeper and three replicas as processes on loopback, with their data in the run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.broker.servers import HOST, WARREN, free_port
from benchmarks.measure import NotMeasured
from benchmarks.workspace import Workspace
from warren.broker.cluster.overview import ShardOverview, found_cluster, overview
from warren.broker.cluster.paths import ROOT_DEFAULT
from warren.broker.cluster.shard_registry import LivingReplica, ShardSettings
from warren.client.net.connection import Connection
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.native_messages import HandOverShardRequest
from warren.registry.connection import connect_registry
from warren.registry.java_process import end_with_parent
from warren.registry.registry import Registry

REPLICAS: Final = (0, 1, 2)
MIN_INSYNC: Final = 2
PATIENCE_S: Final = 600.0
"""A slave that begins with nothing makes thousands of files, and each is synced."""
LOOK_S: Final = 0.01
"""How often the registry is read while something is awaited. So far may a time be off that it shows."""
ANSWER_S: Final = 10.0


class Shard:
    """The processes of a shard. Each replica is a parent with one child, which is the broker."""

    def __init__(self, folder: Path, zookeeper: str, registry: Registry) -> None:
        self.folder, self._zookeeper, self._registry = folder, zookeeper, registry
        self.parents: dict[int, subprocess.Popen[bytes]] = {}
        self._ports = {replica: free_port() for replica in REPLICAS}

    @property
    def addresses(self) -> str:
        """Returns the addresses of all replicas, for clients."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def data(self, replica: int) -> Path:
        return self.folder / f"replica-{replica}"

    # --- Processes ---

    def start(self, *replicas: int) -> None:
        for replica in replicas:
            flags = ("--cluster", self._zookeeper, "--replica", str(replica), "--port", str(self._ports[replica]))
            with (self.folder / f"replica-{replica}.log").open("ab") as log:
                self.parents[replica] = _run(["serve", str(self.data(replica)), *flags], log.fileno())

    def child(self, replica: int) -> int:
        """Returns the process id of the broker itself."""
        parent = self.parents[replica].pid
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return int(child)

    def kill_child(self, replica: int) -> None:
        """Kills the broker with SIGKILL. Its parent lives, reports it in the registry, and starts it again."""
        os.kill(self.child(replica), signal.SIGKILL)

    def stop(self, replica: int) -> None:
        """Ends a replica, parent and child."""
        parent = self.parents.pop(replica)
        parent.terminate()
        try:
            parent.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            parent.kill()
            parent.wait()

    def stop_all(self) -> None:
        # The master last, so that it need not hand over.
        master = self.read_overview().master
        last = None if master is None else master.replica
        for replica in sorted(self.parents, key=lambda each: each == last):
            self.stop(replica)

    # --- What the registry shows ---

    def read_overview(self) -> ShardOverview:
        return overview(self._registry, ROOT_DEFAULT)[0]

    def wait_for(self, what: str, is_true: Callable[[ShardOverview], bool]) -> ShardOverview:
        """Returns what the registry shows as soon as `is_true` of it."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            current = self.read_overview()
            if is_true(current):
                return current
            time.sleep(LOOK_S)
        logs = "\n".join(path.read_text() for path in sorted(self.folder.glob("replica-*.log")))
        raise RuntimeError(f"{what} did not come within {PATIENCE_S:.0f} s\n{logs}")

    def all_in_sync(self) -> LivingReplica:
        """Waits until every replica that is started is in the in-sync set. Returns the master."""

        def is_whole(current: ShardOverview) -> bool:
            roles = [current.role(replica) for replica in self.parents]
            return current.master is not None and all(role in ("master", "in sync") for role in roles)

        master = self.wait_for("an in-sync set of all replicas", is_whole).master
        assert master is not None
        return master

    @property
    def epoch(self) -> int:
        view = self.read_overview().view
        return 0 if view is None else view.state.epoch

    def wait_for_epoch(self, epoch: int) -> None:
        """Waits until a replica has taken the lead in this epoch or a later one."""

        def is_led(current: ShardOverview) -> bool:
            return current.view is not None and current.view.state.epoch >= epoch

        self.wait_for(f"epoch {epoch}", is_led)

    def hand_over(self) -> None:
        """Lets the master hand over, and returns when another replica leads."""
        epoch, master = self.epoch, self.all_in_sync()
        connection = Connection(master.address, None, ANSWER_S)
        try:
            checked(connection.call(HandOverShardRequest(shard=0, replica=-1), VERSION, ANSWER_S))
        finally:
            connection.close()
        self.wait_for_epoch(epoch + 1)


@contextmanager
def shard(workspace: Workspace, *started: int, first: Path | None = None) -> Iterator[Shard]:
    """A shard whose replicas `started` are in sync: all three, if none is named.

    `first` is a closed store that replica 0 begins with. It is moved.
    """
    folder = workspace.fresh("shard")
    folder.mkdir()
    with _zookeeper(folder / "zookeeper") as address:
        registry = connect_registry(address)
        made = Shard(folder, address, registry)
        try:
            found_cluster(registry, ROOT_DEFAULT, 1, ShardSettings(replicas=REPLICAS, min_insync=MIN_INSYNC))
            if first is not None:
                first.rename(made.data(0))
            workspace.step("starting the replicas")
            made.start(0)
            # The others found an empty shard without it if it takes long to open its store.
            made.wait_for("replica 0", lambda current: 0 in current.living)
            made.start(*[replica for replica in started or REPLICAS if replica != 0])
            made.all_in_sync()
            yield made
            made.stop_all()
        finally:
            for parent in made.parents.values():
                # The kernel kills the child with it.
                parent.kill()
                parent.wait()
            registry.close()
    shutil.rmtree(folder)


@contextmanager
def _zookeeper(folder: Path) -> Iterator[str]:
    """`warren zookeeper`, and its address."""
    process = _run(["zookeeper", str(folder), "--port", str(free_port()), "--json"], subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise NotMeasured("ZooKeeper does not start: pip install 'warren[cluster]'")
        yield json.loads(line)["address"]
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _run(arguments: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    errors = subprocess.DEVNULL if output == subprocess.PIPE else output
    return subprocess.Popen(
        [sys.executable, "-c", WARREN, *arguments],
        env=environment,
        stdout=output,
        stderr=errors,
        # A run that is killed leaves no processes behind.
        preexec_fn=end_with_parent(),
    )
