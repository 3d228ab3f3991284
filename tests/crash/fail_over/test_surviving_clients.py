"""Clients outlive a master: what they were answered before a fail-over is held against what the next master does."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.support.replication.replicated_disk import ReplicatedDisk, ReplicatedStoreDisk
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut
from warren.errors import LeaseLost
from warren.message import Message
from warren.queue.leases.queue_group import QueueGroup
from warren.transaction.store import Store

PARTS: Final = 4
LIVES_PER_PART: Final = 8
FAIL_OVERS: Final = 6
STEPS_MAX: Final = 8
CALLS_MAX: Final = 60
LEASE_S: Final = 50.0
MESSAGES: Final = 40
Key = tuple[int, int]


class ClientLife:
    """A queue group and a topic, used by a client that continues with the next master, and remembers every answer."""

    def __init__(self, seed: int, durability: str) -> None:
        self.random, self.durability = Random(seed), durability
        self.disk: ReplicatedDisk = ReplicatedStoreDisk(seed=seed)
        self.clock = SimulatedClock()
        self.attempts: dict[Key, int] = {}
        """The highest attempt with which the client was given a message."""
        self.handles: list[Message] = []
        self.done: set[Key] = set()
        self.waits_until_s: dict[Key, float] = {}
        self.bodies: list[bytes] = []
        self.position = 0
        self.open()
        self.store.topic("jobs").put_many([b"%d" % number for number in range(MESSAGES)])

    def run(self) -> None:
        for _ in range(FAIL_OVERS):
            steps = (self.take, self.nack, self.extend, self.ack, self.give_back, self.put, self.commit)
            self.disk.cut_at_call = None
            for _ in range(self.random.randrange(STEPS_MAX)):
                self.random.choice(steps)()
            self.disk.cut_at_call = self.disk.calls + self.random.randint(1, CALLS_MAX)
            try:
                while True:
                    self.random.choice(steps)()
            except PowerCut:
                self.disk = self.disk.after_process_kill(self.random.getrandbits(32))
            self.clock.pass_ns(self.random.choice((1_000_000, round(2 * LEASE_S * 1e9))))
            self.open()
            self.check()

    def open(self) -> None:
        self.store = Store("/store", keeps=False, filesystem=self.disk, clock=self.clock)
        topic = self.store.topic("jobs", durability=self.durability)
        group = topic.group("workers", mode="queue", lease=LEASE_S, backoff=0.0, attempts_max=0)
        assert isinstance(group, QueueGroup)
        self.group = group
        self.stream = self.store.topic("events", durability=self.durability).group("readers")

    def take(self) -> None:
        for message in self.group.take(self.random.randint(1, 4), renew=False):
            self.see(message)
            self.handles.append(message)

    def see(self, message: Message) -> None:
        key = (message.partition, message.number)
        assert key not in self.done, f"{key} was acknowledged, and comes again"
        assert message.attempt > self.attempts.get(key, 0), f"{key} comes a second time as attempt {message.attempt}"
        waits_until_s = self.waits_until_s.pop(key, 0.0)
        assert self.clock.steady_s() >= waits_until_s, f"{key} was given back until {waits_until_s}"
        self.attempts[key] = message.attempt

    def nack(self) -> None:
        if self.handles:
            message = self.handles.pop()
            try:
                self.group.nack(message, 500.0)
            except LeaseLost:
                return
            self.waits_until_s[message.partition, message.number] = self.clock.steady_s() + 499.0

    def give_back(self) -> None:
        if self.handles:
            message = self.handles.pop()
            key = (message.partition, message.number)
            was_leased = bool(self.group.still_leased((message,)))
            # From here on the attempt may not count any more.
            self.attempts[key] -= was_leased
            self.group.give_back((message,))

    def extend(self) -> None:
        if self.handles:
            try:
                self.group.extend(self.handles[-1], 2000.0)
            except LeaseLost:
                self.handles.pop()

    def ack(self) -> None:
        if self.handles:
            message = self.handles.pop()
            try:
                self.group.ack(message)
            except LeaseLost:
                return
            self.done.add((message.partition, message.number))

    def put(self) -> None:
        body = b"%d" % self.random.getrandbits(64)
        self.store.topic("events").put(body)
        self.bodies.append(body)

    def commit(self) -> None:
        self.stream.read(limit=3)
        self.stream.commit()
        self.position = self.stream.positions()[0]

    def check(self) -> None:
        bodies = [message.body for message in self.store.topic("events").partition(0).read(0, limit=10_000)]
        remaining = iter(bodies)
        assert all(body in remaining for body in self.bodies), (
            "a message that was acknowledged is gone, or out of order"
        )
        assert self.stream.positions()[0] >= self.position


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("part", range(PARTS))
def test_an_answer_to_a_client_is_true_of_the_next_master(part: int, durability: str) -> None:
    for seed in range(part * LIVES_PER_PART, (part + 1) * LIVES_PER_PART):
        try:
            ClientLife(seed, durability).run()
        except Exception as error:
            error.add_note(f"seed {seed} with {durability}")
            raise


def test_a_message_does_not_come_a_second_time_with_attempt_1() -> None:
    disk, clock = ReplicatedStoreDisk(seed=3), SimulatedClock()
    with Store("/store", keeps=False, filesystem=disk, clock=clock) as store:
        store.topic("jobs").put(b"one")
        message = store.topic("jobs").group("workers", mode="queue", lease=10.0, backoff=0.0).take(renew=False)
        assert message is not None
        assert message.attempt == 1

        survivor = disk.after_process_kill()

    clock.pass_ns(11_000_000_000)
    with Store("/store", keeps=False, filesystem=survivor, clock=clock) as store:
        again = store.topic("jobs").group("workers", mode="queue").take()
        assert again is not None
        assert again.attempt == 2


def test_a_worker_keeps_its_message_at_the_next_master() -> None:
    disk, clock = ReplicatedStoreDisk(seed=4), SimulatedClock()
    with Store("/store", keeps=False, filesystem=disk, clock=clock) as store:
        store.topic("jobs").put(b"one")
        message = store.topic("jobs").group("workers", mode="queue", lease=10.0, backoff=0.0).take(renew=False)
        assert message is not None

        survivor = disk.after_process_kill()

    clock.pass_ns(5_000_000_000)
    with Store("/store", keeps=False, filesystem=survivor, clock=clock) as store:
        group = store.topic("jobs").group("workers", mode="queue")
        assert group.take() is None
        group.ack(message)
        clock.pass_ns(60_000_000_000)
        assert group.take() is None
