"""Broadcast: every listener gets every message from its start on, and no position is stored."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import SHORT_S, WAIT_S
from tests.support.simulated_clock import START_NS, SimulatedClock
from tests.support.store.stores import quick_store
from warren.errors import (
    BadInput,
    FellBehind,
    MalformedFilter,
    NoSuchPartition,
    NoSuchTopic,
    StoreClosed,
    WarrenError,
)
from warren.message import Message
from warren.queue.topic import Topic
from warren.storage import END, START

SECOND = 1_000_000_000


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    """Two partitions with six messages each, a second apart; the even ones of eu.de, the odd ones of us.ny."""
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        topic = store.topic("orders", partitions=2)
        for number in range(6):
            for partition in range(2):
                topic.put(b"%d" % number, partition=partition, tag="us.ny" if number % 2 else "eu.de")
            clock.pass_ns(SECOND)
        yield topic


def places(messages: Sequence[Message]) -> list[tuple[int, int]]:
    return [(message.partition, message.number) for message in messages]


def every(partitions: Sequence[int], numbers: Sequence[int] = range(6)) -> list[tuple[int, int]]:
    return list(itertools.product(partitions, numbers))


def test_a_listener_gets_messages_put_from_now_on(topic: Topic) -> None:
    listener = topic.broadcast()
    assert listener.read() == []

    topic.put(b"a", partition=1)
    topic.put(b"b", partition=0)

    assert places(listener.read()) == [(0, 6), (1, 6)]
    assert listener.read() == []


def test_every_listener_gets_everything(topic: Topic) -> None:
    listeners = [topic.broadcast() for _ in range(3)]

    topic.put(b"a", partition=1)

    assert [places(listener.read()) for listener in listeners] == [[(1, 6)]] * 3


@pytest.mark.parametrize(
    ("start", "numbers"),
    [
        (START, (0, 0)),
        (END, (6, 6)),
        (4, (4, 4)),
        (99, (6, 6)),
        ({1: 3}, (6, 3)),
        ({0: 5, 1: 0}, (5, 0)),
        ({}, (6, 6)),
        (datetime.fromtimestamp(START_NS / SECOND + 3, UTC), (3, 3)),
        (START_NS / SECOND + 1.5, (2, 2)),
    ],
)
def test_a_listener_starts_at_the_requested_position(topic: Topic, start: Any, numbers: tuple[int, int]) -> None:
    listener = topic.broadcast(start=start)

    assert places(listener.read()) == every([0], range(numbers[0], 6)) + every([1], range(numbers[1], 6))


def test_only_messages_that_pass_the_filter_are_returned(topic: Topic) -> None:
    listener = topic.broadcast(start=START, tag="eu.*")

    assert places(listener.read()) == every([0, 1], [0, 2, 4])


def test_the_partitions_are_read_in_turn(topic: Topic) -> None:
    listener = topic.broadcast(start=START)

    pages = [places(listener.read(limit=4)) for _ in range(4)]

    assert pages == [every([0], range(4)), every([1], range(4)), every([0], [4, 5]) + every([1], [4, 5]), []]


def test_iterating_ends_after_silence(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=2)
        topic.put_many([b"%d" % number for number in range(5)], partition=0)

        messages = list(topic.broadcast(start=START, wait=SHORT_S))

        assert places(messages) == every([0], range(5))
        assert list(topic.broadcast(wait=0)) == []


def test_iterating_continues_with_later_messages(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=2)
        listener = topic.broadcast()
        received: list[Message] = []
        came = threading.Event()

        def listen() -> None:
            for message in listener:
                received.append(message)
                came.set()
                if len(received) == 2:
                    return

        listening = threading.Thread(target=listen)
        listening.start()
        topic.put(b"a", partition=1)
        assert came.wait(WAIT_S)
        topic.put(b"b", partition=1)
        listening.join(WAIT_S)

        assert places(received) == [(1, 0), (1, 1)]


def test_partitions_that_another_process_added_are_listened_to(topic: Topic) -> None:
    listener = topic.broadcast()
    with quick_store(topic.store.path) as store:
        other = store.topic("orders")
        other.configure(partitions=4)
        other.put(b"new", partition=3)

        assert isinstance(topic.clock, SimulatedClock)
        topic.clock.pass_ns(SECOND)

        assert places(listener.read()) == [(3, 0)]


def test_a_listener_stores_no_position(topic: Topic) -> None:
    list(topic.broadcast(start=START, wait=0))

    assert topic.groups() == []
    assert topic.partition(0).readers() == []


def test_a_listener_that_retention_overtook_gets_an_error_and_continues(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=2, block_size=4096)
        listener = topic.broadcast()
        for _ in range(20):
            topic.put(bytes(1000), partition=0)
            topic.put(b"x", partition=1)
        assert places(listener.read(limit=1)) == [(0, 0)]
        first = topic.partition(0).retire(before=10)

        assert places(listener.read()) == every([1], range(20))
        with pytest.raises(FellBehind) as caught:
            listener.read()

        assert (caught.value.partition, caught.value.number, caught.value.first) == (0, 1, first)
        assert places(listener.read()) == every([0], range(first, 20))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"tag": "a..b"}, MalformedFilter),
        ({"start": -1}, BadInput),
        ({"start": "end"}, BadInput),
        ({"start": True}, BadInput),
        ({"start": {2: 0}}, NoSuchPartition),
        ({"start": {0: -1}}, BadInput),
        ({"wait": -1}, BadInput),
        ({"wait": "1"}, BadInput),
    ],
)
def test_bad_input_is_refused(topic: Topic, options: dict[str, Any], kind: type[WarrenError]) -> None:
    with pytest.raises(kind):
        topic.broadcast(**options)


@pytest.mark.parametrize("arguments", [(0, 0.0), (True, 0.0), (1, -1), (1, float("nan"))])
def test_bad_reads_are_refused_and_change_nothing(topic: Topic, arguments: tuple[Any, Any]) -> None:
    listener = topic.broadcast(start=START)

    with pytest.raises(BadInput):
        listener.read(*arguments)

    assert places(listener.read(limit=1)) == [(0, 0)]


def test_a_deleted_topic_and_a_closed_store_raise_their_errors(topic: Topic) -> None:
    with quick_store(topic.store.path) as store:
        here, there = topic.broadcast(start=START), store.topic("orders").broadcast(start=START)
        topic.store.delete_topic("orders")

        for listener in (here, there):
            with pytest.raises(NoSuchTopic):
                listener.read()
    with pytest.raises(StoreClosed):
        there.read()
    assert repr(there) == "<Broadcast of orders>"
