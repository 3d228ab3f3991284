"""Queue groups with a filter or an order by key read messages ahead of a take: a broker counts and limits them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import until
from warren.broker.services.memory_budget import MemoryKind
from warren.broker.settings import BrokerLimits
from warren.queue.leases.unread import MESSAGE_SIZE
from warren.storage.format.allowance import allowed
from warren.storage.read.messages import ScanRoom

KIB, MIB = 1 << 10, 1 << 20
FILTERED: dict[str, Any] = {"tag": "a"}
ORDERED: dict[str, Any] = {"ordered_by_key": True}


def ahead_size(broker: RunningBroker) -> int:
    return broker.broker.budget.sizes[MemoryKind.AHEAD]


@pytest.mark.parametrize("options", [FILTERED, ORDERED])
def test_a_broker_reads_few_bytes_ahead_in_all_partitions_together(tmp_path: Path, options: dict[str, Any]) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        topic = store.topic("orders", 4)
        for number in range(80):
            topic.put(bytes(MIB), partition=number % 4, tag="a")
        group = topic.group("workers", mode="queue", **options)

        with allowed(8 * MIB):
            messages = group.take_within(60, ScanRoom())
            assert MIB < group.chooser.supply.size <= 8 * MIB + 8 * MESSAGE_SIZE
            while more := group.take_within(60, ScanRoom()):
                messages += more

        assert sorted((each.partition, each.number) for each in messages) == [
            (p, n) for p in range(4) for n in range(20)
        ]


def test_a_store_in_the_same_process_reads_ahead_as_many_messages_as_are_wanted(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        topic = store.topic("orders")
        for _ in range(12):
            topic.put(bytes(MIB), tag="a")

        assert len(topic.group("workers", mode="queue", tag="a").take(12)) == 12


def test_messages_that_a_group_of_a_client_has_read_ahead_count_until_they_are_taken(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, warren.connect(broker.address) as store:
        topic = store.topic("orders")
        topic.put_many([bytes(KIB)] * 100, tags=["a"] * 100)
        group = topic.group("workers", mode="queue", tag="a")

        group.ack_many(group.take(1))
        after_one = ahead_size(broker)
        for _ in range(99):
            group.ack_many(group.take(1))
        assert group.take(1) == []

        assert after_one == 100 * (KIB + MESSAGE_SIZE)
        assert ahead_size(broker) == 0


def test_a_group_that_is_closed_gives_the_memory_back(tmp_path: Path) -> None:
    limits = BrokerLimits(stalled_s_max=0.3)
    with running_broker(tmp_path / "data", limits=limits) as broker, warren.connect(broker.address) as store:
        topic = store.topic("orders")
        topic.put_many([bytes(KIB)] * 100, tags=["a"] * 100)
        group = topic.group("workers", mode="queue", tag="a")
        group.take(1)
        assert ahead_size(broker)

        group.close()

        until(lambda: not ahead_size(broker))


def bodies(messages: Sequence[Any]) -> list[bytes]:
    return [message.body[:4] for message in messages]


@pytest.mark.parametrize("options", [FILTERED, ORDERED])
def test_without_room_for_it_a_group_reads_the_messages_again(tmp_path: Path, options: dict[str, Any]) -> None:
    limits = BrokerLimits(memory_size_max=MIB)
    with running_broker(tmp_path / "data", limits=limits) as broker, warren.connect(broker.address) as store:
        topic = store.topic("orders")
        expected = [b"%4d" % number for number in range(200)]
        topic.put_many([body + bytes(10 * KIB) for body in expected], tags=["a"] * 200)
        group = topic.group("workers", mode="queue", **options)

        messages = []
        for _ in range(200):
            (message,) = group.take(1)
            messages.append(message)
            group.ack(message)
            assert ahead_size(broker) <= MIB // 2

        assert bodies(messages) == expected
        assert group.take() is None
        assert broker.broker.budget.refusals
