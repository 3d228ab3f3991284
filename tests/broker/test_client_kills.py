"""Brokers that are killed and connections that are cut in mid-frame: what was put is there, once."""

from __future__ import annotations

import functools
import random
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import warren
from tests.support.broker.process import served_store
from tests.support.broker.running import HOST, running_broker
from tests.support.patience import until
from warren.client.net.connection import parse_address
from warren.errors import LeaseLost, WarrenError

TIMEOUT_S = 60.0
KILLS = 3


def has_put(put: list[list[bytes]], wanted: list[int]) -> bool:
    return all(len(each) >= count for each, count in zip(put, wanted, strict=True))


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
        wanted = [len(each) + 10 for each in put]
        with served_store(path, port=parse_address(address)[1]) as next_one:
            until(functools.partial(has_put, put, wanted))
            next_one.end(signal.SIGKILL)
    with served_store(path, port=parse_address(address)[1]):
        is_over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
        found = Counter(message.body for message in topic.since(0))
        store.close()

    assert max(found.values()) == 1
    assert set(found) == {body for each in put for body in each}


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


class Cutter:
    """A proxy on loopback that forwards bytes, and cuts each connection after some of them, in whatever frame."""

    def __init__(self, target: tuple[str, int], seed: int) -> None:
        self._target, self._random = target, random.Random(seed)
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self.cut_count, self.is_cutting = 0, True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                left = [self._random.randrange(200, 4000) if self.is_cutting else 1 << 40]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, sink, left), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        with suppress(OSError):
            while data := source.recv(1000):
                sink.sendall(data[: left[0]])
                left[0] -= len(data)
                if left[0] <= 0:
                    self.cut_count += 1
                    break
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting(address: str, seed: int) -> Iterator[Cutter]:
    cutter = Cutter(parse_address(address), seed)
    try:
        yield cutter
    finally:
        cutter.close()


@pytest.mark.parametrize("durability", ["os", "commit"])
@pytest.mark.parametrize("seed", [1, 2])
def test_puts_over_connections_that_are_cut_are_there_once_and_in_order(
    tmp_path: Path, durability: str, seed: int
) -> None:
    with running_broker(tmp_path / "data", durability=durability) as broker, cutting(broker.address, seed) as cutter:
        store = None
        while store is None:
            with suppress(WarrenError):
                store = warren.connect(cutter.address, timeout=TIMEOUT_S)
        topic = store.topic("orders")
        for number in range(150):
            topic.put(b"%d" % number)
        store.close()

        found = [message.body for message in broker.broker.store.topic("orders").partition(0).read(0)]

    assert cutter.cut_count > 5
    assert found == [b"%d" % number for number in range(150)]


def test_a_group_over_connections_that_are_cut_skips_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, cutting(broker.address, 3) as cutter:
        here = broker.broker.store.topic("orders")
        for number in range(200):
            here.put(b"%d" % number)
        store = warren.connect(cutter.address, timeout=TIMEOUT_S)
        group = store.topic("orders").group("billing")
        found: list[bytes] = []
        while len(set(found)) < 200:
            messages = group.read(limit=7, wait=0.1)
            numbers = [message.number for message in messages]
            # Also where the member joined anew in the midst of it.
            assert numbers == sorted(set(numbers))
            found += [message.body for message in messages]
            group.commit()
        store.close()

    assert cutter.cut_count > 5
    # What was not committed when a connection was cut comes again; the order of first sight is that of the log.
    assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(200)]
