"""The long run over the network: rounds of kills and of calm, checked by history, and a broker that is measured."""

from __future__ import annotations

import random
import signal
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import warren
from tests.fuzz.valid import TOPICS
from tests.soak.checker import Fault, Stored, check, check_copy
from tests.soak.history import Event, read_all
from tests.soak.network.copiers import COPIES, copy_of
from tests.soak.network.crew import CONSUMERS, FAULT, GROUPS, OURS, PREFETCHING, PRODUCERS, STEP_S_MAX, Job, Worker
from tests.soak.network.hostile import Hostile, Waits, Witness, judged_waits
from tests.soak.network.logins import MALLORY, PREFIX, SETTINGS, SOAK
from tests.soak.network.progress import Progress
from tests.soak.network.proxy import HOST, Proxy
from tests.support.broker.watched import Usage, WatchedBroker
from warren.broker.net.malloc import BROKER_HEAP_KEPT_SIZE_MAX
from warren.broker.security.rights import EVERY, USER, Operation, Pattern, Permission, ResourceKind, Right, RightsFile
from warren.broker.security.users import Users
from warren.queue.stream.positions import stored_position
from warren.queue.topic import Topic

PARTITIONS: Final = 4
DRAIN_S_MAX: Final = 60.0 + STEP_S_MAX
SAMPLE_S: Final = 0.5
WINDOW_S: Final = 15.0
"""How long the broker is measured under attack, and then without attacks, in turns."""
SETTLE_S: Final = 5.0
"""How long a measurement waits after attacks begin or end, until their effect is over."""
MEMORY_GROWTH_MAX: Final = 40 << 20
PRIVATE_GROWTH_MAX: Final = 8 << 20
PARTS: Final = 20
"""A stretch is cut into this many parts, each with the typical private memory in it, to tell a leak from a step."""
WARM_PARTS: Final = 4
"""In the first parts the first attacks make the heap of the broker larger. They are not judged."""
STEPS_MAX: Final = 2
"""How many times the private memory may step up under attack, from one part to the next.

A request that needs more memory at once than any before makes the heap larger, by 16 MiB more than it needs. The broker
frees the memory of the request, and keeps it for the next one (`keep_memory` in `broker/net/malloc.py`). Measured: an
Append of 9.6 MB made the private memory 17 MB larger, and 24 MB of the heap and 516,000 blocks of Python were in use
before and after it. A leak grows in every part.
"""
STEPS_SIZE_MAX: Final = BROKER_HEAP_KEPT_SIZE_MAX
"""The limit of all steps together: as much free memory as a broker is documented to keep."""
ROUNDS_MIN: Final = 9
"""In fewer rounds under attack private memory is not compared, because free memory of large requests decides it."""
FILES_GROWTH_MAX: Final = 40
STRETCH_S_MIN: Final = 30.0
"""Shorter stretches are not judged, because the usage has not settled."""
ATTACKED_STRETCH_S_MIN: Final = 300.0
"""The same under attack: the first attacks make the heap of the broker larger, and the later ones must not."""
GENTLE_SHARE: Final = 0.2
"""How often the broker is ended by SIGTERM instead of SIGKILL."""


class Plan(NamedTuple):
    """How long a round kills brokers and how long it leaves them alone, and how hard clients work.

    With `is_attacked` a hostile client attacks the broker while brokers are killed, and in every other period of the
    time without kills.
    """

    kills: int = 3
    chaos_s: float = 8.0
    calm_s: float = 0.0
    pace_s: float = 0.02
    durability: str = "os"
    is_attacked: bool = False


class Stretch(NamedTuple):
    """A time without kills: the broker's usage in the middle of it and at its end, and its private memory in each of
    PARTS parts.
    """

    round_number: int
    seconds: float
    middle: Usage
    last: Usage
    is_attacked: bool = False
    levels: Sequence[int] = ()


class Outcome(NamedTuple):
    """The counts of the run, and its faults."""

    kills: int
    messages: int
    events: int
    outages: int
    connections: dict[str, int]
    crashes: dict[str, int]
    stretches: list[Stretch]
    calm: Waits | None
    attacked: Waits | None
    resident_max: int
    faults: list[Fault]


class Served:
    """The broker, at one address for all its processes; errors that it logs are faults."""

    def __init__(self, path: Path, advertised: str, port: int, http_port: int, durability: str) -> None:
        self._path, self._port = path, port
        self._flags = ("--advertise", advertised, "--durability", durability, "--http-port", str(http_port))
        self.kills, self.resident_max, self.faults = 0, 0, list[Fault]()
        self.broker = self._start()

    def _start(self) -> WatchedBroker:
        settings = {"WARREN_BROKER_AUTO_CREATE_TOPICS": "false", **SETTINGS}
        return WatchedBroker(self._path, *self._flags, port=self._port, variables=settings)

    def restart(self, how: signal.Signals) -> None:
        self.end(how)
        self.kills += 1
        self.broker = self._start()

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.resident_max = max(self.resident_max, self.broker.usage().resident_max)
        code = self.broker.end(how)
        if code != (0 if how is signal.SIGTERM else -how):
            self.faults.append(Fault("died", f"the broker ended with {code} on {how.name}"))
        self.faults += [Fault("error", line) for line in self.broker.errors()]


def run(
    directory: Path,
    seed: int,
    *,
    plans: Sequence[Plan] = (Plan(),),
    progress: Callable[[int, str], None] = lambda round_number, what: None,
) -> Outcome:
    """Rounds of clients at work, killed brokers and cut connections; after each everything is consumed and checked.

    There is one for each plan.
    """
    draw = random.Random(seed)
    with socket.create_server((HOST, 0)) as free, socket.create_server((HOST, 0)) as free_for_http:
        port, http_port = free.getsockname()[1], free_for_http.getsockname()[1]
    proxy = Proxy(port, seed)
    _admit(directory / "store")
    served = Served(directory / "store", proxy.address, port, http_port, plans[0].durability)
    witness = Witness(port, directory / "waits")
    hostile = Hostile(port, http_port, seed) if any(plan.is_attacked for plan in plans) else None
    done: list[Round] = []
    try:
        for number, plan in enumerate(plans):
            one = Round(directory / f"round-{number}", number, served, proxy, draw, plan, hostile)
            done.append(one)
            one.go(lambda what, number=number: progress(number, what))  # type: ignore[misc]
            if one.faults:
                break
    finally:
        if hostile is not None:
            hostile.close()
        witness.close()
        served.broker.close() if done and done[-1].faults else served.end()
        proxy.close()
    stretches = [one.stretch for one in done if one.stretch is not None]
    calm, attacked = (
        witness.waits(window for one in done for window in one.windows[is_attacked]) for is_attacked in (False, True)
    )
    faults = [*served.faults, *(fault for one in done for fault in one.faults), *judged(stretches)]
    faults += [Fault("slow", what) for what in judged_waits(calm, attacked)]
    messages, events = sum(one.messages for one in done), sum(one.events for one in done)
    outages = sum(one.outages for one in done)
    crashes = dict(sum((one.crashes for one in done), Counter[str]()))
    return Outcome(
        served.kills,
        messages,
        events,
        outages,
        dict(proxy.counts),
        crashes,
        stretches,
        calm,
        attacked,
        served.resident_max,
        faults,
    )


def _admit(path: Path) -> None:
    """Creates the users of the run; one of them may only use its own topics, groups and transactions."""
    with warren.open(path) as store:
        for name in TOPICS:
            store.topic(name)
    users, rights = Users(str(path)), RightsFile(str(path))
    for login in (SOAK, MALLORY):
        users.create(login.user, login.password)
    rights.add(
        [
            Right(kind, PREFIX, Pattern.PREFIXED, USER + MALLORY.user, EVERY, Operation.ALL, Permission.ALLOW)
            for kind in (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.TRANSACTIONAL_ID)
        ]
    )


class Round:
    """One topic, from the first put to the last message consumed."""

    def __init__(
        self,
        directory: Path,
        number: int,
        served: Served,
        proxy: Proxy,
        draw: random.Random,
        plan: Plan,
        hostile: Hostile | None,
    ) -> None:
        directory.mkdir()
        self._hostile = hostile if plan.is_attacked else None
        self.windows: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        self._directory, self._number, self._served, self._proxy = directory, number, served, proxy
        self._draw, self._plan = draw, plan
        self._topic = f"soak-{number}"
        self._topics = [self._topic, *(copy_of(self._topic, group) for group in COPIES)]
        self._progress = Progress(directory)
        self.faults: list[Fault] = []
        self.messages = self.events = self.outages = 0
        self.crashes: Counter[str] = Counter()
        self.stretch: Stretch | None = None

    def go(self, progress: Callable[[str], None]) -> None:
        self._make_topics()
        self._proxy.is_calm = False
        makers, takers = self._crew(PRODUCERS), self._crew(CONSUMERS)
        try:
            progress("kills")
            self._turn(is_attacked=True)
            self._kill()
            progress("calm")
            self._watch()
            progress("draining")
            self._turn(is_attacked=False)
            self._proxy.is_calm = True
            stored = self._drained(makers)
        finally:
            for worker in (*makers, *takers):
                worker.end()
        self._join(takers)
        self.crashes = Counter({each.name: each.crashes for each in (*makers, *takers) if each.crashes})
        # Kafka's clients are partly in C, and may end by themselves; ours may not.
        self.faults += [Fault("died", f"{name} crashed") for name in self.crashes if name.startswith(OURS)]
        self.faults += [Fault("died", path.read_text()) for path in sorted(self._directory.glob(f"*{FAULT}"))]
        events = read_all(self._directory)
        self.outages = sum(event.kind == "outage" for event in events)
        self.messages, self.events = len(stored), len(events)
        self.faults += [
            *check(events, stored, PREFETCHING),
            *self._check_positions(events),
            *self._check_copies(stored),
        ]
        if not self.faults:
            self._tidy()

    def _crew(self, names: Iterable[str]) -> list[Worker]:
        where = self._proxy.address, self._topic, str(self._directory), self._plan.pace_s
        return [Worker(Job(name, *where, f"{self._draw.random()}")) for name in names]

    # --- What is done to the broker ---

    def _kill(self) -> None:
        for _ in range(self._plan.kills):
            time.sleep(self._draw.random() * 2 * self._plan.chaos_s / max(1, self._plan.kills))
            is_gentle = self._draw.random() < GENTLE_SHARE
            self._served.restart(signal.SIGTERM if is_gentle else signal.SIGKILL)
        time.sleep(self._draw.random() * self._plan.chaos_s / max(1, self._plan.kills))

    def _turn(self, *, is_attacked: bool) -> None:
        if self._hostile is not None:
            self._hostile.turn(is_on=is_attacked)

    def _watch(self) -> None:
        """Measures the usage of the broker without kills, in turns without and under attack, when it has settled."""
        begun = time.monotonic()
        samples, is_attacked = [], False
        while time.monotonic() < begun + self._plan.calm_s:
            self._turn(is_attacked=is_attacked)
            if self._hostile is not None:
                time.sleep(SETTLE_S)
            window = time.monotonic_ns()
            end = min(time.monotonic() + WINDOW_S, begun + self._plan.calm_s)
            while time.monotonic() < end:
                usage = self._served.broker.usage()
                samples += [] if is_attacked else [usage]
                time.sleep(SAMPLE_S)
            self.windows[is_attacked].append((window, time.monotonic_ns()))
            is_attacked = self._hostile is not None and not is_attacked
        if len(samples) >= PARTS:
            half, seconds = len(samples) // 2, time.monotonic() - begun
            middle, last = _typical(samples[half // 2 : half]), _typical(samples[half + half // 2 :])
            ends = [len(samples) * part // PARTS for part in range(PARTS + 1)]
            levels = [_typical(samples[start:end]).private for start, end in pairwise(ends)]
            self.stretch = Stretch(self._number, seconds, middle, last, self._hostile is not None, levels)

    # --- Coming to an end ---

    def _drained(self, makers: Sequence[Worker]) -> list[Stored]:
        """Returns the content of the topic when all groups have received it, or their time is over."""
        for worker in makers:
            worker.end()
        self._join(makers)
        deadline = time.monotonic() + DRAIN_S_MAX
        with warren.open(self._directory.parent / "store") as store:
            topic = store.topic(self._topic)
            while list(topic.scheduled(limit=1)) and time.monotonic() < deadline:
                time.sleep(0.05)
            places = {(message.partition, message.number) for message in _stored(topic)}
            for group in GROUPS:
                self._await(group, len(places), partial(self._progress.count, group))
            for group in COPIES:
                self._await(group, len(places), partial(_count, store.topic(copy_of(self._topic, group))))
            return _stored(topic)

    def _await(self, group: str, count: int, done: Callable[[], int]) -> None:
        """Waits until the group has finished everything, for DRAIN_S_MAX since its last progress."""
        lacking, deadline = count, time.monotonic() + DRAIN_S_MAX
        while lacking and time.monotonic() < deadline:
            time.sleep(0.1)
            left = max(0, count - done())
            if left < lacking:
                lacking, deadline = left, time.monotonic() + DRAIN_S_MAX
        if lacking:
            self.faults.append(Fault("hung", f"{group} lacks {lacking} of {count}"))

    def _join(self, workers: Sequence[Worker]) -> None:
        deadline = time.monotonic() + DRAIN_S_MAX
        self.faults += [Fault("hung", f"{each.name} did not end") for each in workers if not each.join(deadline)]

    def _check_positions(self, events: Sequence[Event]) -> list[Fault]:
        """A group continues at its acknowledged commit or before it."""
        acknowledged: dict[tuple[str, int], int] = {}
        for event in events:
            for partition, number in event.facts["positions"].items() if event.kind == "committed" else ():
                key = event.facts["group"], int(partition)
                acknowledged[key] = max(acknowledged.get(key, 0), number)
        with warren.open(self._directory.parent / "store") as store:
            topic = store.topic(self._topic)
            stored = {(group, each): stored_position(topic.partition(each), group) for group, each in acknowledged}
        return [
            Fault("lost", f"{group} goes on from {stored[group, each]} in {each}, and {number} was committed")
            for (group, each), number in acknowledged.items()
            if stored[group, each] < number
        ]

    def _check_copies(self, stored: Sequence[Stored]) -> list[Fault]:
        ids = [message.id for message in stored]
        with warren.open(self._directory.parent / "store") as store:
            copies = {name: store.topic(copy_of(self._topic, name)).since(0) for name in COPIES}
            return [
                fault
                for name, messages in copies.items()
                for fault in check_copy(name, ids, [message.body.decode() for message in messages])
            ]

    def _make_topics(self) -> None:
        with warren.open(self._directory.parent / "store") as store:
            for name in self._topics:
                store.topic(name, partitions=PARTITIONS, durability=self._plan.durability)

    def _tidy(self) -> None:
        with warren.open(self._directory.parent / "store") as store:
            for name in self._topics:
                store.delete_topic(name)
        for path in self._directory.iterdir():
            path.unlink()


def _count(topic: Topic) -> int:
    return sum(log.end for log in topic.logs)


def _stored(topic: Topic) -> list[Stored]:
    return [
        Stored(message.partition, message.number, message.body.decode(), message.timestamp)
        for message in topic.since(0)
    ]


def _typical(samples: Sequence[Usage]) -> Usage:
    return Usage(*(int(statistics.median(values)) for values in zip(*samples, strict=True)))


def judged(stretches: Sequence[Stretch]) -> list[Fault]:
    """Returns a fault for each usage of the broker that is larger at the end than in the middle of a stretch, or in the
    last rounds than in the first.

    If the broker is attacked, its private memory may step up within a stretch, but not grow all the time.
    """
    faults = []
    stretches = [one for one in stretches if one.seconds >= STRETCH_S_MIN]
    pairs = []
    for one in stretches:
        middle, when = one.middle, f"within round {one.round_number}"
        if one.is_attacked:
            if one.seconds < ATTACKED_STRETCH_S_MIN:
                continue
            warm = one.levels[WARM_PARTS:]
            growth = steady_growth(warm)
            if growth > PRIVATE_GROWTH_MAX or warm[-1] - warm[0] > STEPS_SIZE_MAX:
                levels = ", ".join(f"{level:,}" for level in one.levels)
                faults.append(Fault("grown", f"private memory, {when}, by {growth:,} without its steps: {levels}"))
            # The memory of files is left to compare.
            files_resident = middle.resident - middle.private
            middle = middle._replace(private=one.last.private, resident=files_resident + one.last.private)
        pairs.append((middle, one.last, when))
    # A broker that is measured for longer is older.
    alike = [one for one in stretches if one.seconds < 2 * stretches[0].seconds]
    if len(alike) > 1:
        third = max(1, len(alike) // 3)
        before, after = _least(alike[:third]), _least(alike[-third:])
        if alike[0].is_attacked and len(alike) < ROUNDS_MIN:
            after = after._replace(private=before.private)
        # Each round adds topics, and a broker opens them all: files are compared within a round only.
        pairs.append((before, after._replace(files=before.files), "from the first rounds to the last"))
    for before, after, when in pairs:
        if after.resident - before.resident > MEMORY_GROWTH_MAX:
            faults.append(Fault("grown", f"memory, {when}: {before.resident:,} to {after.resident:,}"))
        if after.private - before.private > PRIVATE_GROWTH_MAX:
            faults.append(Fault("grown", f"private memory, {when}: {before.private:,} to {after.private:,}"))
        if after.files - before.files > FILES_GROWTH_MAX:
            faults.append(Fault("grown", f"open files, {when}: {before.files} to {after.files}"))
    return faults


def _least(stretches: Sequence[Stretch]) -> Usage:
    """Returns the least usage at the ends of the stretches: that of the broker that kept the least free memory."""
    return Usage(*map(min, zip(*(one.last for one in stretches), strict=True)))


def steady_growth(levels: Sequence[int]) -> int:
    """Returns by how many bytes the levels have grown without going down again, except in the STEPS_MAX largest steps.

    What is given back later is no growth: each level counts as the least of those from it on.
    """
    floors = list(accumulate(reversed(levels), min))[::-1]
    steps = sorted(after - before for before, after in pairwise(floors))
    return sum(steps[:-STEPS_MAX])
