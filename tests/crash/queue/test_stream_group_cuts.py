"""The power is cut, or the process killed, at any call while a stream group begins, commits, seeks and is deleted.

Checked after every crash: committed positions stay committed, interrupted commits happened in each partition completely
or not at all, a new group begins in every partition at the right place, and an interrupted deletion can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from warren.queue.store import Store
from warren.queue.topic import Topic

PARTITIONS = 2
PUT_BEFORE, PUT_AFTER = 6, 4
PARTS = 4

Positions = dict[int, int]


class Life:
    """The steps of a test. `before` and `after` are the positions of the group around the step that is cut."""

    def __init__(self, disk: SimulatedFileSystem) -> None:
        self.topic = open_topic(disk)
        for partition in range(PARTITIONS):
            self.topic.put_many([b"x"] * PUT_BEFORE, partition=partition)
        self.before: Positions | None = None
        self.after: Positions | None = None
        self.is_deleting = False

    def expect(self, after: Positions | None) -> None:
        self.before, self.after = self.after, after

    def run(self) -> None:
        for after in self.steps():
            self.expect(after)
        self.expect(self.after)

    def steps(self) -> Iterator[Positions | None]:
        """Records before each step the positions of the group after it."""
        yield dict.fromkeys(range(PARTITIONS), PUT_BEFORE)
        group = self.topic.group("billing", start="end")
        yield dict.fromkeys(range(PARTITIONS), PUT_BEFORE)
        for partition in range(PARTITIONS):
            self.topic.put_many([b"y"] * PUT_AFTER, partition=partition)
        yield {0: PUT_BEFORE + 3, 1: PUT_BEFORE}
        group.read(limit=3)
        group.commit()
        yield {0: PUT_BEFORE + PUT_AFTER, 1: PUT_BEFORE + 1}
        group.read()
        group.commit({0: PUT_BEFORE + PUT_AFTER, 1: PUT_BEFORE + 1})
        yield dict.fromkeys(range(PARTITIONS), PUT_BEFORE + PUT_AFTER)
        group.commit()
        yield {0: 2, 1: 2}
        group.seek(2)
        group.close()
        self.is_deleting = True
        yield None
        self.topic.delete_group("billing")


def open_topic(disk: SimulatedFileSystem) -> Topic:
    store = Store("/store", keeps=False, filesystem=disk, clock=SimulatedClock())
    return store.topic("orders", partitions=PARTITIONS, block_size=4096)


def calls_of_a_life() -> tuple[int, int]:
    """Returns the numbers of the first and of the last call that may be cut."""
    disk = SimulatedFileSystem()
    life = Life(disk)
    first = disk.calls
    life.run()
    return first + 1, disk.calls


def check(life: Life, disk: SimulatedFileSystem) -> None:
    topic = open_topic(disk)
    if life.is_deleting:
        if "billing" in topic.groups():
            topic.delete_group("billing")
        assert topic.group("billing").positions() == dict.fromkeys(range(PARTITIONS), 0)
        return
    assert life.after is not None
    with topic.group("billing", start="end") as group:
        for partition, position in group.positions().items():
            # If the group had not begun, only messages that were put before it begins may be skipped.
            expected = {life.after[partition], (life.before or life.after)[partition]}
            assert position in expected, (partition, position, expected)
        assert group.partitions == list(range(PARTITIONS))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("crash", ["power cut", "loss", "kill"])
def test_a_group_is_at_its_committed_position_after_any_crash(part: int, crash: str) -> None:
    first, last = calls_of_a_life()
    for call in range(first + part, last + 1, PARTS):
        disk = SimulatedFileSystem(seed=call)
        life = Life(disk)
        disk.cut_at_call = call
        with pytest.raises(PowerCut):
            life.run()

        is_killed = crash == "kill"
        survivor = disk.after_process_kill(call) if is_killed else disk.after_power_cut(call, same_boot=crash == "loss")

        try:
            check(life, survivor)
        except Exception as error:
            raise AssertionError(f"cut at call {call}: {type(error).__name__}: {error}") from error


def test_changes_without_a_crash_are_kept() -> None:
    disk = SimulatedFileSystem()
    life = Life(disk)

    life.run()

    assert life.after is None
    assert life.topic.groups() == []
    check(life, disk.after_power_cut(1))
