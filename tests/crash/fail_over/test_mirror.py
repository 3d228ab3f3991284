"""What is shipped to a slave is what a plain mirror of every sync has: no file and no record is left out."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from tests.support.replication.mirror_disk import MirrorDisk
from tests.support.replication.replica_pair import ReplicaPair
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.errors import FellBehind, LeaseLost
from warren.message import START, Message
from warren.queue.state import ledger
from warren.replication.disk.file_kinds import FileKind, kind_of
from warren.storage import Log
from warren.storage.disk.index import FIRST_KEY
from warren.storage.disk.paths import epochs_file

STEPS: Final = 150
ROOT: Final = "/store"


class BusyStore:
    """A store in which everything happens that a store is for, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.first, self.second = SimulatedFileSystem(seed=seed), SimulatedFileSystem(seed=seed + 1)
        self.mirror = SimulatedFileSystem(seed=seed + 2)
        self.clock = SimulatedClock()
        self.pair = ReplicaPair(
            ROOT,
            ROOT,
            filesystem=MirrorDisk(self.first, self.mirror),
            second=self.second,
            clock=self.clock,
            is_lazy=self.random.random() < 0.5,
        )
        self.store = self.pair.open()
        self.topic = self.store.topic("orders", partitions=2, block_size=4096)
        self.loose = self.store.topic("loose", durability="os", block_size=4096)
        self.group = self.topic.group("work", mode="queue", backoff=0.0)
        self.stream = self.topic.group("billing")
        self.handles: list[Message] = []
        self.bodies = 0

    def run(self) -> None:
        steps = (
            self.put, self.put, self.take, self.give, self.read, self.delay, self.deliver, self.transact, self.remake,
            self.configure, self.retire, self.note,
        )  # fmt: skip
        for _ in range(STEPS):
            self.clock.pass_ns(self.random.randrange(2_000_000_000))
            self.random.choice(steps)()
        self.loose.logs[0].sync()
        self.stream.close()
        self.group.close()
        self.store.close()
        self.pair.pump()

    def body(self) -> bytes:
        self.bodies += 1
        return b"%d:" % self.bodies + b"x" * self.random.randrange(400)

    def put(self) -> None:
        topic = self.random.choice((self.topic, self.loose))
        if self.random.random() < 0.5:
            topic.put(self.body(), key=self.random.choice((None, b"a", b"b")))
        else:
            topic.put_many([self.body() for _ in range(self.random.randint(1, 20))])

    def take(self) -> None:
        self.handles += self.group.take(self.random.randint(1, 5), renew=False)

    def give(self) -> None:
        while self.handles:
            message = self.handles.pop()
            try:
                self.random.choice((self.group.ack, self.group.nack, self.group.reject))(message)
            except LeaseLost:
                continue

    def read(self) -> None:
        try:
            self.stream.read(limit=self.random.randint(1, 30))
        except FellBehind:
            self.stream.seek(START)
        self.stream.commit()

    def delay(self) -> None:
        delayed = self.topic.put(self.body(), delay=self.random.choice((1.0, 100.0, 100_000.0)))
        if self.random.random() < 0.3:
            self.topic.cancel(delayed.id)

    def deliver(self) -> None:
        self.store.keep()

    def transact(self) -> None:
        with self.store.transaction() as transaction:
            transaction.put("orders", self.body())
            transaction.put("loose", self.body())
            if self.random.random() < 0.2:
                transaction.abort()

    def remake(self) -> None:
        name = self.random.choice(("short", "brief"))
        if self.store.has_topic(name):
            self.store.delete_topic(name)
        else:
            topic = self.store.topic(name)
            topic.put(self.body())
            topic.group("readers").close()

    def configure(self) -> None:
        self.store.configure_topic("orders", {"retention_bytes": self.random.choice((None, 50_000, 100_000))})
        self.topic.configure_group("work", attempts_max=self.random.randint(2, 9))

    def retire(self) -> None:
        log = self.random.choice(self.topic.logs)
        log.retire(before=self.random.randint(log.first, log.end), exactly=self.random.random() < 0.5)

    def note(self) -> None:
        log = self.topic.logs[0]
        log.flag = self.random.randrange(100)
        log.extension = {**log.extension, "colour": str(self.random.random())}


def files_of(disk: SimulatedFileSystem, directory: str = ROOT) -> Iterator[str]:
    for name in disk.names(directory):
        path = os.path.join(directory, name)
        try:
            disk.names(path)
        except FileNotFoundError:
            yield os.path.relpath(path, ROOT)
        else:
            yield from files_of(disk, path)


def state_of(disk: SimulatedFileSystem) -> dict[str, bytes]:
    contents = {}
    for path in files_of(disk):
        if kind_of(path) is FileKind.STATE:
            file = disk.open(os.path.join(ROOT, path), writable=False)
            contents[path] = file.read(0, file.size())
    return contents


def logs_of(disk: SimulatedFileSystem) -> dict[str, tuple[int, int, dict[str, str], list[Message]]]:
    logs = {}
    if disk.exists(epochs_file(ROOT)):
        # Without it the logs are no longer those of a replica, which only its own process opens for writing.
        disk.remove(epochs_file(ROOT))
    for path in files_of(disk):
        if kind_of(path) is FileKind.INDEX:
            directory = os.path.join(ROOT, os.path.dirname(path))
            with Log.open(directory, filesystem=disk, clock=SimulatedClock()) as log:
                log._files.index().visible = None
                messages = log.read(log.first, limit=1 << 20)
                extension = dict(log.extension)
                # It may name a message whose block is gone, and says no more then than where the log begins.
                extension.pop(FIRST_KEY, None)
                logs[path] = log.flag, log.first, extension, messages
    return logs


@pytest.mark.parametrize("seed", range(8))
def test_a_slave_has_what_a_mirror_of_every_sync_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "EVENTS_PER_SNAPSHOT", 16)
    monkeypatch.setattr(ledger, "LEDGER_BLOCK_SIZE", 8192)
    busy = BusyStore(seed)

    busy.run()

    slave, mirror = state_of(busy.second), state_of(busy.mirror)
    assert slave.keys() == mirror.keys()
    assert [path for path in slave if slave[path] != mirror[path]] == []
    logs, mirrored = logs_of(busy.second), logs_of(busy.mirror)
    assert logs.keys() == mirrored.keys()
    assert len(logs) > 5
    for path, log in logs.items():
        assert log == mirrored[path], path
