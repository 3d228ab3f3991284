"""A slave whose power is cut, or that is killed, at any step of a round: it keeps what it acknowledged, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.support.replication.replica_pair import ReplicaPair
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import FrozenDisk, SimulatedFileSystem
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.storage import Log

LOG: Final = "topics/orders/0"
COUNTS: Final = (1, 40, 1, 5, 40, 1)
"""Puts, of which some end a block and some begin one or two."""
BLOCK_SIZE: Final = 4096


class WatchedDisk(SimulatedFileSystem):
    """Keeps a copy of itself before each call, with what was acknowledged then."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: Callable[[], int] | None = None
        self.copies: list[tuple[FrozenDisk, int]] = []

    def enter(self, call: str) -> None:
        super().enter(call)
        if self.acknowledged is not None:
            self.copies.append((self.freeze(), self.acknowledged()))


def body(number: int) -> bytes:
    return b"%d " % number * 40


def bodies(path: str, filesystem: SimulatedFileSystem) -> list[bytes]:
    with Log.open(f"{path}/{LOG}", read_only=True, filesystem=filesystem, clock=SimulatedClock()) as log:
        return [message.body for message in log.read(0, limit=10_000)]


def crashed(copy: FrozenDisk, crash: str, seed: int) -> SimulatedFileSystem:
    """Returns what is left. A snapshot loses what was not synced, and the machine does not start again."""
    if crash == "kill":
        return copy.after_process_kill(seed)
    return copy.after_power_cut(seed, same_boot=crash == "snapshot")


@pytest.mark.parametrize(
    ("durability", "crash"), [("commit", "power"), ("commit", "snapshot"), ("commit", "kill"), ("os", "kill")]
)
def test_a_slave_that_crashes_in_a_round_keeps_what_it_acknowledged(durability: str, crash: str) -> None:
    master, slave = SimulatedFileSystem(), WatchedDisk()
    pair = ReplicaPair("/a", "/b", filesystem=master, second=slave, clock=SimulatedClock(), is_lazy=True)
    topic = pair.open().topic("orders", block_size=BLOCK_SIZE, durability=durability)
    number = acknowledged = 0
    slave.acknowledged = lambda: acknowledged
    for count in COUNTS:
        topic.put_many([body(each) for each in range(number, number + count)])
        number += count
        acknowledged = number
    slave.acknowledged = None
    blocks = [name for name in slave.names(f"/b/{LOG}") if name.endswith(".block")]
    pair.slave.close()
    old = master.freeze()

    assert len(blocks) > 3
    assert len(slave.copies) > 50
    for seed, (copy, promised) in enumerate(slave.copies):
        after = crashed(copy, crash, seed)
        directory = ReplicaDirectory("/b", filesystem=after, clock=SimulatedClock())
        directory.settle()
        [end] = [end for name, end in directory.tails().items() if name.startswith(LOG)]
        assert promised <= end <= number, f"{end} of {promised} messages, before call {seed}"
        directory.close()

        # It can lead with them, and another slave gets them.
        third = SimulatedFileSystem()
        led = ReplicaPair("/b", "/c", epoch=2, filesystem=after, second=third, clock=SimulatedClock())
        store = led.open()
        store.topic("orders").put(b"more")
        store.close()
        led.slave.serve()
        assert bodies("/b", after)[:-1] == [body(each) for each in range(end)]
        assert bodies("/c", third) == bodies("/b", after)
        led.slave.close()

        # It can also follow again, and gets what it does not have.
        again = crashed(copy, crash, seed)
        back = ReplicaPair(
            "/a", "/b", epoch=2, filesystem=old.after_process_kill(), second=again, clock=SimulatedClock()
        )
        back.slave.show(dict.fromkeys(back.slave.tails(), number))
        assert bodies("/b", again) == [body(each) for each in range(number)]
        back.slave.close()
        back.master.close()
