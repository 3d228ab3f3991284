"""Tasks with asyncio stores, embedded and behind a broker: iteration, waits, and cancellation during them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import running_broker
from tests.support.patience import WAIT_S, until_true
from warren.aio.remote_bridge import RemoteBridge
from warren.aio.store import Opening
from warren.aio.thread_bridge import WAIT_THREADS
from warren.errors import BadInput, BadName, NoReply, StoreClosed

PATIENCE_S = 30.0
OpenStore = Callable[[], Opening]


@pytest.fixture(params=["embedded", "broker"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same store each time it is called."""
    if request.param == "embedded":
        yield lambda: warren.aio.open(tmp_path, durability="os")
        return
    with running_broker(tmp_path) as broker:
        yield lambda: warren.aio.connect(broker.address, timeout=WAIT_S)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S * 2))


async def until_waiting(store: warren.aio.Store, count: int) -> None:
    """Returns when `count` calls wait.

    Each has a thread, or waits for one if there are more than WAIT_THREADS. At a broker the event loop watches a
    connection for each instead.
    """
    if isinstance(store._bridge, RemoteBridge):
        selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        await until_true(lambda: len(selector.get_map()) == 1 + count)  # One wakes the loop itself.
        return
    pool = store._bridge._waits
    queued = max(0, count - WAIT_THREADS)
    await until_true(lambda: len(pool._threads) == count - queued and pool._work_queue.qsize() == queued)


def test_messages_go_in_and_come_out(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders", partitions=2)
            receipt = await topic.put(b"one", key=b"k", tag="eu.de")
            places = await topic.put_many([b"two", b"three"])
            assert (receipt.topic, len(places)) == ("orders", 2)
            assert await store.topics() == ["orders"]
            assert {message.body for message in await topic.last(3)} == {b"one", b"two", b"three"}
            assert [message.body async for message in topic.since(0, tag="eu.*")] == [b"one"]
            assert [message.body async for message in topic.between(0, 1)] == []
            await topic.configure(durability="commit")
            assert topic.partition_count == 2

    run(work())


def test_a_store_can_be_awaited_and_closed(open_store: OpenStore) -> None:
    async def work() -> None:
        store = await open_store()
        await store.topic("orders")
        assert not store.is_closed
        await store.close()
        await store.close()
        assert store.is_closed
        with pytest.raises(StoreClosed):
            store.sync.topics()

    run(work())


def test_errors_come_through(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            with pytest.raises(BadName):
                await store.topic("a/b")
            topic = await store.topic("orders")
            with pytest.raises(NoReply):
                await topic.request(b"?", timeout=0.01)
            group = await topic.group("billing")
            with pytest.raises(BadInput, match="wait"):
                await group.read(wait=-1)

    run(work())


def test_many_simultaneous_requests_are_answered_by_tasks_of_the_same_loop(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("sums")
            group = await topic.group("calculators", mode="queue")
            asking = [asyncio.create_task(topic.request(b"%d" % number, timeout=PATIENCE_S)) for number in range(12)]
            for _ in asking:
                message = await group.take(wait=PATIENCE_S)
                assert message is not None
                await asyncio.to_thread(message.reply, message.body * 2)
                await group.ack(message)

            assert [reply.body for reply in await asyncio.gather(*asking)] == [b"%d" % n * 2 for n in range(12)]

    run(work())


def test_a_stream_group_is_read_and_committed(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            await topic.put_many([b"1", b"2", b"3"])
            async with await topic.group("billing") as group:
                assert [message.body for message in await group.read(2)] == [b"1", b"2"]
                await group.commit()
                assert await group.lag() == {0: 1}
            bodies = []
            async with await topic.group("billing") as group:
                async for message in group:
                    bodies.append(message.body)
                    await group.commit()
                    break
            assert bodies == [b"3"]
            assert await topic.groups() == ["billing"]

    run(work())


def test_messages_that_a_cancelled_task_read_are_read_again(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            group = await topic.group("billing")
            reading = asyncio.create_task(group.read(10, wait=PATIENCE_S))
            await until_waiting(store, 1)
            # The message comes while the cancelled task still waits in its thread.
            store.sync.topic("orders").put(b"one")
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

            assert [message.body for message in await group.read(10, wait=PATIENCE_S)] == [b"one"]

    run(work())


def test_a_queue_group_leases_and_gives_back(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            group = await topic.group("workers", mode="queue", lease=600.0)
            taking = asyncio.create_task(group.take(wait=PATIENCE_S))
            await until_waiting(store, 1)
            store.sync.topic("orders").put(b"one")
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking

            message = await group.take(wait=PATIENCE_S)
            assert message is not None
            assert message.body == b"one"
            await group.ack(message)
            assert await group.take() is None
            assert await group.take(5) == []
            assert await group.in_flight() == 0

    run(work())


def test_waiting_calls_do_not_keep_others_from_putting(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            group = await topic.group("workers", mode="queue")
            takers = [asyncio.create_task(group.take(wait=PATIENCE_S)) for _ in range(2 * WAIT_THREADS)]
            await until_waiting(store, len(takers))

            await topic.put_many([b"x"] * len(takers))

            assert all(message is not None for message in await asyncio.gather(*takers))

    run(work())


def test_a_broadcast_listener_gets_new_messages(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            await topic.put(b"before")
            listener = await topic.broadcast(tag="eu.*")
            await topic.put(b"other", tag="us.ny")
            await topic.put(b"heard", tag="eu.de")
            async for message in listener:
                assert message.body == b"heard"
                break

    run(work())


def test_a_durable_queue_is_shared_with_threads(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            queue = await store.queue("jobs", 1)
            with pytest.raises(asyncio.QueueEmpty):
                await queue.get_nowait()
            getting = asyncio.create_task(queue.get())
            thread = threading.Thread(target=store.sync.queue("jobs").put, args=({"job": 1},))
            thread.start()
            assert await getting == {"job": 1}
            await queue.task_done()
            await queue.join()
            await queue.put(None)
            with pytest.raises(asyncio.QueueFull):
                await queue.put_nowait(2)
            assert await queue.full()
            assert await queue.get() is None
            assert await queue.empty()
            assert await queue.qsize() == 0

    run(work())


def test_a_cancelled_get_loses_nothing(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            queue = await store.queue("jobs")
            getting = asyncio.create_task(queue.get())
            await until_waiting(store, 1)
            store.sync.queue("jobs").put("item")
            getting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await getting

            assert await queue.get() == "item"

    run(work())


def test_a_delayed_message_can_be_cancelled(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            delayed = await topic.put(b"later", delay=3600.0)
            assert [entry.id async for entry in topic.scheduled()] == [delayed.id]
            assert await topic.cancel(delayed.id)
            assert [entry async for entry in topic.scheduled()] == []

    run(work())


async def change_mind(store: warren.aio.Store) -> None:
    async with await store.transaction() as tx:
        await tx.put("audit", b"3")
        raise RuntimeError("changed my mind")


def test_a_transaction_is_all_or_nothing(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            orders, audit = await store.topic("orders"), await store.topic("audit")
            await orders.put(b"0")
            billing = await orders.group("billing")
            await billing.read()
            async with await store.transaction() as tx:
                await tx.put("orders", b"1")
                await tx.put("audit", b"2")
                await tx.commit(billing)
            with pytest.raises(RuntimeError, match="changed my mind"):
                await change_mind(store)

            assert [message.body for message in await orders.last(5)] == [b"0", b"1"]
            assert [message.body for message in await audit.last(5)] == [b"2"]
            assert await billing.lag() == {0: 1}

    run(work())


def test_a_partition_is_read_by_number_and_as_arrow(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders", partitions=2)
            log = await topic.partition(1)
            assert (await log.append(b"0")).number == 0
            assert await log.append_many([b"1", b"2"]) == range(1, 3)
            assert (await log.first(), await log.end()) == (0, 3)
            message = await log.at(1)
            assert message is not None
            assert message.body == b"1"
            assert [each.body async for each in log.backwards()] == [b"2", b"1", b"0"]
            assert [each.body for each in await log.last(2)] == [b"1", b"2"]
            assert sum([batch.num_rows async for batch in log.scan(columns=["body"])]) == 3
            assert await log.wait(2, PATIENCE_S)
            assert not await log.wait(3, 0.01)
            await topic.retire()

    run(work())


def test_a_producer_numbers_its_puts(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders")
            async with await store.producer("loader") as producer:
                assert await producer.put(topic, b"1", sequence=1) is not None
                assert await producer.put_many("orders", [b"2", b"3"]) is not None
                assert await producer.put(topic, b"1", sequence=1) is None
                assert (producer.name, await producer.sequence()) == ("loader", 2)
            assert (await store.describe("orders")).messages == 3

    run(work())


def test_a_group_can_be_described_and_its_dead_letters_listed(open_store: OpenStore) -> None:
    async def work() -> None:
        async with open_store() as store:
            topic = await store.topic("orders", partitions=2)
            await topic.put_many([b"1", b"2"], partition=0)
            async with await topic.group("billing") as billing:
                await billing.read(wait=PATIENCE_S)
                assert billing.partitions == [0, 1]
                assert billing.id in await billing.members()
            async with await topic.group("workers", mode="queue") as work:
                message = await work.take(wait=PATIENCE_S)
                assert message is not None
                await work.reject(message, "not wanted")
                assert (await work.dead()).name == "orders.dead"
            assert await topic.groups() == ["billing", "workers"]
            assert (await topic.describe_group("workers")).group == "workers"
            assert len([letter async for letter in topic.dead_letters("workers")]) == 1
            existing = await store.existing_topic("orders")
            assert existing.partition_count == 2
            async with await store.transaction() as tx:
                await tx.put("orders", b"3")
                assert await tx.state() == "open"
            assert await store.transaction_state(tx.id) == "done"
            assert await store.last_failure() == ""

    run(work())
