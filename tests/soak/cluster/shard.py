"""The shard of the long run: its replicas on hosts of a network, each with a disk and a clock of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.broker.cluster.processes import ProcessCluster, ReplicaProcess
from tests.integration.registry.servers import HOST, Ensemble, running_ensemble
from tests.soak.cluster.machine import SOUND, Machine
from tests.soak.cluster.matrix import Matrix, is_socket_of
from tests.soak.cluster.namespaces import Namespaces, reason_against
from tests.soak.cluster.network import CLIENTS, SERVERS, Network
from tests.support.broker.process import warren_command
from tests.tidy.source import SOURCE
from warren.broker.cluster.overview import ShardOverview, add_replica, remove_replica
from warren.broker.cluster.shard_registry import ShardSettings
from warren.client.net.connection import Connection
from warren.errors import BadInput, WarrenError
from warren.protocol.native.calls import VERSION, checked
from warren.protocol.native_messages import HandOverShardRequest, SeeClusterRequest
from warren.registry.server import free_port

REPLICAS: Final = (0, 1, 2)
SPARE: Final = 3
"""The number of the replica that is added for a while."""
ANSWER_S: Final = 5.0
CALL_S: Final = 30.0
AGAIN_S: Final = 0.5
REPAIR_S_MAX: Final = 60.0
VERIFY_S_MAX: Final = 900.0
PROXIES: Final = "proxies"
NAMESPACES: Final = "namespaces"


class SoakedShard(ProcessCluster):
    """A shard whose processes meet each other, ZooKeeper and clients over a network that can be cut."""

    def __init__(self, folder: Path, ensemble: Ensemble, network: Network) -> None:
        super().__init__(folder, ensemble.addresses, ShardSettings(replicas=REPLICAS, min_insync=2))
        self.ensemble, self.network, self.numbers = ensemble, network, REPLICAS
        self.ports[SPARE] = free_port(HOST)
        self._advertised = {each: network.address(str(each), port) for each, port in self.ports.items()}
        self._registries = {
            each: ",".join(
                network.address(name, server.settings.address.port, str(each))
                for name, server in zip(SERVERS, ensemble.servers, strict=True)
            )
            for each in self.ports
        }
        self.machines = {each: Machine(folder / f"machine-{each}") for each in self.ports}

    @property
    def brokers(self) -> str:
        return ",".join(self._advertised[each] for each in REPLICAS)

    def start(self, *replicas: int, **variables: str) -> None:
        for replica in replicas:
            flags = ["--host", self.network.host(str(replica)), "--insecure", "--advertise", self._advertised[replica]]
            flags += ["--cluster", self._registries[replica]]
            variables = self.machines[replica].variables | variables
            with self.network.place(str(replica)):
                self.replicas[replica] = ReplicaProcess(
                    self.data(replica), self, replica, self.ports[replica], *flags, **variables
                )

    def owner_of(self, port: int) -> str:
        """Returns the host of the process whose connection has this port of its own."""
        for replica, process in list(self.replicas.items()):
            with suppress(OSError, AssertionError):
                if is_socket_of(process.child, port):
                    return str(replica)
        return CLIENTS

    # --- Faults that one call makes ---

    def signal(self, replica: int, number: signal.Signals) -> None:
        # Between the end of a child and the start of the next one there is none.
        with suppress(ProcessLookupError, AssertionError):
            os.kill(self.replicas[replica].child, number)

    def add(self, replica: int) -> None:
        """Adds a replica with an empty directory."""
        add_replica(self.registry, self.root, 0, replica, is_observer=False)
        shutil.rmtree(self.data(replica), ignore_errors=True)
        self.start(replica)

    def remove(self, replica: int) -> None:
        """Ends a replica that does not lead, and removes it from the settings and from the disk."""
        self.replicas.pop(replica).end()
        remove_replica(self.registry, self.root, 0, replica, None)
        shutil.rmtree(self.data(replica))

    # --- What heals ---

    def heal(self) -> None:
        """Makes the network, disks, clocks, settings and processes whole again, also if a fault was interrupted."""
        self.network.heal()
        for each in self.machines.values():
            each.set(SOUND)
        deadline = time.monotonic() + REPAIR_S_MAX
        while True:
            try:
                self._repair()
                return
            except WarrenError:
                # ZooKeeper is just electing a leader, or the shard a master.
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_S)

    def _repair(self) -> None:
        settings = self.overview().settings
        for replica in REPLICAS:
            if replica not in settings.replicas:
                add_replica(self.registry, self.root, 0, replica, is_observer=False)
            if replica not in self.replicas or self.replicas[replica].parent.poll() is not None:
                self.start(replica)
        if SPARE in settings.replicas:
            overview = self.overview()
            if overview.master is not None and overview.master.replica == SPARE:
                self.hand_over(REPLICAS[0])
            if SPARE in self.replicas:
                self.remove(SPARE)
            else:
                remove_replica(self.registry, self.root, 0, SPARE, None)

    def hand_over(self, replica: int) -> None:
        """Lets a replica lead, and waits until the process of the one before it has ended and follows again."""
        former = self.all_in_sync().master
        assert former is not None
        if former.replica == replica:
            return
        connection = self._connection(former.replica, CALL_S)
        try:
            checked(connection.call(HandOverShardRequest(shard=0, replica=replica), VERSION, CALL_S))
        finally:
            connection.close()

        def is_done(now: ShardOverview) -> bool:
            # The former master stands in the in-sync set also while its process ends.
            again = now.living.get(former.replica)
            is_led = now.master is not None and now.master.replica == replica
            return is_led and again is not None and again.nonce != former.nonce and not now.fault

        self.wait_for(f"the lead of replica {replica}, with replica {former.replica} as its slave", is_done)

    # --- What it tells ---

    def verify(self) -> str:
        """Returns what `warren cluster verify` finds wrong; empty if all replicas are equal."""
        done = subprocess.run(
            warren_command("cluster", "verify", self.addresses, "--root", self.root),
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=VERIFY_S_MAX,
            check=False,
        )
        return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}"

    def seen_by_replicas(self) -> str:
        """Returns how each replica sees the shard, for the case that it does not become whole."""
        lines = []
        for replica in self.replicas:
            try:
                connection = self._connection(replica, ANSWER_S)
                try:
                    (shard,) = checked(connection.call(SeeClusterRequest(), VERSION, ANSWER_S)).shards
                finally:
                    connection.close()
                rows = [
                    f"{each.replica}: alive {each.is_alive}, in sync {each.is_insync}, has {each.acknowledged}, "
                    f"silent for {each.silent_ms} ms"
                    for each in shard.replicas
                ]
                lines.append(f"replica {replica}: epoch {shard.epoch}, master {shard.master}, barrier {shard.barrier}")
                lines += [f"    {row}" for row in rows]
            except WarrenError as error:
                lines.append(f"replica {replica}: {error}")
        return "\n".join(lines)

    def _connection(self, replica: int, timeout_s: float) -> Connection:
        return Connection(f"{self.network.host(str(replica))}:{self.ports[replica]}", None, timeout_s)

    def close(self) -> None:
        for each in self.replicas.values():
            if each.parent.poll() is None:
                each.kill()
        self.registry.close()


@contextmanager
def soaked_shard(folder: Path, network: str | None) -> Iterator[SoakedShard]:
    """Runs an ensemble of ZooKeeper and a shard on `proxies` or `namespaces`; without a choice, on namespaces if there
    can be some. Nothing of it is left at the end.
    """
    with (
        running_network(network) as links,
        running_ensemble(
            folder / "zookeeper",
            len(SERVERS),
            host_of=lambda number: links.host(SERVERS[number - 1]),
            place=lambda number: links.place(SERVERS[number - 1]),
        ) as ensemble,
    ):
        shard = SoakedShard(folder, ensemble, links)
        if isinstance(links, Matrix):
            links.owner_of = shard.owner_of
        try:
            shard.start(*REPLICAS)
            yield shard
        finally:
            shard.close()


@contextmanager
def running_network(kind: str | None) -> Iterator[Network]:
    """Raises BadInput if namespaces are demanded and there can be none."""
    reason = "" if kind == PROXIES else reason_against()
    if kind == NAMESPACES and reason:
        raise BadInput(reason)
    network: Network = (
        Matrix() if kind == PROXIES or reason else Namespaces([*map(str, (*REPLICAS, SPARE)), *SERVERS, CLIENTS])
    )
    try:
        yield network
    finally:
        network.close()
