"""FetchReply: the answer to a fetch of a slave, whether the master gives it immediately or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from warren.broker.cluster.requests import FetchReply
from warren.broker.net.request import Answer
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.protocol.native_messages import FetchShardResponse
from warren.protocol.schema_codec import read_response
from warren.replication.changes import CommittedEnds, Item, RemovedLog
from warren.replication.codec import master_answer
from warren.replication.messages import LinkId, MasterAnswer, ShardFetched

LINK = LinkId("nonce", 1)
SHORT: list[Item] = [CommittedEnds({"log": 1})]
LONG: list[Item] = [RemovedLog(f"log {number}") for number in range(LOOP_ROWS_AT_ONCE + 1)]


class Broker:
    """Encodes aside immediately, and counts how often."""

    def __init__(self, tasks: Any, *, fails: bool = False) -> None:
        self.tasks, self._fails, self.aside_count = tasks, fails, 0

    async def aside(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        self.aside_count += 1
        if self._fails:
            raise MemoryError
        return work(*arguments)


def reply_of(broker: Any) -> FetchReply:
    call: Any = SimpleNamespace(broker=broker)
    return FetchReply(call)


def fetched(items: list[Item]) -> ShardFetched:
    return ShardFetched(epoch=1, link=LINK, number=2, barrier=3, items=items)


def read(answer: Answer | BaseException) -> MasterAnswer:
    assert isinstance(answer, list)
    return master_answer(read_response(FetchShardResponse, 0, b"".join(answer)))


def test_an_immediate_answer_is_kept() -> None:
    reply = reply_of(None)

    reply.answered(fetched(SHORT))

    assert read(reply.early) == fetched(SHORT)


def test_an_answer_that_comes_later_goes_to_the_connection() -> None:
    reply, outcomes = reply_of(None), list[Any]()
    reply.on_done = outcomes.append

    reply.answered(fetched(SHORT))

    assert [read(outcome) for outcome in outcomes] == [fetched(SHORT)]
    assert reply.early is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_answer_is_encoded_on_a_thread(fails: bool) -> None:
    async def scenario() -> tuple[list[Any], int]:
        outcomes = list[Any]()
        async with asyncio.TaskGroup() as tasks:
            broker = Broker(tasks, fails=fails)
            reply = reply_of(broker)
            reply.on_done = outcomes.append
            reply.answered(fetched(LONG))
        return outcomes, broker.aside_count

    outcomes, aside_count = asyncio.run(scenario())

    assert aside_count == 1
    if fails:
        assert [type(outcome) for outcome in outcomes] == [MemoryError]
    else:
        assert [read(outcome) for outcome in outcomes] == [fetched(LONG)]
