"""Messages that a prepared transaction has read are read by no other member until it is decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import open_store
from warren.queue.stream.stream_group import StreamGroup


def read_bodies(group: StreamGroup) -> list[bytes]:
    return [message.body for message in group.read()]


@pytest.mark.parametrize("decision", ["commit", "abort"])
def test_a_partition_waits_for_the_decision(tmp_path: Path, decision: str) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as first:
        first.topic("orders", partitions=2)
        first.topic("orders").put(b"one", partition=0)
        first.topic("orders").put(b"two", partition=1)
        with first.topic("orders").group("billing") as group, first.transaction(id="t") as tx:
            group.read()
            tx.put("audit", b"one")
            tx.commit(group, {0: 1})
            tx.prepare()

    with open_store(tmp_path, clock) as later:
        group = later.topic("orders").group("billing")
        assert (group.partitions, read_bodies(group)) == ([1], [b"two"])

        if decision == "commit":
            later.commit("t")
        else:
            later.abort("t")
        clock.sleep(1.0)

        assert read_bodies(group) == ([] if decision == "commit" else [b"one"])
        assert group.partitions == [0, 1]
        assert group.position(0) == 1


def test_the_member_that_prepared_reads_on(tmp_path: Path) -> None:
    with open_store(tmp_path, SimulatedClock()) as store:
        topic = store.topic("orders")
        topic.put_many([b"one", b"two"])
        with topic.group("billing") as group, store.transaction(id="t") as tx:
            group.read(limit=1)
            tx.commit(group)
            tx.prepare()

            assert read_bodies(group) == [b"two"]


def test_other_groups_are_not_kept_waiting(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with open_store(tmp_path, clock) as first:
        first.topic("orders").put(b"one")
        with first.topic("orders").group("billing") as group, first.transaction(id="t") as tx:
            group.read()
            tx.commit(group)
            tx.prepare()

    with open_store(tmp_path, clock) as later:
        assert read_bodies(later.topic("orders").group("shipping")) == [b"one"]
        assert read_bodies(later.topic("orders").group("billing")) == []
