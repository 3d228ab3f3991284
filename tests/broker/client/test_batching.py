"""Puts that are batched: in an embedded store, and over the network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.cutter import cutting
from tests.support.broker.running import running_broker
from tests.support.patience import WAIT_S, run, until
from warren.errors import BadInput, BatchingClosed, BufferFull, NoSuchTopic, TooLarge, WarrenError

NEVER_S = 3600.0


@pytest.fixture(params=["here", "there"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "here":
        with warren.open(tmp_path / "data", durability="os") as here:
            yield here
        return
    with running_broker(tmp_path / "data") as broker, warren.connect(broker.address, timeout=WAIT_S) as there:
        yield there


def held_up(topic: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Returns an event that every `put_many` to the topic waits for."""
    may_go, put_many = threading.Event(), topic.put_many

    def slow(*arguments: Any, **options: Any) -> Any:
        may_go.wait(WAIT_S)
        return put_many(*arguments, **options)

    monkeypatch.setattr(topic, "put_many", slow)
    return may_go


def test_each_future_returns_the_receipt_of_its_message(store: Any) -> None:
    topic = store.topic("orders", partitions=3)
    with store.batching() as puts:
        futures = {
            number: puts.put(
                topic if number % 2 else "orders",
                b"%d" % number,
                key=b"%d" % (number % 5) if number % 3 else None,
                tag=f"t.{number}" if number % 4 else "",
                headers={"n": b"%d" % number} if number % 7 == 0 else None,
                id=f"id-{number}",
            )
            for number in range(200)
        }
        assert puts.flush(WAIT_S)

        for number, future in futures.items():
            place = future.result(0)
            message = topic.partition(place.partition).at(place.number)
            assert (message.body, message.id) == (b"%d" % number, f"id-{number}")
            assert message.tag == (f"t.{number}" if number % 4 else "")
            assert dict(message.headers) == ({"n": b"%d" % number} if number % 7 == 0 else {})


def test_messages_of_one_key_are_in_the_order_of_their_puts(store: Any) -> None:
    topic = store.topic("orders", partitions=4)
    with store.batching(linger=0.0, batch_bytes=1000, in_flight=4) as puts:
        for number in range(1000):
            puts.put(topic, b"%d" % number, key=b"%d" % (number % 7))

    for key in range(7):
        numbers = [int(m.body) for log in topic.logs for m in log.read(0, limit=2000) if m.key == b"%d" % key]
        assert numbers == list(range(key, 1000, 7))


def test_a_batch_is_written_when_it_is_full_or_its_time_is_over(store: Any) -> None:
    topic = store.topic("orders")
    with store.batching(linger=NEVER_S, batch_bytes=10_000) as puts:
        first = puts.put(topic, b"waits")
        assert not first.done()
        puts.put(topic, bytes(10_000))
        assert first.result(WAIT_S).number == 0
        second = puts.put(topic, b"waits, too")
        assert not second.done()
        assert puts.flush(WAIT_S)
        assert second.done()
    with store.batching(linger=0.001) as puts:
        assert puts.put(topic, b"in time").result(WAIT_S).number == 3


def test_no_more_requests_wait_than_the_limit_allows(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = store.topic("orders")
    may_go = held_up(topic, monkeypatch)
    with store.batching(linger=0.0, batch_bytes=1000, buffer_bytes=5000) as puts:
        futures = [puts.put(topic, bytes(900)) for _ in range(5)]
        with pytest.raises(BufferFull) as caught:
            puts.put(topic, bytes(900), wait=0.01)
        late: list[Any] = []
        thread = threading.Thread(target=lambda: late.append(puts.put(topic, bytes(900), wait=WAIT_S)))
        thread.start()
        may_go.set()
        thread.join(WAIT_S)
        futures += late

        assert caught.value.retryable
        assert [future.result(WAIT_S).number for future in futures] == list(range(6))


def test_one_message_that_cannot_be_taken_fails_alone(store: Any) -> None:
    topic = store.topic("orders", message_size_max=1000)
    with store.batching(linger=NEVER_S) as puts:
        futures = [puts.put(topic, b"%d" % number, tag="x" * (200 if number == 2 else 3)) for number in range(4)]
        puts.flush(WAIT_S)
        with pytest.raises(TooLarge):
            puts.put(topic, bytes(1001))

    assert isinstance(futures[2].exception(0), BadInput)
    assert [m.body for m in topic.partition(0).read(0)] == [b"0", b"1", b"3"]
    assert [futures[number].result(0).number for number in (0, 1, 3)] == [0, 1, 2]


def test_every_future_of_a_failed_batch_raises(store: Any) -> None:
    topic = store.topic("orders")
    puts = store.batching(linger=NEVER_S)
    calls: list[Any] = []
    futures = [puts.put(topic, b"x") for _ in range(3)]
    futures[0].add_done_callback(calls.append)
    store.delete_topic("orders")
    puts.close(WAIT_S)

    assert all(isinstance(future.exception(0), NoSuchTopic) for future in futures)
    assert calls == [futures[0]]
    with pytest.raises(BatchingClosed):
        puts.put("others", b"x")


def test_a_future_that_is_not_done_times_out(store: Any) -> None:
    with store.batching(linger=NEVER_S) as puts:
        future = puts.put("orders", b"x")
        with pytest.raises(TimeoutError):
            future.result(0.001)

    assert future.result(0).number == 0


@pytest.mark.parametrize("options", [{"linger": -1}, {"batch_bytes": 0}, {"in_flight": 0}, {"buffer_bytes": 5}])
def test_invalid_options_are_refused(store: Any, options: Any) -> None:
    with pytest.raises(BadInput):
        store.batching(**options)


def test_over_connections_that_are_cut_every_message_is_written_once(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker, cutting(broker.address, 5) as cutter:
        store = None
        while store is None:
            try:
                store = warren.connect(cutter.address, timeout=WAIT_S)
            except WarrenError:
                continue
        topic = store.topic("orders")
        with store.batching(linger=0.0, batch_bytes=700) as puts:
            futures = [puts.put(topic, b"%d" % number) for number in range(500)]
        cutter.is_cutting = False
        store.close()

        bodies = [message.body for message in broker.broker.store.topic("orders").partition(0).read(0, limit=1000)]
    assert cutter.cut_count > 3
    assert bodies == [b"%d" % number for number in range(500)]
    assert [future.result(0).number for future in futures] == list(range(500))


@pytest.mark.parametrize("where", ["here", "there"])
def test_tasks_batch_their_puts_as_threads_do(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(opening: Any) -> None:
        async with opening as store:
            topic = await store.topic("orders")
            async with store.batching(linger=0.001) as puts:
                futures = [await puts.put("orders" if number % 2 else topic, b"%d" % number) for number in range(100)]
                assert [(await future).number for future in futures] == list(range(100))
            may_go = held_up(topic.sync, monkeypatch)
            async with store.batching(linger=0.0, batch_bytes=1000, buffer_bytes=2000) as puts:
                futures = [await puts.put(topic, bytes(900)) for _ in range(2)]
                with pytest.raises(BufferFull):
                    await puts.put(topic, bytes(900), wait=0.01)
                late = asyncio.create_task(puts.put(topic, bytes(900), wait=WAIT_S))
                may_go.set()
                assert (await (await late)).number == 102
                assert await puts.flush(WAIT_S)
                assert all(future.done() for future in futures)

    if where == "here":
        run(work(warren.aio.open(tmp_path / "data", durability="os")))
        return
    with running_broker(tmp_path / "data") as broker:
        run(work(warren.aio.connect(broker.address, timeout=WAIT_S)))


def test_a_batching_that_is_left_open_does_not_keep_the_process_alive(store: Any) -> None:
    puts = store.batching(linger=0.0)
    puts.put("orders", b"x").result(WAIT_S)

    assert puts.close(WAIT_S)
    until(lambda: not any(thread.is_alive() for thread in puts._threads))
