"""Background tasks of a broker: one that fails is logged, and one that ends before it began leaves nothing behind."""

from __future__ import annotations

import asyncio
import inspect
import logging

import pytest

from tests.support.patience import run
from warren.broker.net.tasks import BackgroundTasks


def test_a_task_that_fails_is_logged_and_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def go_on() -> int:
        await asyncio.sleep(0)
        return 1

    async def work() -> None:
        async with BackgroundTasks() as tasks:
            tasks.create_task(fail())
            other = tasks.create_task(go_on())
        assert other.result() == 1

    with caplog.at_level(logging.ERROR, "warren.broker"):
        run(work())

    assert [record.getMessage().endswith("failed") for record in caplog.records] == [True]


def test_the_work_of_a_task_that_is_cancelled_before_its_first_step_is_closed() -> None:
    async def serve() -> None:
        raise AssertionError("it never begins")

    async def work() -> None:
        coroutine = serve()
        async with BackgroundTasks() as tasks:
            tasks.create_task(coroutine).cancel()
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED

    run(work())
