"""The renewal of leases after a fork: each process renews its own."""

from __future__ import annotations

from pathlib import Path

from tests.support.fork import in_child
from tests.support.store.stores import quick_store


def test_a_forked_child_does_not_renew_the_leases_of_its_parent(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("jobs", durability="os")
        topic.put(b"0")
        group = topic.group("workers", mode="queue", lease=10.0)
        [message] = group.take(1)

        assert in_child(lambda: len(store.renewals._hands)) == 0
        assert len(store.renewals._hands) == 1
        group.ack(message)
