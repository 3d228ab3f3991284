"""Tasks that wait for a broker: what a wait costs, and what ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S, run, until
from warren.errors import ConnectionLost, StoreClosed

COUNT: Final = 12


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


def test_waiting_tasks_take_no_thread_and_do_not_delay_puts(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            topic = await store.topic("orders")
            group = await topic.group("workers", mode="queue")
            takers = [asyncio.create_task(group.take(wait=WAIT_S)) for _ in range(100)]
            while len(broker.broker.connections) < len(takers):
                await asyncio.sleep(0.01)

            await topic.put_many([b"x"] * len(takers))
            messages = await asyncio.gather(*takers)
            ours = [thread for thread in threading.enumerate() if thread.name.startswith("warren-aio")]

            assert len({message.number for message in messages if message is not None}) == len(takers)
            assert len(ours) < len(takers) / 2

    run(work())


def test_a_task_that_is_cancelled_ends_immediately_and_leaves_its_message_to_others(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            topic = await store.topic("orders")
            group = await topic.group("workers", mode="queue", lease=600.0, backoff=0.0, attempts_max=0)
            messages: list[Any] = []
            for number in range(COUNT):
                taking = asyncio.create_task(group.take(wait=WAIT_S))
                await asyncio.sleep(0.002 * (number % 4))
                # Before, during or after the transfer of the message.
                putting = asyncio.create_task(topic.put(b"%d" % number))
                await asyncio.sleep(0.0005 * number)
                taking.cancel()
                await asyncio.wait([taking, putting])
                messages += [] if taking.cancelled() else [taking.result()]

            while len({message.number for message in messages}) < COUNT:
                more = await group.take(COUNT, wait=WAIT_S)
                assert more
                messages += more

    run(work())


@pytest.mark.parametrize("where", ["broker", "directory"])
def test_leases_of_messages_that_a_task_has_in_hand_are_renewed(
    broker: RunningBroker, tmp_path: Path, where: str
) -> None:
    async def work() -> None:
        opening: Any = (
            warren.aio.connect(broker.address, timeout=WAIT_S)
            if where == "broker"
            else warren.aio.open(tmp_path / "here")
        )
        async with opening as store:
            topic = await store.topic("orders")
            await topic.put(b"slow")
            group = await topic.group("workers", mode="queue", lease=0.1)
            message = await group.take(wait=WAIT_S)
            inside: Any = broker.broker.store.topic("orders") if where == "broker" else topic.sync
            ledger = inside.group("workers", mode="queue")._ledger.log

            await asyncio.to_thread(until, lambda: sum(each.tag == "extend" for each in ledger.read(0)) >= 3)

            assert message is not None
            await group.ack(message)

    run(work())


def test_a_task_without_a_waiting_slot_still_gets_existing_messages(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            bridge: Any = store._bridge
            bridge._turns = asyncio.Semaphore(2)
            topic = await store.topic("orders")
            busy, other = await topic.group("busy", mode="queue"), await topic.group("other", mode="queue")
            takers = [asyncio.create_task(busy.take(wait=WAIT_S)) for _ in range(2)]
            await asyncio.to_thread(until, bridge._turns.locked)

            nothing = await other.take(wait=0.01)
            neither = await other.take()
            await topic.put_many([b"1", b"2"])
            message = await other.take(wait=WAIT_S)

            assert (nothing, neither) == (None, None)
            assert message is not None
            assert all(await asyncio.gather(*takers))

    run(work())


def test_waiting_tasks_get_messages_that_come_back_later(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            topic = await store.topic("orders")
            group = await topic.group("workers", mode="queue", attempts_max=0)
            await topic.put_many([b"1", b"2", b"3"])
            for message in await group.take(3, wait=WAIT_S):
                await group.nack(message, delay=0.2)

            takers = [asyncio.create_task(group.take(wait=WAIT_S)) for _ in range(3 * COUNT)]
            messages = []
            for taker in asyncio.as_completed(takers):
                messages.append(await taker)
                if len(messages) == 3:
                    break
            for each in takers:
                each.cancel()
            await asyncio.wait(takers)

            assert sorted(message.body for message in messages if message is not None) == [b"1", b"2", b"3"]

    run(work())


def test_closing_the_store_ends_waiting_calls(broker: RunningBroker) -> None:
    async def work() -> None:
        store = await warren.aio.connect(broker.address, timeout=WAIT_S)
        group = await (await store.topic("orders")).group("workers", mode="queue")
        taking = asyncio.create_task(group.take(wait=WAIT_S * 10))
        calls: Any = store.sync.calls  # type: ignore[attr-defined]
        await asyncio.to_thread(until, lambda: calls._parked)

        await store.close()

        with pytest.raises(StoreClosed):
            await taking

    run(work())


def test_a_call_whose_connection_breaks_after_the_threads_have_ended_closes_it(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            group = await (await store.topic("orders")).group("workers", mode="queue")
            taking = asyncio.create_task(group.take(wait=WAIT_S * 10))
            calls: Any = store.sync.calls  # type: ignore[attr-defined]
            await asyncio.to_thread(until, lambda: calls._parked)
            (connection,) = calls._parked
            bridge: Any = store._bridge
            # The store closes its threads and its connections at the same time.
            bridge._waits.shutdown()
            connection.shut()

            with pytest.raises(StoreClosed):
                await taking
            assert connection.fileno() == -1

    run(work())


def test_an_unreachable_broker_is_a_clear_error() -> None:
    async def work() -> None:
        with pytest.raises(ConnectionLost) as caught:
            await warren.aio.connect("127.0.0.1:1", timeout=0.2)
        assert caught.value.retryable

    run(work())


def test_a_wait_outlasts_its_connection(broker: RunningBroker) -> None:
    async def work() -> None:
        async with warren.aio.connect(broker.address, timeout=WAIT_S) as store:
            topic = await store.topic("orders")
            group = await topic.group("billing")
            reading = asyncio.create_task(group.read(wait=WAIT_S))
            calls: Any = store.sync.calls  # type: ignore[attr-defined]
            await asyncio.to_thread(until, lambda: calls._parked)
            for connection in list(calls._parked):
                connection.shut()
            await topic.put(b"one")

            assert [message.body for message in await reading] == [b"one"]

    run(work())
