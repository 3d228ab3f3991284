"""Our own reads that scan much: on threads, a limited part at a time, and the client continues automatically."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.native import handler, read
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.client.net.session import same
from warren.errors import BadInput
from warren.protocol.native.records import carried, pack, packed_of, wire_record
from warren.protocol.native_messages import AppendRequest
from warren.protocol.native_schemas import NativeKey
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.stream.stream_group import StreamGroup
from warren.storage import START
from warren.storage.format.columns import Batch

COUNT = 50
BODY = bytes(40_000)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    """Each read scans about two messages at a time."""
    monkeypatch.setattr(read, "SCANNED_SIZE_MAX", 2 * len(BODY))
    monkeypatch.setattr(handler, "SCANNED_SIZE_MAX", 2 * len(BODY))
    with running_broker(tmp_path / "data") as running:
        topic = running.broker.store.topic("orders", 2)
        for number in range(COUNT):
            topic.put(BODY, tag="last" if number == COUNT - 1 else "other", partition=0)
        yield running


def reads(broker: RunningBroker) -> int:
    api = broker.broker.metrics.apis.get(10_006)
    return 0 if api is None else api.requests


def test_a_message_beyond_one_scan_is_found(broker: RunningBroker) -> None:
    with warren.connect(broker.address) as store:
        log = store.topic("orders").partition(0)

        messages = log.read(0, tag="last")
        nothing = log.read(0, tag="nothing")

    assert [message.number for message in messages] == [COUNT - 1]
    assert nothing == []
    # The client has sent several requests.
    assert reads(broker) > 10


def test_a_listener_finds_a_far_message_without_a_wait(broker: RunningBroker) -> None:
    with warren.connect(broker.address) as store:
        listener = store.topic("orders").broadcast(tag="last", start=START)

        assert [message.number for message in listener.read()] == [COUNT - 1]
        assert listener.read() == []


def test_a_waiting_read_keeps_checking_at_the_broker(broker: RunningBroker) -> None:
    with warren.connect(broker.address) as store:
        listener = store.topic("orders").broadcast(tag="last", start=START)

        messages = listener.read(wait=PATIENCE_S)

    assert [message.number for message in messages] == [COUNT - 1]
    # One request was enough: there was more to scan, so it did not wait.
    assert reads(broker) == 1


def test_a_read_that_waits_after_everything_is_woken_by_a_put(broker: RunningBroker) -> None:
    with warren.connect(broker.address) as store, ThreadPoolExecutor(1) as pool:
        listener = store.topic("orders").broadcast(tag="new", start=START)
        waiting = pool.submit(listener.read, wait=PATIENCE_S)
        while not broker.broker.long_polls.parked_count:
            threading.Event().wait(0.005)
        broker.broker.store.topic("orders").put(b"x", tag="new", partition=1)

        assert [message.tag for message in waiting.result(PATIENCE_S)] == ["new"]


class Looks:
    """Counts calls of a method, and whether other work of the broker's only thread ran in between."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        self.count, self.others = 0, list[int]()
        self._broker, method = broker.broker, getattr(kind, name)
        # With one thread, work that is submitted in between can only run between two scans.
        threads, broker.broker._threads = broker.broker._threads, ThreadPoolExecutor(1, "warren-broker")
        threads.shutdown()

        def look(*arguments: Any) -> Any:
            self.count += 1
            self._broker._threads.submit(self.others.append, self.count)
            return method(*arguments)

        monkeypatch.setattr(kind, name, look)


@pytest.mark.parametrize("wait_s", [0.0, PATIENCE_S])
def test_a_take_continues_in_turns_until_it_finds_a_far_match(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    looks = Looks(broker, monkeypatch, QueueGroup, "take_within")
    with warren.connect(broker.address) as store:
        group = store.topic("orders").group("work", mode="queue", tag="last")

        message = group.take(wait=wait_s)
        nothing = group.take()

    assert message is not None
    assert message.number == COUNT - 1
    assert nothing is None
    assert looks.count > 10
    # Other work ran before each next scan.
    assert looks.others[:10] == list(range(1, 11))


@pytest.mark.parametrize("wait_s", [0.0, PATIENCE_S])
def test_a_read_of_a_stream_group_continues_in_turns_until_it_finds_a_far_match(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    looks = Looks(broker, monkeypatch, StreamGroup, "read_within")
    with warren.connect(broker.address) as store:
        group = store.topic("orders").group("stream", tag="last", start=START)

        messages = group.read(wait=wait_s)
        nothing = group.read()
        group.commit()

        assert group.positions() == {0: COUNT, 1: 0}
    assert [message.number for message in messages] == [COUNT - 1]
    assert nothing == []
    assert looks.count > 10
    assert looks.others[:10] == list(range(1, 11))


def test_a_take_in_turns_ends_when_the_right_was_removed(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []

    def check(call: Any, *_: Any) -> None:
        checks.append(call.request.api_key)
        # The first call admits the request.
        if checks.count(NativeKey.TAKE) == 3:
            raise BadInput("the right is gone")

    monkeypatch.setattr(handler, "check", check)
    looks = Looks(broker, monkeypatch, QueueGroup, "take_within")
    with warren.connect(broker.address) as store:
        group = store.topic("orders").group("work", mode="queue", tag="last")

        with pytest.raises(BadInput, match="the right is gone"):
            group.take()

    assert looks.count == 2


def test_messages_are_read_and_packed_off_the_event_loop(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()

    def carried_and_noted(messages: Any) -> Any:
        threads.add(threading.current_thread().name.split("_")[0])
        return carried(messages)

    monkeypatch.setattr("warren.broker.native.read.carried", carried_and_noted)
    with warren.connect(broker.address) as store:
        log = store.topic("orders").partition(0)
        assert len(log.read(0)) == COUNT
        assert [message.number for message in log.backwards()] == list(range(COUNT))[::-1]

    assert threads == {"warren-broker"}


def test_many_records_of_an_append_are_checked_off_the_event_loop(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def packed_and_noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name.split("_")[0])
        return packed_of(*arguments)

    monkeypatch.setattr("warren.broker.native.append.packed_of", packed_and_noted)
    with warren.connect(broker.address) as store:
        topic = store.topic("orders")
        topic.put_many([b"a", b"b"], partition=1)
        few = set(threads)
        threads.clear()
        log = broker.broker.store.topic("orders").partition(1)
        call_append(store, "orders", LOOP_ROWS_AT_ONCE + 1)

    assert few == {"broker"}
    assert set(threads) == {"warren-aside"}
    assert log.end == 2 + LOOP_ROWS_AT_ONCE + 1


def call_append(store: Any, topic: str, count: int) -> None:
    """Sends one request with this many records."""
    records = [wire_record(1, packed) for _ in range(count) for packed in pack(Batch([b"x"]))]
    store.calls.call(AppendRequest(topic, b"m", records=records), repeat=same)
