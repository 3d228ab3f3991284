"""Leases of a queue group after a fork: parent and child have their own."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.patience import WAIT_S
from tests.support.store.stores import quick_store


def test_a_forked_child_has_its_own_leases(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", durability="os", partitions=2)
        topic.put_many([b"0", b"1", b"2"], partition=0)
        group = topic.group("workers", mode="queue", lease=1000.0, backoff=0.0)
        [first] = group.take(1)

        child = os.fork()
        if not child:
            os._exit(0 if [message.number for message in group.take(1)] == [1] else 1)
        _, status = os.waitpid(child, 0)

        assert status == 0
        messages = group.take(2, wait=WAIT_S)
        while len(messages) < 2:
            messages += group.take(2, wait=WAIT_S)
        assert sorted((message.number, message.attempt) for message in messages) == [(1, 2), (2, 1)]
        group.ack(first)
