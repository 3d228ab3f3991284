"""What is done to a cluster of the long run, one fault at a time: processes, links, disks, clocks, and members."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from tests.integration.registry.servers import RunningServer
from tests.soak.cluster.machine import SOUND, MachineState
from tests.soak.cluster.network import CLIENTS, SERVERS, Link, both
from tests.soak.cluster.shard import SPARE, SoakedShard
from tests.soak.history import Writer

HELD_S: Final = (0.5, 8.0)
"""How long a fault lasts."""
FLAPS: Final = 5
FLAP_S_MAX: Final = 1.0
DELAY_S: Final = (0.01, 0.2)
SYNC_S_MAX: Final = 3.0
"""A sync that takes longer than `lag_s` puts a slave out of the in-sync set."""
STEP_S_MAX: Final = 60.0
"""The clock of a replica steps by up to so much, forwards or back."""
LEADER: Final = "leader"
LEADER_S_MAX: Final = 60.0
GENTLE_SHARE: Final = 0.3
"""The share of the ends of replicas that are by SIGTERM."""
MASTER_WEIGHT: Final = 6
"""How much more often the master is hit than another fault happens, because a fail-over is what the run is about."""


class Nemesis:
    """Faults of a cluster, each of which is over when its method returns."""

    def __init__(self, shard: SoakedShard, draw: random.Random, history: Writer) -> None:
        self._shard, self._draw, self._history = shard, draw, history
        of_masters: dict[str, Callable[[], None]] = {
            "kill the master": self.kill_master,
            "end or kill the parent of the master": self.end_master,
            "pause the master": self.pause_master,
            "cut off the master": self.isolate_master,
        }
        self.kinds: Mapping[str, Callable[[], None]] = of_masters | {
            "kill a process": self.kill,
            "end or kill a parent": self.end,
            "pause a replica": self.pause,
            "cut off a replica": self.isolate,
            "cut one way": self.cut_one_way,
            "cut one pair": self.cut_pair,
            "cut from ZooKeeper": self.cut_registry,
            "cut clients from the master": self.cut_clients,
            "flapping link": self.flap,
            "slow links": self.slow,
            "kill a server of ZooKeeper": self.kill_server,
            "kill the leader of ZooKeeper": self.kill_leader,
            "pause the leader of ZooKeeper": self.pause_leader,
            "cut off the leader of ZooKeeper": self.isolate_leader,
            "pause the majority of ZooKeeper": self.pause_majority,
            "slow disk": self.slow_disk,
            "full disk": self.full_disk,
            "full disk of the master": self.full_disk_of_master,
            "wrong clock": self.step_clock,
            "wrong clock of the master": self.step_clock_of_master,
            "replace a replica": self.replace,
            "add a replica for a while": self.add,
        }
        self._weights = [MASTER_WEIGHT if each in of_masters else 1 for each in self.kinds]

    def choose(self) -> str:
        """Returns the kind of the next fault."""
        return self._draw.choices(list(self.kinds), self._weights)[0]

    # --- Processes ---

    def kill(self) -> None:
        self._shard.signal(self._any(), signal.SIGKILL)

    def kill_master(self) -> None:
        self._shard.signal(self._master(), signal.SIGKILL)

    def end(self) -> None:
        self._end(self._any())

    def end_master(self) -> None:
        self._end(self._master())

    def pause(self) -> None:
        self._pause(self._any())

    def pause_master(self) -> None:
        self._pause(self._master())

    def _end(self, replica: int) -> None:
        """Ends a parent with its child, and starts them again."""
        process = self._shard.replicas[replica]
        if self._draw.random() < GENTLE_SHARE:
            process.end()
        else:
            process.kill()
        self._hold()
        self._shard.start(replica)

    def _pause(self, replica: int) -> None:
        with suppress(ProcessLookupError, AssertionError):
            child = self._shard.replicas[replica].child
            with stopped(child):
                self._hold()

    # --- ZooKeeper ---

    def kill_server(self) -> None:
        self._kill(self._draw.choice(self._shard.ensemble.servers))

    def kill_leader(self) -> None:
        self._kill(self._leader())

    def pause_leader(self) -> None:
        self._pause_servers([self._leader()])

    def pause_majority(self) -> None:
        """Without a majority there is no ZooKeeper: reads and puts go on, and no replica takes over."""
        servers = self._shard.ensemble.servers
        self._pause_servers(self._draw.sample(servers, len(servers) // 2 + 1))

    def isolate_leader(self) -> None:
        """Cuts the leader from the replicas; in namespaces from the other servers, too."""
        name = SERVERS[self._shard.ensemble.servers.index(self._leader())]
        others = [each for each in SERVERS if each != name] + [str(each) for each in self._shard.numbers]
        self._cut({link for other in others for link in both(name, other)})

    def _leader(self) -> RunningServer:
        """Returns the leader of ZooKeeper. An election after the last fault may take a while."""
        deadline = time.monotonic() + LEADER_S_MAX
        while LEADER not in (modes := self._shard.ensemble.modes()):
            assert time.monotonic() < deadline, f"ZooKeeper has elected no leader: {modes}"
        return self._shard.ensemble.servers[modes.index(LEADER)]

    def _kill(self, server: RunningServer) -> None:
        # A server that is just being started again has no process.
        with suppress(ProcessLookupError, AssertionError):
            server.signal(signal.SIGKILL)
        self._hold()

    def _pause_servers(self, servers: Sequence[RunningServer]) -> None:
        pids = [pid for each in servers if (pid := each.server.pid) is not None]
        with suppress(ProcessLookupError), stopped(*pids):
            self._hold()

    # --- Links ---

    def isolate(self) -> None:
        self._isolate(self._any())

    def isolate_master(self) -> None:
        self._isolate(self._master())

    def cut_one_way(self) -> None:
        first, second = self._draw.sample(self._shard.numbers, 2)
        self._cut({(str(first), str(second))})

    def cut_pair(self) -> None:
        first, second = map(str, self._draw.sample(self._shard.numbers, 2))
        self._cut(both(first, second))

    def cut_registry(self) -> None:
        """Cuts a replica from some servers of ZooKeeper, or from all."""
        name = str(self._any())
        servers = self._draw.sample(SERVERS, self._draw.randint(1, len(SERVERS)))
        self._cut({link for server in servers for link in both(name, server)})

    def cut_clients(self) -> None:
        self._cut(both(CLIENTS, str(self._master())))

    def flap(self) -> None:
        name = str(self._any())
        links = {link for other in self._others(name) for link in both(name, other)}
        for _ in range(FLAPS):
            with self._cut_for(links):
                time.sleep(self._draw.random() * FLAP_S_MAX)
            time.sleep(self._draw.random() * FLAP_S_MAX)

    def slow(self) -> None:
        name = str(self._any())
        links = {link: self._draw.uniform(*DELAY_S) for each in self._others(name) for link in sorted(both(name, each))}
        self._shard.network.slow(links)
        self._hold()

    def _isolate(self, replica: int) -> None:
        """Cuts a replica from the others; sometimes also from ZooKeeper and from clients."""
        name = str(replica)
        others = self._others(name)
        others += SERVERS if self._draw.random() < 0.5 else []
        others += [CLIENTS] if self._draw.random() < 0.5 else []
        self._cut({link for other in others for link in both(name, other)})

    def _others(self, name: str) -> list[str]:
        return [str(each) for each in self._shard.numbers if str(each) != name]

    def _cut(self, links: set[Link]) -> None:
        with self._cut_for(links):
            self._hold()

    @contextmanager
    def _cut_for(self, links: set[Link]) -> Iterator[None]:
        self._shard.network.cut(links)
        try:
            yield
        finally:
            self._shard.network.join(links)

    # --- Disks and clocks ---

    def slow_disk(self) -> None:
        self._set(self._any(), MachineState(sync_s=self._draw.random() * SYNC_S_MAX))

    def full_disk(self) -> None:
        self._set(self._any(), MachineState(is_full=True))

    def full_disk_of_master(self) -> None:
        self._set(self._master(), MachineState(is_full=True))

    def step_clock(self) -> None:
        self._set_clock(self._any())

    def step_clock_of_master(self) -> None:
        self._set_clock(self._master())

    def _set_clock(self, replica: int) -> None:
        self._step(replica, self._draw.uniform(-STEP_S_MAX, STEP_S_MAX))
        self._hold()
        self._step(replica, 0.0)

    def _step(self, replica: int, ahead_s: float) -> None:
        # Noted before and after, because the step is somewhere between the two.
        self._history.note("clock", replica=replica, ahead_s=ahead_s)
        self._shard.machines[replica].set(MachineState(ahead_s=ahead_s))
        self._history.note("clock", replica=replica, ahead_s=ahead_s)

    def _set(self, replica: int, state: MachineState) -> None:
        machine = self._shard.machines[replica]
        machine.set(state)
        self._hold()
        machine.set(SOUND)

    # --- Members ---

    def replace(self) -> None:
        """Removes a replica under load, and adds it again with an empty directory."""
        self._shard.all_in_sync()
        replica = self._slave()
        self._shard.remove(replica)
        self._hold()
        self._shard.add(replica)

    def add(self) -> None:
        """Adds one more replica, which becomes a member of the in-sync set, and removes it again."""
        self._shard.all_in_sync()
        self._shard.add(SPARE)
        self._shard.all_in_sync()
        self._hold()
        if self._master() == SPARE:
            self._shard.hand_over(self._any())
        self._shard.remove(SPARE)

    # --- What it needs ---

    def _hold(self) -> None:
        time.sleep(self._draw.uniform(*HELD_S))

    def _any(self) -> int:
        return self._draw.choice(self._shard.numbers)

    def _master(self) -> int:
        return self._shard.master()

    def _slave(self) -> int:
        master = self._master()
        return self._draw.choice([each for each in self._shard.numbers if each != master])


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Pauses processes until it is left."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
