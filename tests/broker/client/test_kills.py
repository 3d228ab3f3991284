"""Brokers are killed and connections are cut in the middle of a frame: every put message exists once."""

from __future__ import annotations

import functools
import signal
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import warren
from tests.support.broker.cutter import cutting
from tests.support.broker.process import served_store
from tests.support.broker.running import running_broker
from tests.support.patience import until
from warren.client.net.connection import parse_address
from warren.errors import LeaseLost, WarrenError

TIMEOUT_S = 60.0
KILLS = 3


def has_put(put: list[list[bytes]], counts: list[int]) -> bool:
    return all(len(each) >= count for each, count in zip(put, counts, strict=True))


def test_every_put_is_written_once_over_kills_of_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with served_store(path) as first:
        address = first.address
        store = warren.connect(address, timeout=TIMEOUT_S)
        topic = store.topic("orders", partitions=2, durability="commit")
        is_over, put = threading.Event(), [list[bytes]() for _ in range(3)]

        def produce(producer: int) -> None:
            for number in range(100_000):
                if is_over.is_set():
                    return
                bodies = [b"%d-%d-%d" % (producer, number, row) for row in range(1 + number % 3)]
                if len(bodies) == 1:
                    topic.put(bodies[0], key=b"%d" % number)
                else:
                    topic.put_many(bodies, keys=[b"%d" % row for row in range(len(bodies))])
                put[producer] += bodies

        threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: all(len(each) > 10 for each in put))
        first.end(signal.SIGKILL)
    for _ in range(KILLS - 1):
        counts = [len(each) + 10 for each in put]
        with served_store(path, port=parse_address(address)[1]) as next_one:
            until(functools.partial(has_put, put, counts))
            next_one.end(signal.SIGKILL)
    with served_store(path, port=parse_address(address)[1]):
        is_over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
        copies = Counter(message.body for message in topic.since(0))
        store.close()

    assert max(copies.values()) == 1
    assert set(copies) == {body for each in put for body in each}


def test_acknowledged_messages_are_never_taken_again_over_kills_of_the_broker(tmp_path: Path) -> None:
    path, count = tmp_path / "data", 60
    acknowledged: list[bytes] = []
    taken_later: list[bytes] = []
    with served_store(path) as first:
        address = first.address
        store = warren.connect(address, timeout=TIMEOUT_S)
        topic = store.topic("jobs", durability="commit")
        topic.put_many([b"%d" % number for number in range(count)])
        work = topic.group("work", mode="queue", attempts_max=0, backoff=0.0)
        for _ in range(count // 2):
            message = work.take(wait=TIMEOUT_S)
            assert message is not None
            work.ack(message)
            acknowledged.append(message.body)
        assert work.take() is not None
        first.end(signal.SIGKILL)
    with served_store(path, port=parse_address(address)[1]), store:
        while (message := work.take(wait=0.5)) is not None:
            with suppress(LeaseLost):
                work.ack(message)
            taken_later.append(message.body)

    assert sorted([*acknowledged, *taken_later], key=int) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("durability", ["os", "commit"])
@pytest.mark.parametrize("seed", [1, 2])
def test_puts_over_connections_that_are_cut_exist_once_and_in_order(tmp_path: Path, durability: str, seed: int) -> None:
    with running_broker(tmp_path / "data", durability=durability) as broker, cutting(broker.address, seed) as cutter:
        store = None
        while store is None:
            with suppress(WarrenError):
                store = warren.connect(cutter.address, timeout=TIMEOUT_S)
        topic = store.topic("orders")
        for number in range(150):
            topic.put(b"%d" % number)
        store.close()

        bodies = [message.body for message in broker.broker.store.topic("orders").partition(0).read(0)]

    assert cutter.cut_count > 5
    assert bodies == [b"%d" % number for number in range(150)]


def test_a_group_over_connections_that_are_cut_skips_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, cutting(broker.address, 3) as cutter:
        here = broker.broker.store.topic("orders")
        for number in range(200):
            here.put(b"%d" % number)
        store = warren.connect(cutter.address, timeout=TIMEOUT_S)
        group = store.topic("orders").group("billing")
        bodies: list[bytes] = []
        while len(set(bodies)) < 200:
            messages = group.read(limit=7, wait=0.1)
            numbers = [message.number for message in messages]
            # Also if the member joined again in between.
            assert numbers == sorted(set(numbers))
            bodies += [message.body for message in messages]
            group.commit()
        store.close()

    assert cutter.cut_count > 5
    # Messages that were not committed when a connection was cut come again; the order of first delivery is that of the
    # log.
    assert list(dict.fromkeys(bodies)) == [b"%d" % number for number in range(200)]
