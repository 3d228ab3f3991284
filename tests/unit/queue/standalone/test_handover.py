"""The hand-over queue: a message belongs to its putter or to its taker, never to both and never to none."""

from __future__ import annotations

import asyncio
import ctypes
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import warren
from tests.support.patience import SHORT_S, WAIT_S, run, settle, until, until_waiting
from tests.support.simulated_clock import SimulatedClock
from warren.errors import BadInput
from warren.queue.standalone.handover import HandoverQueue


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


def takers_wait(handover: HandoverQueue[Any], count: int) -> None:
    until(lambda: len(handover._takers) == count)


def putters_wait(handover: HandoverQueue[Any], count: int) -> None:
    until(lambda: handover.qsize() == count)


# --- Threads ---


def test_put_returns_when_a_taker_has_the_message(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    putting = threads.submit(handover.put, 1)
    putters_wait(handover, 1)
    assert not putting.done()

    assert handover.get() == 1

    putting.result(WAIT_S)
    assert handover.empty()


def test_a_waiting_taker_gets_the_message_immediately(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    taking = threads.submit(handover.get)
    takers_wait(handover, 1)

    handover.put(1, timeout=WAIT_S)

    assert taking.result(WAIT_S) == 1


def test_a_message_that_is_not_taken_in_time_is_withdrawn() -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    started_s = time.monotonic()

    with pytest.raises(queue.Full):
        handover.put(1, timeout=SHORT_S)

    assert time.monotonic() - started_s >= SHORT_S
    assert handover.qsize() == 0
    with pytest.raises(queue.Empty):
        handover.get_nowait()


def test_a_put_without_waiting_needs_a_waiting_taker(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    assert handover.full()
    with pytest.raises(queue.Full):
        handover.put_nowait(1)
    with pytest.raises(queue.Full):
        handover.put(1, block=False)
    taking = threads.submit(handover.get)
    takers_wait(handover, 1)
    assert not handover.full()

    handover.put_nowait(2)

    assert taking.result(WAIT_S) == 2
    assert handover.full()


def test_a_get_without_waiting_needs_a_waiting_putter(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    with pytest.raises(queue.Empty):
        handover.get_nowait()
    assert handover.full(), "who left does not wait any more"
    putting = threads.submit(handover.put, 1)
    putters_wait(handover, 1)

    assert handover.get_nowait() == 1

    putting.result(WAIT_S)


def test_a_taker_that_gives_up_no_longer_waits() -> None:
    handover: HandoverQueue[int] = HandoverQueue()

    with pytest.raises(queue.Empty):
        handover.get(timeout=SHORT_S)
    with pytest.raises(queue.Full):
        handover.put_nowait(1)


def test_the_taker_that_waited_longest_gets_the_first_message(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    takers = []
    for count in range(1, 5):
        takers.append(threads.submit(handover.get))
        takers_wait(handover, count)

    for number in range(4):
        handover.put(number)

    assert [taker.result(WAIT_S) for taker in takers] == [0, 1, 2, 3]


def test_messages_are_taken_in_the_order_in_which_they_were_offered(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    for number in range(4):
        threads.submit(handover.put, number)
        putters_wait(handover, number + 1)

    assert [handover.get() for _ in range(4)] == [0, 1, 2, 3]


def test_delayed_offers_are_taken_by_due_time_then_by_arrival(
    threads: ThreadPoolExecutor, clock: SimulatedClock
) -> None:
    handover: HandoverQueue[str] = HandoverQueue(clock=clock)
    for count, (name, delay) in enumerate((("a", 3), ("b", 1), ("c", None), ("d", 1)), 1):
        threads.submit(handover.put, name, delay=delay)
        putters_wait(handover, count)

    assert handover.get_nowait() == "c"
    clock.pass_ns(999_999_999)
    with pytest.raises(queue.Empty):
        handover.get_nowait()
    clock.pass_ns(1)
    assert [handover.get_nowait(), handover.get_nowait()] == ["b", "d"]
    clock.pass_ns(2 * 10**9)
    assert handover.get_nowait() == "a"


def test_a_delayed_message_reaches_a_waiting_taker_when_it_is_due(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    taking = threads.submit(handover.get)
    takers_wait(handover, 1)
    started_s = time.monotonic()

    handover.put(1, delay=SHORT_S, timeout=WAIT_S)

    assert time.monotonic() - started_s >= SHORT_S
    assert taking.result(WAIT_S) == 1


def test_a_delay_beyond_the_timeout_ends_in_full(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    taking = threads.submit(handover.get, True, 4 * SHORT_S)
    takers_wait(handover, 1)

    with pytest.raises(queue.Full):
        handover.put(1, timeout=SHORT_S, delay=2 * SHORT_S)
    with pytest.raises(queue.Full):
        handover.put_nowait(1, delay=SHORT_S)

    assert isinstance(taking.exception(WAIT_S), queue.Empty)


def test_join_waits_for_taken_messages_and_not_for_withdrawn_ones(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    with pytest.raises(queue.Full):
        handover.put_nowait(1)
    handover.join()
    putting = threads.submit(handover.put, 2)
    handover.get()
    putting.result(WAIT_S)
    joined = threads.submit(handover.join)
    until_waiting(handover._tasks._finished)
    assert not joined.done()

    handover.task_done()

    joined.result(WAIT_S)
    with pytest.raises(BadInput, match="task_done"):
        handover.task_done()


def test_wrong_input_is_refused_and_nothing_is_offered() -> None:
    handover: HandoverQueue[int] = HandoverQueue()

    with pytest.raises(BadInput, match="delay"):
        handover.put(1, delay=-1)
    with pytest.raises(BadInput, match="timeout"):
        handover.put(1, timeout=-1)
    with pytest.raises(BadInput, match="timeout"):
        handover.get(timeout=-1)
    assert handover.empty()


def interrupt(thread: threading.Thread) -> None:
    """Raises a KeyboardInterrupt in `thread` when it next runs."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


def start(function: Any, *arguments: Any, **options: Any) -> threading.Thread:
    def survive() -> None:
        with suppress(KeyboardInterrupt):
            function(*arguments, **options)

    thread = threading.Thread(target=survive, daemon=True)
    thread.start()
    return thread


def test_a_message_handed_to_a_taker_that_was_interrupted_goes_to_the_next_one(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    interrupted = start(handover.get)
    takers_wait(handover, 1)
    next_one = threads.submit(handover.get)
    takers_wait(handover, 2)
    interrupt(interrupted)

    handover.put_nowait(1)

    assert next_one.result(WAIT_S) == 1
    interrupted.join(WAIT_S)
    assert handover.empty()


def test_a_message_handed_to_a_taker_that_was_interrupted_waits_for_another(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    interrupted = start(handover.get)
    takers_wait(handover, 1)
    interrupt(interrupted)

    handover.put_nowait(1)
    interrupted.join(WAIT_S)

    assert handover.get_nowait() == 1


def test_a_putter_that_is_interrupted_withdraws_its_message() -> None:
    handover: HandoverQueue[int] = HandoverQueue()
    interrupted = start(handover.put, 1, timeout=SHORT_S)
    putters_wait(handover, 1)

    interrupt(interrupted)
    interrupted.join(WAIT_S)

    assert handover.empty()
    handover.join()


def test_among_many_threads_a_message_is_either_taken_or_refused(threads: ThreadPoolExecutor) -> None:
    handover: HandoverQueue[tuple[int, int]] = HandoverQueue()
    stop = threading.Event()

    def put(name: int) -> list[tuple[int, int]]:
        random, handed = Random(name), []
        for number in range(300):
            try:
                handover.put((name, number), timeout=random.random() / 1000, delay=random.choice((None, None, 0.0003)))
            except queue.Full:
                continue
            handed.append((name, number))
        return handed

    def take(name: int) -> list[tuple[int, int]]:
        random, messages = Random(name), []
        while not stop.is_set():
            try:
                messages.append(handover.get(timeout=random.random() / 1000))
            except queue.Empty:
                continue
        return messages

    takers = [threads.submit(take, name) for name in range(4)]
    putters = [threads.submit(put, name) for name in range(4)]
    handed = [message for putter in putters for message in putter.result(WAIT_S)]
    stop.set()
    messages = [message for taker in takers for message in taker.result(WAIT_S)]

    assert handed
    assert sorted(messages) == sorted(handed)
    assert handover.empty()


# --- Tasks of one event loop ---


def test_an_awaited_put_returns_when_a_taker_has_the_message() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        putting = asyncio.create_task(handover.put(1))
        await settle()
        assert (putting.done(), handover.qsize(), handover.empty()) == (False, 1, False)

        assert await handover.get() == 1

        await putting
        assert handover.empty()

    run(main())


def test_tasks_meet_in_order() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        takers = [asyncio.create_task(handover.get()) for _ in range(3)]
        await settle()
        for number in range(3):
            await handover.put(number)
        assert [await taker for taker in takers] == [0, 1, 2]

        putters = [asyncio.create_task(handover.put(number)) for number in range(3)]
        await settle()
        assert [await handover.get(), handover.get_nowait(), await handover.get()] == [0, 1, 2]
        await asyncio.gather(*putters)

    run(main())


def test_tasks_that_do_not_wait_need_a_waiting_partner() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        with pytest.raises(asyncio.QueueEmpty):
            handover.get_nowait()
        with pytest.raises(asyncio.QueueFull):
            handover.put_nowait(1)
        assert (handover.full(), handover.empty()) == (True, True)
        taker = asyncio.create_task(handover.get())
        await settle()
        assert not handover.full()

        handover.put_nowait(2)

        assert handover.full(), "a taker that has a message waits no more"
        assert await taker == 2

    run(main())


def test_tasks_get_delayed_messages_by_due_time_and_never_early() -> None:
    async def main() -> None:
        handover, started_s = warren.aio.handover(), time.monotonic()
        takers = [asyncio.create_task(handover.get()) for _ in range(2)]
        putters = [
            asyncio.create_task(handover.put(name, delay=delay)) for name, delay in (("b", 2 * SHORT_S), ("a", SHORT_S))
        ]

        assert [await taker for taker in takers] == ["a", "b"]
        assert time.monotonic() - started_s >= 2 * SHORT_S
        await asyncio.gather(*putters)

    run(main())


def test_the_clock_decides_for_tasks_too_which_messages_are_due(clock: SimulatedClock) -> None:
    async def main() -> None:
        handover = warren.aio.handover(clock=clock)
        putter = asyncio.create_task(handover.put("a", delay=1))
        await settle()
        with pytest.raises(asyncio.QueueEmpty):
            handover.get_nowait()
        clock.pass_ns(10**9)
        assert handover.get_nowait() == "a"
        await putter

    run(main())


def test_a_cancelled_put_withdraws_its_message() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handover.put(1), SHORT_S)

        assert handover.empty()
        with pytest.raises(asyncio.QueueEmpty):
            handover.get_nowait()
        await handover.join()

    run(main())


def test_a_cancelled_get_leaves_the_message_to_the_next_taker() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        cancelled, other = asyncio.create_task(handover.get()), asyncio.create_task(handover.get())
        await settle()
        await handover.put(1)
        cancelled.cancel()

        assert await other == 1
        assert cancelled.cancelled()

    run(main())


def test_a_cancelled_get_leaves_the_message_in_the_queue() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        cancelled = asyncio.create_task(handover.get())
        await settle()
        handover.put_nowait(1)
        cancelled.cancel()
        await settle()

        assert (handover.qsize(), handover.get_nowait()) == (1, 1)

    run(main())


def test_a_get_that_is_cancelled_while_it_waits_is_handed_nothing() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        cancelled = asyncio.create_task(handover.get())
        await settle()
        cancelled.cancel()
        # The task has not run since, and is still in the line.
        with pytest.raises(asyncio.QueueFull):
            handover.put_nowait(1)
        await settle()
        assert not handover._takers

    run(main())


def test_cancelling_a_put_whose_message_was_taken_takes_effect_at_the_next_await() -> None:
    async def main() -> None:
        handover, steps = warren.aio.handover(), []

        async def put_two() -> None:
            await handover.put(1)
            steps.append(1)
            await handover.put(2)

        putter = asyncio.create_task(put_two())
        await settle()
        assert handover.get_nowait() == 1
        putter.cancel()
        await asyncio.wait((putter,), timeout=WAIT_S)

        assert steps == [1]
        assert putter.cancelled()
        assert handover.empty()

    run(main())


def test_a_timeout_that_comes_too_late_does_not_come_at_all() -> None:
    async def main() -> None:
        handover = warren.aio.handover()

        async def put() -> str:
            async with asyncio.timeout(WAIT_S) as timeout:
                timeouts.append(timeout)
                await handover.put(1)
            await settle()
            return "went on"

        timeouts: list[asyncio.Timeout] = []
        putter = asyncio.create_task(put())
        await settle()
        timeouts[0].reschedule(asyncio.get_running_loop().time())
        assert handover.get_nowait() == 1

        assert await putter == "went on"

    run(main())


def test_join_waits_for_messages_that_tasks_took() -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        taker = asyncio.create_task(handover.get())
        await settle()
        await handover.put(1)
        joined = asyncio.create_task(handover.join())
        await settle()
        assert not joined.done()
        handover.task_done()
        await joined
        assert await taker == 1
        with pytest.raises(BadInput, match="task_done"):
            handover.task_done()

    run(main())


@pytest.mark.parametrize("delay", [-1, float("nan"), "1"])
def test_tasks_cannot_offer_with_a_wrong_delay(delay: Any) -> None:
    async def main() -> None:
        handover = warren.aio.handover()
        with pytest.raises(BadInput, match="delay"):
            await handover.put(1, delay=delay)
        with pytest.raises(BadInput, match="delay"):
            handover.put_nowait(1, delay=delay)
        assert handover.empty()
        await handover.join()

    run(main())


def test_among_many_tasks_a_message_is_either_taken_or_refused() -> None:
    async def main() -> None:
        handover, handed, messages = warren.aio.handover(), [], []

        async def put(name: int) -> None:
            random = Random(name)
            for number in range(100):
                try:
                    async with asyncio.timeout(random.random() / 500):
                        await handover.put((name, number), delay=random.choice((None, None, 0.0005)))
                        handed.append((name, number))
                except TimeoutError:
                    pass

        async def take(name: int) -> None:
            random = Random(name)
            while True:
                try:
                    async with asyncio.timeout(random.random() / 500):
                        messages.append(await handover.get())
                except TimeoutError:
                    pass

        takers = [asyncio.create_task(take(name)) for name in range(4)]
        await asyncio.gather(*(put(name) for name in range(4)))
        await settle()
        for taker in takers:
            taker.cancel()
        await asyncio.wait(takers)
        while not handover.empty():
            messages.append(handover.get_nowait())
        assert handed
        assert sorted(messages) == sorted(handed)

    run(main())
