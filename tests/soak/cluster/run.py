"""The long run of a cluster: clients at work, one fault after the other, and then the check of everything."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import warren
from tests.soak.checker import Fault, Stored, check
from tests.soak.cluster.clients import CONSUMERS, KAFKA, PRODUCERS, STEP_S_MAX, Client
from tests.soak.cluster.nemeses import Nemesis
from tests.soak.cluster.network import CLIENTS
from tests.soak.cluster.shard import CALL_S, REPLICAS, SoakedShard, soaked_shard
from tests.soak.history import Event, Writer, read_all
from tests.soak.network.progress import Progress
from tests.soak.worker import PARTITIONS, QUEUE, STREAM
from warren.broker.cluster.overview import ShardOverview
from warren.errors import WarrenError

TOPIC: Final = "soak"
BLOCK_SIZE: Final = 1 << 20
"""Small, so that replicas often need more room on the disk."""
GROUPS: Final = (STREAM, QUEUE, KAFKA)
FAIL_OVERS_PER_HOUR: Final = 100
"""A run with fewer fail-overs proves less than it says."""
CALM_S_MAX: Final = 4.0
"""The longest time between two faults."""
FULL_S_MAX: Final = 60.0
"""So long after a fault all replicas are in sync again."""
DRAIN_S_MAX: Final = 120.0
WARREN: Final = "warren"
NEMESIS: Final = "nemesis"


class Outcome(NamedTuple):
    """The counts of the run, and its faults.

    `longest_gap_s` is between two acknowledged puts of our clients, and `gap_kind` the last fault that began before its
    end.
    """

    seconds: float
    network: str
    nemeses: dict[str, int]
    fail_overs: int
    messages: int
    events: int
    outages: int
    connections: int
    longest_gap_s: float
    gap_kind: str
    longest_steps_s: dict[str, float]
    faults: list[Fault]


def run(
    directory: Path,
    seconds: float,
    seed: int,
    *,
    network: str | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Outcome:
    """Runs clients and faults for so long, and then waits until everything is consumed, and compares the replicas."""
    with soaked_shard(directory, network) as shard:
        return _Run(directory, shard, random.Random(seed), progress).go(seconds)


class _Run:
    def __init__(
        self, directory: Path, shard: SoakedShard, draw: random.Random, progress: Callable[[str], None]
    ) -> None:
        self._history = directory / "history"
        self._history.mkdir()
        self._shard, self._draw, self._progress = shard, draw, progress
        self._nemeses: Counter[str] = Counter()
        self._faults_made = Writer(self._history / f"{NEMESIS}.history", NEMESIS)
        self.faults: list[Fault] = []

    def go(self, seconds: float) -> Outcome:
        begun = time.monotonic()
        self._progress(f"network: {self._shard.network.kind}")
        first = self._epoch()
        with warren.connect(self._shard.brokers, timeout=CALL_S) as store:
            store.topic(TOPIC, partitions=PARTITIONS, durability="commit", block_size=BLOCK_SIZE)
        producers, consumers = self._crew(PRODUCERS), self._crew(CONSUMERS)
        clients = [*producers, *consumers]
        try:
            self._torment(clients, time.monotonic() + seconds)
            self._shard.heal()
            fail_overs = self._epoch() - first
            self._progress(f"draining after {fail_overs} fail-overs")
            stored = self._drained(producers, consumers)
        finally:
            for client in clients:
                client.end()
        self._join(consumers)
        self.faults += [Fault("died", f"{each.name}: {each.failure!r}") for each in clients if each.failure is not None]
        for each in clients:
            if each.longest_step_s > each.step_s_max:
                self.faults.append(Fault("hung", f"a step of {each.name} took {each.longest_step_s:.0f} s"))
        if fail_overs < int(FAIL_OVERS_PER_HOUR * seconds / 3600):
            self.faults.append(Fault("gentle", f"{fail_overs} fail-overs in {seconds:.0f} s"))
        self._progress("comparing")
        self._compare(stored)
        events = read_all(self._history)
        self.faults += check(events, stored, prefetching=(KAFKA,))
        gap_s, gap_kind = longest_gap(events)
        return Outcome(
            seconds=time.monotonic() - begun,
            network=self._shard.network.kind,
            nemeses=dict(self._nemeses),
            fail_overs=fail_overs,
            messages=len(stored),
            events=len(events),
            outages=sum(each.outages for each in clients),
            connections=self._shard.network.connections,
            longest_gap_s=gap_s,
            gap_kind=gap_kind,
            longest_steps_s={each.name: round(each.longest_step_s, 1) for each in clients},
            faults=self.faults,
        )

    def _epoch(self) -> int:
        view = self._all_in_sync().view
        assert view is not None
        return view.state.epoch

    def _crew(self, names: Iterable[str]) -> list[Client]:
        where = self._shard.brokers, TOPIC, self._history
        with self._shard.network.place(CLIENTS):
            return [Client(name, *where, f"{self._draw.random()}") for name in names]

    def _torment(self, clients: Sequence[Client], until_s: float) -> None:
        """One fault after the other. Each is over before the next one, and sometimes the shard is not yet whole."""
        nemesis = Nemesis(self._shard, self._draw, self._faults_made)
        while time.monotonic() < until_s and not self.faults:
            time.sleep(self._draw.random() * CALM_S_MAX)
            kind = nemesis.choose()
            self._progress(kind)
            self._nemeses[kind] += 1
            self._faults_made.note("fault", fault=kind)
            try:
                nemesis.kinds[kind]()
            except WarrenError as error:
                # ZooKeeper is just starting again, or the shard has no master yet.
                self._progress(f"  {error}")
            self._shard.heal()
            if self._draw.random() < 0.5:
                self._all_in_sync()
            self.faults += [
                Fault("hung", f"{each.name} has been busy for {each.busy_s:.0f} s")
                for each in clients
                if each.busy_s > each.step_s_max
            ]

    def _all_in_sync(self) -> ShardOverview:
        begun = time.monotonic()
        try:
            overview = self._shard.all_in_sync()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._shard.seen_by_replicas()}") from None
        took_s = time.monotonic() - begun
        if took_s > FULL_S_MAX:
            self.faults.append(Fault("slow", f"{took_s:.0f} s after a fault all replicas were in sync"))
        return overview

    def _drained(self, producers: Sequence[Client], consumers: Sequence[Client]) -> list[Stored]:
        """Returns the content of the topic when all groups have received it, or their time is over."""
        self._join(producers)
        progress = Progress(self._history)
        with warren.connect(self._shard.brokers, timeout=CALL_S) as store:
            topic = store.topic(TOPIC)
            deadline = time.monotonic() + DRAIN_S_MAX
            while list(topic.scheduled(limit=1)) and time.monotonic() < deadline:
                time.sleep(0.05)
            stored = [
                Stored(message.partition, message.number, message.body.decode(), message.timestamp)
                for message in topic.since(0)
            ]
        for group in GROUPS:
            self._await(group, len(stored), partial(progress.count, group))
        return stored

    def _await(self, group: str, count: int, done: Callable[[], int]) -> None:
        """Waits until the group has received everything, for DRAIN_S_MAX since its last progress."""
        lacking, deadline = count, time.monotonic() + DRAIN_S_MAX
        while lacking and time.monotonic() < deadline:
            time.sleep(0.1)
            left = max(0, count - done())
            if left < lacking:
                lacking, deadline = left, time.monotonic() + DRAIN_S_MAX
        if lacking:
            self.faults.append(Fault("hung", f"{group} lacks {lacking} of {count}"))

    def _join(self, clients: Sequence[Client]) -> None:
        for each in clients:
            each.end()
        deadline = time.monotonic() + STEP_S_MAX
        self.faults += [
            Fault("hung", f"{each.name} did not end") for each in clients if not each.join(deadline - time.monotonic())
        ]

    def _compare(self, stored: Sequence[Stored]) -> None:
        """Every replica has the same messages: each leads once, and is read. Then their disks are compared."""
        for replica in REPLICAS:
            self._shard.hand_over(replica)
            with warren.connect(self._shard.brokers, timeout=CALL_S) as store:
                messages = [
                    Stored(message.partition, message.number, message.body.decode(), message.timestamp)
                    for message in store.topic(TOPIC).since(0)
                ]
            if messages != list(stored):
                lacking, more = set(stored) - set(messages), set(messages) - set(stored)
                self.faults.append(
                    Fault("different", f"replica {replica} lacks {sorted(lacking)[:5]} and has {sorted(more)[:5]}")
                )
        difference = self._shard.verify()
        self._progress(f"warren cluster verify: {difference or 'all replicas are equal'}")
        if difference:
            self.faults.append(Fault("different", difference))


def longest_gap(events: Sequence[Event]) -> tuple[float, str]:
    """Returns the longest time between two acknowledged puts of our clients, and the last fault made before its end."""
    longest_s, during, kind = 0.0, "", ""
    last_ns: int | None = None
    for event in events:
        if event.kind == "fault":
            kind = event.facts["fault"]
        elif event.kind == "put" and event.who.startswith(WARREN):
            if last_ns is not None and (event.at_ns - last_ns) / 1e9 > longest_s:
                longest_s, during = (event.at_ns - last_ns) / 1e9, kind
            last_ns = event.at_ns
    return longest_s, during
