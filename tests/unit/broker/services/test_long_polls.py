"""Long polls: one loop for every request that waits for messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from warren.broker.services.long_polls import LongPolls, PollResult
from warren.storage import Log

LONG_S: Final = 60.0
SHORT_S: Final = 0.001


def polled(work: Callable[[LongPolls], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            polls = LongPolls(tasks)
            try:
                await asyncio.wait_for(work(polls), LONG_S / 2)
            finally:
                polls.stop()

    asyncio.run(main())


async def parked(polls: LongPolls) -> None:
    while not polls.parked_count:
        await asyncio.sleep(0)


def later_s(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


class Attempts:
    """Records the reason of each attempt, and is done with the last of `results`."""

    def __init__(self, *results: PollResult[str]) -> None:
        self.reasons: list[bool] = []
        self._results = results

    async def __call__(self, is_rung: bool) -> PollResult[str]:
        self.reasons.append(is_rung)
        return self._results[min(len(self.reasons), len(self._results)) - 1]


EMPTY: Final = PollResult("empty", is_done=False)
DONE: Final = PollResult("done", is_done=True)


def test_an_attempt_after_a_poll_learns_that_only_time_has_passed() -> None:
    async def work(polls: LongPolls) -> None:
        attempts = Attempts(EMPTY, DONE)

        assert await polls.until(attempts, lambda: (), later_s(LONG_S), lambda: SHORT_S) == "done"

        assert attempts.reasons == [True, False]

    polled(work)


def test_a_log_that_grows_wakes_the_request_immediately(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "log")) as log:

        async def work(polls: LongPolls) -> None:
            attempts = Attempts(EMPTY, DONE)
            waiting = asyncio.create_task(polls.until(attempts, lambda: (log,), later_s(LONG_S)))
            await parked(polls)

            polls.ring(log)

            assert await waiting == "done"
            assert attempts.reasons == [True, True]

        polled(work)


def test_an_attempt_with_more_to_scan_is_repeated_without_a_wait() -> None:
    async def work(polls: LongPolls) -> None:
        attempts = Attempts(PollResult("part", is_done=False, is_more=True), DONE)

        assert await polls.until(attempts, lambda: (), later_s(LONG_S)) == "done"

        assert attempts.reasons == [True, True]

    polled(work)


def test_when_the_time_is_over_the_last_result_is_the_answer() -> None:
    async def work(polls: LongPolls) -> None:
        attempts = Attempts(EMPTY)

        assert await polls.until(attempts, lambda: (), later_s(SHORT_S)) == "empty"

    polled(work)


def test_a_right_that_was_removed_during_the_wait_ends_the_long_poll() -> None:
    def denied() -> None:
        raise PermissionError

    async def work(polls: LongPolls) -> None:
        attempts = Attempts(EMPTY)

        with pytest.raises(PermissionError):
            await polls.until(attempts, lambda: (), later_s(LONG_S), lambda: SHORT_S, resumes=denied)

        assert attempts.reasons == [True]

    polled(work)


def test_the_caller_can_end_the_sleep_itself() -> None:
    async def work(polls: LongPolls) -> None:
        attempts = Attempts(EMPTY, DONE)

        def set_soon(woken: asyncio.Future[bool]) -> None:
            asyncio.get_running_loop().call_soon(woken.set_result, True)

        assert await polls.until(attempts, lambda: (), later_s(LONG_S), waits=set_soon) == "done"

    polled(work)


def test_a_broker_that_stops_ends_every_long_poll(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "log")) as log:

        async def work(polls: LongPolls) -> None:
            waiting = asyncio.create_task(polls.until(Attempts(EMPTY), lambda: (log,), later_s(LONG_S)))
            await parked(polls)

            polls.stop()

            assert await waiting == "empty"
            assert polls.parked_count == 0
            with suppress(asyncio.CancelledError):
                await polls.wait((log,), LONG_S)

        polled(work)
