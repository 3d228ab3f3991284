"""After a power cut or a kill at any moment, readers of a replica's directory see no more than what was committed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from tests.support.replication.replica_pair import ReplicaPair
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import FrozenDisk, SimulatedFileSystem
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.storage import Log

LOG: Final = "topics/orders/0"
PUTS: Final = 25
LIVES: Final = 4
FROZEN_SHARE: Final = 0.3
"""Of so many calls of the disk a copy is made before it."""
BLOCK_SIZE: Final = 4096


class WatchedDisk(SimulatedFileSystem):
    """Keeps copies of itself from random moments, with how many messages were committed then."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self.committed: Callable[[], int] | None = None
        self.copies: list[tuple[FrozenDisk, int]] = []

    def enter(self, call: str) -> None:
        super().enter(call)
        if self.committed is not None and self._random.random() < FROZEN_SHARE:
            self.copies.append((self.freeze(), self.committed()))


def body(number: int) -> bytes:
    return b"%d " % number * 40


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("seed", range(LIVES))
def test_readers_see_nothing_after_a_crash_that_was_not_committed(seed: int, durability: str) -> None:
    random = Random(seed)
    master, slave = WatchedDisk(random), WatchedDisk(random)
    pair = ReplicaPair("/a", "/b", filesystem=master, second=slave, clock=SimulatedClock(), is_lazy=True)
    topic = pair.open().topic("orders", block_size=BLOCK_SIZE, durability=durability)
    (name,) = [name for name in pair.slave.tails() if name.startswith(LOG)]
    committed_end = 0
    # What the slave has is committed, because both are in the set.
    master.committed = lambda: pair.slave.tails()[name]
    slave.committed = lambda: committed_end
    number = 0
    for _ in range(PUTS):
        count = random.choice((1, 1, 5, 40))
        topic.put_many([body(each) for each in range(number, number + count)])
        number += count
        if random.random() < 0.5:
            committed_end = number
            pair.slave.show({name: committed_end})
    master.committed = slave.committed = None

    for path, disk in (("/a", master), ("/b", slave)):
        assert len(disk.copies) > 10
        for copy, committed in disk.copies:
            for crash in (copy.after_power_cut, copy.after_process_kill):
                after = crash(seed)
                ReplicaDirectory(path, filesystem=after, clock=SimulatedClock()).settle()
                with Log.open(f"{path}/{LOG}", read_only=True, filesystem=after, clock=SimulatedClock()) as log:
                    assert log.end <= committed, f"{crash.__name__} of {path}: {log.end} shown, {committed} committed"
                    bodies = [message.body for message in log.read(0, limit=10_000)]
                    assert bodies == [body(each) for each in range(log.end)]
