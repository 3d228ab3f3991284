"""The in-memory queue keeps the promises of `queue.Queue`, and gives delayed messages in exact order, never early."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warren
from tests.support.patience import SHORT_S, WAIT_S, run, settle, until_waiting
from tests.support.simulated_clock import SimulatedClock
from warren.aio import MemoryQueue as AsyncMemoryQueue
from warren.errors import BadInput
from warren.queue.standalone.due import GONE_MIN, DueOrder
from warren.queue.standalone.memory import MemoryQueue
from warren.queue.state.waits import Deadline, wait


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(8)


# --- As queue.Queue ---


@pytest.mark.parametrize(
    "kind", [warren.memory(), warren.handover(), warren.open_file], ids=["memory", "handover", "file"]
)
def test_every_method_of_the_standard_queue_exists(kind: object, tmp_path: Any) -> None:
    instance = warren.open_file(tmp_path / "jobs.bunny") if kind is warren.open_file else kind
    names = {name for name in dir(queue.Queue) if not name.startswith("_")} - {"shutdown"}

    assert names == {"empty", "full", "get", "get_nowait", "join", "put", "put_nowait", "qsize", "task_done"}
    assert names <= set(dir(instance))


def test_the_errors_are_those_of_the_standard_queue() -> None:
    assert (warren.Full, warren.Empty) == (queue.Full, queue.Empty)


def test_messages_leave_in_the_order_in_which_they_came() -> None:
    memory = warren.memory()
    for number in range(5):
        memory.put(number)

    assert [memory.get() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_message_that_does_not_fit_waits_or_is_refused(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[int] = MemoryQueue(2)
    memory.put(1)
    assert not memory.full()
    memory.put(2)

    assert memory.full()
    with pytest.raises(queue.Full):
        memory.put_nowait(3)
    with pytest.raises(queue.Full):
        memory.put(3, timeout=SHORT_S)
    with pytest.raises(queue.Full):
        memory.put(3, False)
    putting = threads.submit(memory.put, 3)
    until_waiting(memory._taken, 1)
    assert memory.get() == 1
    putting.result(WAIT_S)
    assert (memory.qsize(), memory.get(), memory.get(), memory.empty()) == (2, 2, 3, True)


@pytest.mark.parametrize("maxsize", [0, -1])
def test_a_queue_without_a_size_takes_everything(maxsize: int) -> None:
    memory: MemoryQueue[int] = MemoryQueue(maxsize)
    for number in range(1000):
        memory.put_nowait(number)

    assert not memory.full()


def test_nothing_is_taken_from_an_empty_queue() -> None:
    memory, started_s = warren.memory(), time.monotonic()

    with pytest.raises(queue.Empty):
        memory.get_nowait()
    with pytest.raises(queue.Empty):
        memory.get(False)
    with pytest.raises(queue.Empty):
        memory.get(timeout=SHORT_S)
    assert time.monotonic() - started_s >= SHORT_S


def test_a_waiting_taker_is_woken(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[int] = MemoryQueue()
    taking = threads.submit(memory.get, True, WAIT_S)
    until_waiting(memory._added, 1)

    memory.put(7)

    assert taking.result(WAIT_S) == 7


def test_join_returns_when_every_message_is_done(threads: ThreadPoolExecutor) -> None:
    memory = warren.memory()
    memory.join()
    memory.put(1)
    memory.put(2)
    joined = threads.submit(memory.join)

    memory.get()
    memory.task_done()
    until_waiting(memory._tasks._finished)
    assert not joined.done()
    memory.get()
    memory.task_done()

    joined.result(WAIT_S)
    with pytest.raises(BadInput, match="task_done"):
        memory.task_done()


@pytest.mark.parametrize("delay", [-1, -0.001, float("nan"), float("inf"), 1e12, "1", [1]])
def test_a_wrong_delay_is_refused_and_nothing_is_put(delay: Any) -> None:
    memory, asynchronous = warren.memory(), warren.aio.memory()

    with pytest.raises(BadInput, match="delay"):
        memory.put(1, delay=delay)
    with pytest.raises(BadInput, match="delay"):
        asynchronous.put_nowait(1, delay=delay)
    with pytest.raises(BadInput, match="delay"):
        asyncio.run(asynchronous.put(1, delay=delay))
    assert memory.empty()
    assert asynchronous.empty()


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1"])
def test_a_wrong_timeout_is_refused(timeout: Any) -> None:
    memory = warren.memory()

    with pytest.raises(BadInput, match="timeout"):
        memory.get(timeout=timeout)
    with pytest.raises(BadInput, match="timeout"):
        memory.put(1, timeout=timeout)
    assert memory.empty()


def test_a_timeout_that_is_not_waited_for_does_not_matter() -> None:
    memory = warren.memory()

    memory.put(1, block=False, timeout=-1)

    assert memory.get(block=False, timeout=-1) == 1


@pytest.mark.parametrize("make", [warren.memory, warren.aio.memory])
def test_a_wrong_maxsize_is_refused(make: Callable[[Any], object]) -> None:
    with pytest.raises(BadInput, match="maxsize"):
        make("3")


# --- Delays ---


def test_delayed_messages_leave_by_due_time_then_by_arrival(clock: SimulatedClock) -> None:
    memory = warren.memory(clock=clock)
    for name, delay in (("a", 3), ("b", 1), ("c", None), ("d", 1), ("e", 0), ("f", 2.5)):
        memory.put(name, delay=delay)

    assert take_all(memory) == ["c", "e"]
    clock.pass_ns(999_999_999)
    assert take_all(memory) == []
    clock.pass_ns(1)
    assert take_all(memory) == ["b", "d"]
    clock.pass_ns(10**10)
    assert take_all(memory) == ["f", "a"]


def test_a_delayed_message_that_is_due_comes_before_one_that_arrived_later(clock: SimulatedClock) -> None:
    memory = warren.memory(clock=clock)
    memory.put("delayed", delay=1)
    clock.pass_ns(2 * 10**9)
    memory.put("prompt")

    assert take_all(memory) == ["delayed", "prompt"]


def test_a_message_that_is_not_due_counts_and_takes_up_room(clock: SimulatedClock) -> None:
    memory = warren.memory(1, clock=clock)
    memory.put(1, delay=5)

    assert (memory.qsize(), memory.empty(), memory.full()) == (1, False, True)
    with pytest.raises(queue.Full):
        memory.put_nowait(2)
    with pytest.raises(queue.Empty):
        memory.get_nowait()


def test_a_waiting_taker_is_woken_by_the_due_time(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[int] = MemoryQueue()
    started_s = time.monotonic()
    memory.put(1, delay=SHORT_S)

    assert memory.get(timeout=WAIT_S) == 1
    assert time.monotonic() - started_s >= SHORT_S


def test_a_taker_that_waits_for_a_late_message_is_woken_by_an_earlier_one(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[int] = MemoryQueue()
    memory.put(1, delay=1000)
    taking = threads.submit(memory.get, True, WAIT_S)
    until_waiting(memory._added, 1)

    memory.put(2, delay=SHORT_S)

    assert taking.result(WAIT_S) == 2


def test_a_taker_that_gives_up_leaves_the_next_due_time_to_another(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[int] = MemoryQueue()
    first = threads.submit(memory.get, True, 2 * SHORT_S)
    until_waiting(memory._added, 1)
    second = threads.submit(memory.get, True, WAIT_S)
    until_waiting(memory._added, 2)

    memory.put(1, delay=6 * SHORT_S)

    assert isinstance(first.exception(WAIT_S), queue.Empty)
    assert second.result(5) == 1


def test_an_interrupted_taker_passes_the_notification_on() -> None:
    class Interrupted(threading.Condition):
        notices = 0

        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

        def notify(self, n: int = 1) -> None:
            self.notices += n

    condition = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        wait(condition, 1)
    assert condition.notices == 1


def test_a_long_wait_is_split_into_stretches(clock: SimulatedClock) -> None:
    deadline = Deadline(clock, True, 10)

    assert (deadline.left_s(), deadline.left_s(4), deadline.left_s(-1)) == (10, 4, 1e-6)
    clock.pass_ns(10**10)
    assert (deadline.left_s(), deadline.left_s(20)) == (0, 0)
    assert Deadline(clock, False, 10).left_s() == 0
    assert 0 < Deadline(clock, True, None).left_s() < threading.TIMEOUT_MAX
    assert 0 < Deadline(clock, True, float("inf")).left_s() < threading.TIMEOUT_MAX


def test_many_threads_lose_and_repeat_nothing(threads: ThreadPoolExecutor) -> None:
    memory: MemoryQueue[tuple[int, int]] = MemoryQueue(10)

    def put(name: int) -> None:
        for number in range(300):
            memory.put((name, number), delay=0.001 if number % 7 == 0 else None)

    def take() -> list[tuple[int, int]]:
        messages = []
        for _ in range(300):
            messages.append(memory.get(timeout=WAIT_S))
            memory.task_done()
        return messages

    takers = [threads.submit(take) for _ in range(4)]
    putters = [threads.submit(put, name) for name in range(4)]
    for putter in putters:
        putter.result(WAIT_S)
    memory.join()

    messages = [message for taker in takers for message in taker.result(WAIT_S)]
    assert sorted(messages) == [(name, number) for name in range(4) for number in range(300)]


@given(
    st.lists(st.tuples(st.sampled_from(["add", "take", "withdraw", "back", "pass"]), st.integers(0, 9)), max_size=80)
)
def test_the_order_is_that_of_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    order: DueOrder[int] = DueOrder()
    entries, model, popped = [], [], []
    now_s = 0.0
    for number, (step, value) in enumerate(steps):
        match step:
            case "add":
                entries.append(order.add(number, now_s, value % 5))
                model.append(entries[-1])
            case "take":
                due = sorted((e for e in model if e.due_s <= now_s), key=lambda e: (e.due_s, e.number))
                entry = order.take(now_s)
                assert entry is (due[0] if due else None)
                if entry:
                    model.remove(entry)
                    popped.append(entry)
            case "withdraw" if model:
                order.withdraw(model.pop(value % len(model)))
            case "back" if popped:
                model.append(popped.pop())
                order.put_back(model[-1])
            case _:
                now_s += value / 3
        assert len(order) == len(model)
        assert order.first_due_s() == min((entry.due_s for entry in model), default=None)
        assert all(entry.is_here == (entry in model) for entry in entries)


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
def test_taken_messages_are_not_kept_in_memory(delay_s: float) -> None:
    order: DueOrder[int] = DueOrder()
    order.add(0, 0.0, delay_s)

    order.take(5.0)

    assert not order._line
    assert not order._later


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
def test_withdrawn_messages_are_not_kept_in_memory(delay_s: float) -> None:
    order: DueOrder[int] = DueOrder()
    order.add(0, 0.0, delay_s)

    for number in range(1000):
        order.withdraw(order.add(number, 1.0, delay_s))

    assert len(order._line) + len(order._later) <= GONE_MIN + 2
    assert order.first_due_s() == delay_s


def test_the_order_outlives_the_tidying_up() -> None:
    order: DueOrder[int] = DueOrder()
    entries = [order.add(number, 0.0, 1 + number * 37 % 101) for number in range(100)]

    for entry in entries[:90:2] + entries[1:60:2]:
        order.withdraw(entry)

    assert len(order._later) < 60, "it was tidied up"
    remaining = sorted((entry for entry in entries if entry.is_here), key=lambda entry: entry.due_s)
    assert [order.take(1000.0) for _ in remaining] == remaining


def take_all(memory: MemoryQueue[Any]) -> list[Any]:
    messages = []
    while True:
        try:
            messages.append(memory.get_nowait())
        except queue.Empty:
            return messages


# --- The asyncio twin ---


def test_every_method_of_the_asyncio_queue_exists() -> None:
    names = {name for name in dir(asyncio.Queue()) if not name.startswith("_")} - {"shutdown"}

    assert names == {
        "empty", "full", "get", "get_nowait", "join", "maxsize", "put", "put_nowait", "qsize", "task_done",
    }  # fmt: skip
    assert names <= set(dir(warren.aio.memory()))
    assert names - {"maxsize"} <= set(dir(warren.aio.handover()))


def test_tasks_put_and_take_in_order() -> None:
    async def main() -> None:
        memory: AsyncMemoryQueue[int] = AsyncMemoryQueue(2)
        await memory.put(1)
        memory.put_nowait(2)
        with pytest.raises(asyncio.QueueFull):
            memory.put_nowait(3)
        third = asyncio.create_task(memory.put(3))
        await settle()
        assert (third.done(), memory.qsize(), memory.full(), memory.maxsize) == (False, 2, True, 2)

        assert [await memory.get(), await memory.get(), await memory.get()] == [1, 2, 3]
        await third
        assert (memory.empty(), memory.full()) == (True, False)
        with pytest.raises(asyncio.QueueEmpty):
            memory.get_nowait()

    run(main())


def test_a_task_gets_delayed_messages_by_due_time_and_never_early() -> None:
    async def main() -> None:
        memory, started_s = warren.aio.memory(), time.monotonic()
        taker = asyncio.create_task(memory.get())
        await settle()
        await memory.put("late", delay=1000)
        await settle()
        await memory.put("b", delay=2 * SHORT_S)
        await memory.put("a", delay=SHORT_S)

        assert [await taker, await memory.get()] == ["a", "b"]
        assert time.monotonic() - started_s >= 2 * SHORT_S
        assert memory.qsize() == 1

    run(main())


def test_the_clock_decides_in_an_event_loop_too_which_messages_are_due(clock: SimulatedClock) -> None:
    memory = warren.aio.memory(clock=clock)
    memory.put_nowait("a", delay=1)

    with pytest.raises(asyncio.QueueEmpty):
        memory.get_nowait()
    clock.pass_ns(10**9)
    assert memory.get_nowait() == "a"


def test_a_cancelled_get_takes_nothing_and_passes_its_turn_on() -> None:
    async def main() -> None:
        memory = warren.aio.memory()
        cancelled, other = asyncio.create_task(memory.get()), asyncio.create_task(memory.get())
        await settle()
        memory.put_nowait(1)
        cancelled.cancel()

        assert await other == 1
        assert cancelled.cancelled()

    run(main())


def test_a_get_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    async def main() -> None:
        memory = warren.aio.memory()
        cancelled = asyncio.create_task(memory.get())
        await settle()
        cancelled.cancel()
        await settle()

        assert not memory._getters
        memory.put_nowait(1)
        assert memory.get_nowait() == 1

    run(main())


def test_a_cancelled_get_leaves_the_next_due_time_to_another_task() -> None:
    async def main() -> None:
        memory = warren.aio.memory()
        first, second = asyncio.create_task(memory.get()), asyncio.create_task(memory.get())
        await settle()
        memory.put_nowait(1, delay=SHORT_S)
        await settle()
        first.cancel()

        assert await asyncio.wait_for(second, 5) == 1

    run(main())


def test_a_task_that_takes_leaves_the_next_due_time_to_another() -> None:
    async def main() -> None:
        memory = warren.aio.memory()
        waiting_task = asyncio.create_task(memory.get())
        await settle()
        memory.put_nowait(1)
        memory.put_nowait(2, delay=SHORT_S)
        assert memory.get_nowait() == 1

        assert await asyncio.wait_for(waiting_task, 5) == 2

    run(main())


def test_a_cancelled_put_puts_nothing_and_passes_its_turn_on() -> None:
    async def main() -> None:
        memory = warren.aio.memory(1)
        await memory.put(1)
        cancelled, other = asyncio.create_task(memory.put(2)), asyncio.create_task(memory.put(3))
        await settle()
        assert memory.get_nowait() == 1
        cancelled.cancel()
        await other

        assert memory.get_nowait() == 3
        assert memory.empty()

    run(main())


def test_a_cancelled_put_wakes_no_task_out_of_turn() -> None:
    async def main() -> None:
        memory = warren.aio.memory(1)
        await memory.put(0)
        putters = [asyncio.create_task(memory.put(number)) for number in range(1, 5)]
        await settle()
        putters[0].cancel()
        await settle()

        assert [await memory.get() for _ in range(4)] == [0, 2, 3, 4]

    run(main())


def test_join_waits_for_the_tasks_of_a_loop() -> None:
    async def main() -> None:
        memory = warren.aio.memory()
        await memory.join()
        memory.put_nowait(1)
        memory.put_nowait(2)
        joined = asyncio.create_task(memory.join())
        await memory.get()
        memory.task_done()
        await settle()
        assert not joined.done()
        await memory.get()
        memory.task_done()
        await joined
        with pytest.raises(BadInput, match="task_done"):
            memory.task_done()

    run(main())
