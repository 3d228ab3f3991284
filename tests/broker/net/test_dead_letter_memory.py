"""Large messages that become dead letters, and large letters that are put back, take memory of the broker's budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from tests.support.broker.running import running_broker
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.share_sessions import Acknowledge, Settling, Verdicts
from warren.broker.services.memory_budget import Hold, MemoryKind
from warren.broker.services.read_memory import READ_COPIES
from warren.broker.settings import BrokerLimits
from warren.errors import NeedsMemory
from warren.protocol.native_schemas import NativeKey
from warren.queue.leases.queue_group import QueueGroup
from warren.storage.format.allowance import allowed
from warren.storage.read.messages import ScanRoom

MIB = 1 << 20
SIZE = 10 * MIB
GROUP = "/v1/topics/orders/groups/workers"


def settle(action: str, served: Http, sizes: list[int]) -> None:
    with warren.connect(served.running.address) as store:
        group: Any = store.topic("orders").group("workers", mode="queue")
        (message,) = group.take(1)
        sizes.clear()
        getattr(group, action)(message)


def redrive(served: Http, sizes: list[int]) -> None:
    with warren.connect(served.running.address) as store:
        group: Any = store.topic("orders").group("workers", mode="queue")
        group.reject(group.take(1)[0])
        sizes.clear()
        assert group.redrive() == 1


def redrive_over_http(served: Http, sizes: list[int]) -> None:
    settle("reject", served, sizes)
    sizes.clear()
    assert served.ask("POST", f"{GROUP}/dead/redrive", {}).document == {"count": 1}


def reject_over_http(served: Http, sizes: list[int]) -> None:
    with served.broker.store.topic("orders").group("workers", mode="queue") as group:
        (message,) = group.take(1)
        group.give_back([message])
    assert served.ask("POST", f"{GROUP}/reject", {"partition": 0, "number": message.number}).status == 204


WAYS: dict[str, Callable[[Http, list[int]], None]] = {
    "nack": lambda served, sizes: settle("nack", served, sizes),
    "reject": lambda served, sizes: settle("reject", served, sizes),
    "reject over HTTP": reject_over_http,
    "redrive": redrive,
    "redrive over HTTP": redrive_over_http,
}


def watch(served: Http, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    ask = served.broker.budget.ask

    def noted(who: object, kind: MemoryKind, size: int, *others: Any) -> Hold | None:
        sizes.append(size)
        return ask(who, kind, size, *others)

    monkeypatch.setattr(served.broker.budget, "ask", noted)


@pytest.mark.parametrize("way", WAYS)
def test_a_large_dead_letter_takes_memory_from_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    sizes: list[int] = []
    with running_http(tmp_path / "data", limits=BrokerLimits(memory_size_max=32 * MIB)) as served:
        topic = served.broker.store.topic("orders")
        topic.group("workers", mode="queue", attempts_max=1).close()
        topic.put(bytes(SIZE))
        watch(served, sizes, monkeypatch)

        WAYS[way](served, sizes)

        assert max(sizes) >= READ_COPIES * SIZE
        until(lambda: served.broker.budget.size == 0)
        assert topic.partition(0).end == 1 + way.startswith("redrive")


def test_messages_that_are_rejected_together_are_buried_once_if_one_of_them_is_large(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        topic = broker.broker.store.topic("orders")
        for size in (10, SIZE, 10):
            topic.put(bytes(size))
        caller.call(NativeKey.OPEN_SESSION, 0, {"session": bytes(range(16)), "software": "test"})
        group = {"handle": 1, "topic": "orders", "group": "workers", "mode": "queue"}
        assert caller.call(NativeKey.OPEN_GROUP, 0, group).error is None
        for _ in range(3):
            assert caller.call(NativeKey.TAKE, 0, {"handle": 1, "limit": 1}).error is None

        places = {"partitions": [0] * 3, "numbers": [0, 1, 2], "attempts": [1] * 3}
        answer = caller.call(NativeKey.SETTLE, 0, {"handle": 1, "action": "reject", "places": places, "seconds": -1.0})

        assert answer.error is None
        assert [len(letter.message.body) for letter in topic.dead_letters("workers")] == [10, SIZE, 10]


def test_acknowledgements_of_a_share_group_continue_when_there_is_memory(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data", durability="os") as store:
        topic = store.topic("orders")
        for size in (10, SIZE, 10):
            topic.put(bytes(size))
        group: QueueGroup = topic.group("workers", mode="queue")
        first, second, third = group.take_within(3, ScanRoom())
        rejected = [(first, Acknowledge.REJECT), (second, Acknowledge.REJECT)]
        verdicts = [
            Verdicts("orders", b"", 0, rejected, Code.NONE),
            Verdicts("orders", b"", 0, [(third, Acknowledge.ACCEPT)], Code.NONE),
        ]
        settling = Settling({"orders": group}, verdicts)

        with allowed(MIB), pytest.raises(NeedsMemory):
            settling.run()
        with allowed(4 * SIZE):
            codes = settling.run()

        assert codes == [Code.NONE, Code.NONE]
        assert [len(letter.message.body) for letter in topic.dead_letters("workers")] == [10, SIZE]
        assert group.in_flight() == 0
