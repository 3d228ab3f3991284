"""DiskWork: what of a slave's rounds is done in place, what gets the thread, and that nothing overtakes anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.broker.cluster.disk_work import ENDS_MAX, IN_PLACE_S_MAX, IN_PLACE_SIZE_MAX, THREAD_ROUNDS, DiskWork
from warren.replication.changes import CommittedEnds, FilePatch, Item, LogRange, NewLog

LOG = "topics/orders/0@1"
ENDS = CommittedEnds({LOG: 5})


def records(size: int = 100, position: int = 4096) -> LogRange:
    return LogRange(LOG, 0, position, 5, 6, size, bytes(size))


class Disk:
    """Notes on which thread it was called, and with what."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self.calls: list[str] = []
        self.takes_s = 0.0
        self.may_go_on = threading.Event()

    def apply(self, items: Sequence[Item]) -> None:
        self._clock.sleep(self.takes_s)
        self.calls.append("in place" if threading.current_thread() is threading.main_thread() else "thread")

    def show(self, ends: object) -> None:
        self.apply(())

    def wait(self) -> None:
        self.may_go_on.wait(10)
        self.calls.append("waited")


def with_disk(scenario: Callable[[DiskWork, Disk], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = SimulatedClock()
        work, disk = DiskWork(clock), Disk(clock)
        try:
            await scenario(work, disk)
        finally:
            disk.may_go_on.set()
            work.close()

    asyncio.run(run())


@pytest.mark.parametrize("items", [(records(),), (records(), records(), ENDS), (ENDS,)])
def test_a_small_round_is_done_in_place(items: Sequence[Item]) -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        done = work.apply(disk.apply, items, may_wait=True)

        assert done.done()
        assert disk.calls == ["in place"]

    with_disk(scenario)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param((records(IN_PLACE_SIZE_MAX + 1),), id="large"),
        pytest.param((records(IN_PLACE_SIZE_MAX), records(1)), id="large together"),
        pytest.param((records(position=0),), id="begins a block"),
        pytest.param((LogRange(LOG, 0, 0, 6, 6, 0),), id="asks for a sync"),
        pytest.param((FilePatch("store.json", 0, b"1"),), id="a file"),
        pytest.param((NewLog(LOG, 2),), id="a log"),
    ],
)
def test_any_other_round_gets_the_thread(items: Sequence[Item]) -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        await work.apply(disk.apply, items, may_wait=True)

        assert disk.calls == ["thread"]

    with_disk(scenario)


def test_a_round_gets_the_thread_if_the_event_loop_may_not_wait() -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        await work.apply(disk.apply, (records(),), may_wait=False)

        assert disk.calls == ["thread"]

    with_disk(scenario)


def test_a_round_does_not_overtake_what_the_thread_has_to_do() -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        waiting = work.call(disk.wait)
        applied = work.apply(disk.apply, (records(),), may_wait=True)
        second = work.show(disk.show, {LOG: 5})
        disk.may_go_on.set()
        await asyncio.gather(waiting, applied, second)

        assert disk.calls == ["waited", "thread", "thread"]

    with_disk(scenario)


def test_a_round_does_not_overtake_work_whose_result_is_no_longer_awaited() -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        work.call(disk.wait).cancel()
        work.call(disk.wait).cancel()
        applied = work.apply(disk.apply, (records(),), may_wait=True)
        disk.may_go_on.set()
        await applied

        assert disk.calls[-1] == "thread"

    with_disk(scenario)


def test_after_a_slow_round_the_thread_has_the_next_ones() -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        disk.takes_s = IN_PLACE_S_MAX * 2
        await work.apply(disk.apply, (records(),), may_wait=True)
        disk.takes_s = 0.0
        for _ in range(THREAD_ROUNDS + 1):
            await work.apply(disk.apply, (records(),), may_wait=True)
            while not work.is_idle():
                await asyncio.sleep(0)

        assert disk.calls == ["in place", *["thread"] * THREAD_ROUNDS, "in place"]

    with_disk(scenario)


def test_an_error_comes_with_the_future() -> None:
    def fail(items: Sequence[Item]) -> None:
        raise ValueError("damaged")

    async def scenario(work: DiskWork, disk: Disk) -> None:
        for may_wait in (True, False):
            with pytest.raises(ValueError, match="damaged"):
                await work.apply(fail, (records(),), may_wait=may_wait)

    with_disk(scenario)


def test_ends_are_shown_in_place_if_they_are_few() -> None:
    async def scenario(work: DiskWork, disk: Disk) -> None:
        await work.show(disk.show, {LOG: 5})
        await work.show(disk.show, dict.fromkeys(map(str, range(ENDS_MAX + 1)), 5))

        assert disk.calls == ["in place", "thread"]

    with_disk(scenario)
