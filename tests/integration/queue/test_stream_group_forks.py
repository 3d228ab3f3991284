"""A member of a stream group after a fork: parent and child are two members."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fork import in_child
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.mortal_filesystem import MortalFileSystem
from tests.support.store.stores import quick_store

SECOND = 1_000_000_000
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def _is_free(path: Path) -> bool:
    lock = MortalFileSystem().lock(str(path))
    is_free = lock.try_acquire()
    lock.close()
    return is_free


def test_a_forked_child_is_another_member(tmp_path: Path) -> None:
    clock = SimulatedClock()
    store = quick_store(tmp_path, filesystem=MortalFileSystem(), clock=clock)
    topic = store.topic("orders", partitions=4)
    for number in range(10):
        for partition in range(4):
            topic.put(b"%d:%d" % (partition, number), partition=partition)
    group = topic.group("billing")
    group.read(limit=2)

    def child() -> object:
        owned_at_first = group.partitions, group.read_positions()
        clock.pass_ns(SECOND)
        store.keep()
        members = group.members()
        clock.pass_ns(SECOND)
        numbers = [(message.partition, message.number) for message in group.read()]
        return owned_at_first, members, numbers, group.partitions, group.id

    owned_at_first, members, numbers, owned, child_id = in_child(child)
    for _ in range(2):
        clock.pass_ns(SECOND)
        group.commit()

    assert owned_at_first == ([], {})
    # It does not join before its first call, and gets nothing that the parent holds.
    assert members == [group.id]
    assert (numbers, owned) == ([], [])
    assert child_id != group.id
    assert group.partitions == [0, 1, 2, 3]
    store.close()


def test_the_locks_of_a_process_end_with_it_although_its_child_lives_on(tmp_path: Path) -> None:
    disk = MortalFileSystem()
    store = quick_store(tmp_path, filesystem=disk)
    group = store.topic("orders").group("billing")

    def child() -> object:
        # In the child the files are closed; actions of the parent are not undone by it.
        return _is_free(tmp_path / "topics" / "orders" / "groups" / "billing" / "0.owner")

    assert in_child(child) is False
    assert group.partitions == [0]
    ends, telling = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ends[1])
        os.write(telling[1], b"!")
        os.read(ends[0], 1)
        os._exit(0)
    os.read(telling[0], 1)
    disk.die()
    is_free = _is_free(tmp_path / "topics" / "orders" / "groups" / "billing" / "0.owner")
    os.close(ends[1])
    os.waitpid(pid, 0)

    assert is_free
