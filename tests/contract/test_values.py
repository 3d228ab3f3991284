"""Times, durations and bodies that callers pass: the same embedded, behind a broker, and with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

import warren
from tests.support.broker.running import running_broker
from tests.support.patience import WAIT_S, run
from warren.errors import BadInput, NoReply

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
SHORT = timedelta(milliseconds=10)
LONG = timedelta(hours=1)


@pytest.fixture(params=["embedded", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "embedded":
        with warren.open(tmp_path / "data", durability="os") as store:
            yield store
    else:
        with (
            running_broker(tmp_path / "data") as broker,
            warren.connect(broker.address, timeout=timedelta(seconds=WAIT_S), wait=SHORT) as store,
        ):
            yield store


# --- Times ---


NAIVE_TIMES: dict[str, Callable[[Any], object]] = {
    "deliver_at": lambda store: store.topic("t").put(b"x", deliver_at=NAIVE),
    "deliver_at of many": lambda store: store.topic("t").put_many([b"x"], deliver_at=NAIVE),
    "deliver_at in a transaction": lambda store: store.transaction().put("t", b"x", deliver_at=NAIVE),
    "since": lambda store: list(store.topic("t").since(NAIVE)),
    "between": lambda store: list(store.topic("t").between(0, NAIVE)),
    "find_time": lambda store: store.topic("t").partition(0).find_time(NAIVE),
    "scan": lambda store: list(store.topic("t").partition(0).scan(since=NAIVE)),
    "start of a group": lambda store: store.topic("t").group("g", start=NAIVE),
    "start of a broadcast": lambda store: store.topic("t").broadcast(start=NAIVE),
    "seek": lambda store: store.topic("t").group("g").seek(NAIVE),
}


@pytest.mark.parametrize("use", NAIVE_TIMES)
def test_a_datetime_without_a_zone_is_refused_wherever_a_time_is_taken(store: Any, use: str) -> None:
    with pytest.raises(BadInput, match=r"datetime\(2030, 1, 1, 0, 0\) has no zone: add one"):
        NAIVE_TIMES[use](store)

    assert list(store.topic("t").scheduled()) == []


def test_a_datetime_with_a_zone_is_taken(store: Any) -> None:
    topic = store.topic("t")
    parked = topic.put(b"x", deliver_at=datetime(2030, 1, 1, tzinfo=UTC))

    assert parked.due == datetime(2030, 1, 1, tzinfo=UTC)
    assert list(topic.since(datetime.now(UTC))) == []


# --- Durations ---


def test_a_delay_may_be_a_timedelta(store: Any) -> None:
    topic, before = store.topic("t"), datetime.now(UTC)

    handles = [topic.put(b"x", delay=LONG), *topic.put_many([b"y"], delay=LONG)]
    with store.transaction(timeout=LONG, prepared_timeout=LONG) as transaction:
        transaction.put("t", b"z", delay=LONG)

    assert all(before + LONG <= handle.due for handle in handles)
    assert [each.body for each in topic.scheduled()] == [b"x", b"y", b"z"]


@pytest.mark.parametrize("delay", [timedelta(seconds=-1), -1.0, "1", timedelta(days=400_000)])
def test_an_invalid_delay_is_refused(store: Any, delay: Any) -> None:
    with pytest.raises(BadInput):
        store.topic("t").put(b"x", delay=delay)
    with pytest.raises(BadInput):
        store.queue("q").put(1, delay=delay)

    assert list(store.topic("t").scheduled()) == []


def test_waits_leases_and_timeouts_may_be_timedeltas(store: Any) -> None:
    topic = store.topic("t")
    topic.put(b"x")

    group = topic.group("g", mode="queue", lease=LONG, backoff=SHORT, backoff_max=LONG)
    message = group.take(wait=LONG)
    group.extend(message, LONG)
    group.nack(message, delay=timedelta(0))
    group.ack(group.take(1, wait=LONG)[0])

    assert topic.group_settings("g").lease_s == LONG.total_seconds()
    assert group.take(wait=SHORT) is None
    assert [each.body for each in topic.group("s").read(wait=LONG)] == [b"x"]
    assert list(topic.broadcast(wait=SHORT)) == []
    assert topic.partition(0).wait(0, LONG)
    with pytest.raises(NoReply):
        topic.request(b"x", timeout=SHORT)


def test_queues_and_batching_take_timedeltas(store: Any) -> None:
    queue = store.queue("q")
    with pytest.raises(Empty):
        queue.get(timeout=SHORT)
    queue.put(1, timeout=LONG, delay=LONG)
    with store.batching(linger=SHORT) as puts:
        future = puts.put("t", b"x", wait=LONG)

        assert puts.flush(wait=LONG)
        assert future.result(timeout=LONG).number == 0
    assert not queue.join(timeout=SHORT)


def test_queues_of_one_process_take_timedeltas(tmp_path: Path) -> None:
    for queue in (warren.memory(), warren.open_file(tmp_path / "jobs.bunny")):
        queue.put(b"later", timeout=LONG, delay=LONG)
        with pytest.raises(Empty):
            queue.get(timeout=SHORT)
        assert queue.qsize() == 1


# --- Bodies ---


@pytest.mark.parametrize("size_max", [1000, 1 << 26])
@pytest.mark.parametrize("body", [None, 3, "text", [b"x"]])
def test_a_bad_body_is_refused_and_nothing_is_put(store: Any, size_max: int, body: Any) -> None:
    topic = store.topic("t", message_size_max=size_max) if size_max == 1000 else store.topic("t")
    puts: tuple[Callable[[], object], ...] = (
        lambda: topic.put(body),
        lambda: topic.put(body, key=b"k"),
        lambda: topic.put(body, delay=1.0),
        lambda: store.batching(linger=0.0).put("t", body).result(WAIT_S),
        lambda: store.producer("p").put("t", body),
        lambda: store.transaction().put("t", body),
        lambda: store.transaction().put("t", body, delay=1.0),
    )

    for number, put in enumerate(puts):
        with pytest.raises(BadInput, match=rf"bod(y|ies\[0\]): expected bytes, not {type(body).__name__}"):
            put()
        assert topic.partition(0).end == 0, number

    assert list(topic.scheduled()) == []


@pytest.mark.parametrize("body", [None, 3, "text"])
def test_put_many_names_the_wrong_body_and_its_type(store: Any, body: Any) -> None:
    topic, bodies = store.topic("t"), [b"good", b"also", body, b"good"]
    puts: tuple[Callable[[], object], ...] = (
        lambda: topic.put_many(bodies),
        lambda: topic.put_many(bodies, tags=["a"] * 4, keys=[b"k"] * 4),
        lambda: topic.put_many(bodies, delay=1.0),
        lambda: topic.partition(0).append_many(bodies),
        lambda: store.producer("p").put_many("t", bodies),
        lambda: store.transaction().put_many("t", bodies),
        lambda: store.transaction().put_many("t", bodies, tags=["a"] * 4),
    )

    for number, put in enumerate(puts):
        with pytest.raises(BadInput, match=rf"bodies\[2\]: expected bytes, not {type(body).__name__}"):
            put()
        assert topic.partition(0).end == 0, number

    assert list(topic.scheduled()) == []


@pytest.mark.parametrize("bodies", [None, 3, iter([b"x"])])
def test_bodies_that_are_no_sequence_are_refused(store: Any, bodies: Any) -> None:
    with pytest.raises(BadInput, match="bodies: expected a sequence of bytes"):
        store.topic("t").put_many(bodies)
    with pytest.raises(BadInput, match="bodies: expected a sequence"):
        store.transaction().put_many("t", bodies)


def test_a_topic_of_version_1_says_which_body_is_wrong(tmp_path: Path) -> None:
    with (
        warren.open(tmp_path / "data") as store,
        pytest.raises(BadInput, match=r"bodies\[1\]: expected bytes, not str"),
    ):
        store.topic("t", version=1).put_many([b"good", "text"])  # type: ignore[list-item]


def test_a_producer_continues_after_a_wrong_body(store: Any) -> None:
    with store.producer("p") as producer:
        with pytest.raises(BadInput):
            producer.put("t", None)

        assert producer.put("t", b"good").number == 0
        assert producer.sequence == 1


# --- With asyncio ---


def test_asyncio_takes_and_refuses_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with warren.aio.open(tmp_path / "data", durability="os") as store:
            topic = await store.topic("t")
            wrong: Any = None
            with pytest.raises(BadInput, match="body: expected bytes, not NoneType"):
                await topic.put(wrong)
            with pytest.raises(BadInput, match="no zone"):
                await topic.put(b"x", deliver_at=NAIVE)
            await topic.put(b"x", delay=LONG)
            group = await topic.group("g", mode="queue", lease=LONG)
            assert await group.take(wait=SHORT) is None
            with pytest.raises(NoReply):
                await topic.request(b"x", timeout=SHORT)
            async with store.batching(linger=SHORT) as puts:
                await asyncio.wait_for(await puts.put("t", b"y", wait=LONG), WAIT_S)
                with pytest.raises(BadInput):
                    await puts.put("t", wrong)

    run(main())
