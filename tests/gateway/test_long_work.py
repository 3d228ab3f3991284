"""Work over HTTP that takes long: bounded before it begins, done off the event loop, and shared by requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.broker.http import Http, running_http
from tests.support.broker.recorded_calls import recorded
from tests.support.broker.running import PATIENCE_S
from warren.broker.services.status import StatusCache, StoreStatus
from warren.errors import BadInput
from warren.gateway.handlers import groups, messages
from warren.gateway.server import HTTP_ELEMENTS_MAX, HTTP_LOOP_SIZE_MAX, count_elements, read_json

BODY = "x" * 40_000
COUNT = 20


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Http]:
    with running_http(tmp_path / "data") as http:
        yield http


# --- JSON ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


def values_in(value: Any) -> int:
    if isinstance(value, list):
        return 1 + sum(map(values_in, value))
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    return 1


@given(VALUES)
def test_no_value_escapes_the_count(value: Any) -> None:
    # A list has as many commas as elements but one, and a bracket: there is a mark for each value but the outermost.
    assert count_elements(json.dumps(value).encode()) >= values_in(value) - 1


@pytest.mark.parametrize("over", [0, 1])
def test_json_with_more_values_than_the_limit_is_not_read(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"[" + b",".join([b"1"] * (HTTP_ELEMENTS_MAX + over)) + b"]"
    if not over:
        assert len(read_json(data)) == HTTP_ELEMENTS_MAX
        return
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was read"))

    with pytest.raises(BadInput, match=f"more than {HTTP_ELEMENTS_MAX} values"):
        read_json(data)


@pytest.mark.parametrize(
    "text", ["," * 100_000, "[{" * 100_000, '\\",' * 100_000, '"' * 90_000, "\\" * 100_000 + ",[" * 99_999]
)
def test_brackets_within_a_string_do_not_count_as_values(text: str) -> None:
    data = json.dumps({"messages": [{"body": text}]}).encode()

    assert read_json(data) == {"messages": [{"body": text}]}


def test_many_short_strings_are_counted_as_values() -> None:
    data = b"[" + b",".join([b'""'] * (3 * HTTP_ELEMENTS_MAX)) + b"]"

    with pytest.raises(BadInput, match="values"):
        read_json(data)


def test_a_body_of_nothing_but_brackets_is_refused(served: Http) -> None:
    data = b"[" + b",".join([b"[]"] * HTTP_ELEMENTS_MAX) + b"]"
    assert len(data) > HTTP_LOOP_SIZE_MAX

    answer = served.ask("POST", "/v1/topics/orders/messages", data)

    assert answer.problem == (400, "bad_input")


# --- Reads ---


def test_a_read_scans_a_limited_range_and_returns_where_to_continue(
    served: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SCANNED_SIZE_MAX", 2 * len(BODY))
    topic = served.broker.store.topic("orders")
    for number in range(COUNT):
        topic.put(BODY.encode(), tag="last" if number == COUNT - 1 else "other")

    pages, number, matches = 0, 0, list[Any]()
    while number < COUNT and not matches:
        page = served.get(f"/v1/topics/orders/messages?tag=last&number={number}")
        assert page["next"] > number
        pages, number, matches = pages + 1, page["next"], page["messages"]
    waited = served.get(f"/v1/topics/orders/messages?tag=last&wait_s={PATIENCE_S / 2}")

    assert pages > 3
    assert [message["number"] for message in matches] == [COUNT - 1]
    # A waiting request continues automatically.
    assert [message["number"] for message in waited["messages"]] == [COUNT - 1]


def test_a_read_of_all_partitions_continues_in_turns_and_finds_all_by_time(
    served: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SCANNED_SIZE_MAX", 2 * len(BODY))
    looks = recorded(monkeypatch, messages.Merge, "look")
    topic = served.broker.store.topic("orders", 3)
    for number in range(COUNT):
        topic.put(BODY.encode(), tag="wanted" if number % 7 == 0 else "other", partition=number % 3)

    first = served.get("/v1/topics/orders/messages?tag=wanted")["messages"]
    two = served.get("/v1/topics/orders/messages?tag=wanted&limit=2")["messages"]
    every = served.get("/v1/topics/orders/messages?limit=1000")["messages"]

    assert [(each["partition"], each["number"]) for each in first] == [(0, 0), (1, 2), (2, 4)]
    assert two == first[:2]
    assert len(every) == COUNT
    assert [each["time"] for each in every] == sorted(each["time"] for each in every)
    assert looks.count(True) == 3
    assert looks.count(False) > 6


def test_the_latest_messages_are_read_back_partition_by_partition(
    served: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = recorded(monkeypatch, messages, "_read_back")
    topic = served.broker.store.topic("orders", 3)
    for number in range(COUNT):
        topic.put(b"%d" % number, partition=number % 3)

    latest = served.get("/v1/topics/orders/messages?backwards=true&limit=4")["messages"]

    assert [each["body"] for each in latest] == ["19", "18", "17", "16"]
    assert [{message.partition for message in page.messages} for page in looks] == [{0}, {1}, {2}]


@pytest.mark.parametrize("wait_s", [0, PATIENCE_S / 2])
def test_a_take_continues_in_turns_until_it_finds_a_far_match(
    served: Http, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    monkeypatch.setattr(groups, "SCANNED_SIZE_MAX", 2 * len(BODY))
    looks, path = recorded(monkeypatch, groups, "_take"), "/v1/topics/orders/groups/work/take"
    topic = served.broker.store.topic("orders")
    topic.group("work", mode="queue", tag="last").close()
    for number in range(COUNT):
        topic.put(BODY.encode(), tag="last" if number == COUNT - 1 else "other")

    matches = served.ask("POST", path, {"wait_s": wait_s}).document["messages"]
    nothing = served.ask("POST", path, {}).document["messages"]

    assert [each["number"] for each in matches] == [COUNT - 1]
    assert nothing == []
    assert len(looks) > 5


def test_a_read_backwards_scans_a_limited_range(served: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "HTTP_SCANNED_SIZE_MAX", 2 * len(BODY))
    topic = served.broker.store.topic("orders")
    for number in range(COUNT):
        topic.put(BODY.encode(), tag="first" if number == 0 else "other")

    page = served.get("/v1/topics/orders/messages?tag=first&backwards=true")

    assert page["messages"] == []
    assert page["next"] == COUNT - 3


# --- How all stand ---


class SlowBroker:
    """A broker whose reads end when the test says so."""

    def __init__(self) -> None:
        self.looks: list[asyncio.Future[StoreStatus]] = []
        self.store = None
        self.tasks = self

    def create_task(self, work: Any) -> None:
        self.task = asyncio.get_running_loop().create_task(work)

    async def in_thread(self, work: Any, store: Any) -> StoreStatus:
        look: asyncio.Future[StoreStatus] = asyncio.get_running_loop().create_future()
        self.looks.append(look)
        return await look


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_requests_that_come_during_a_poll_share_the_next_one() -> None:
    async def main() -> None:
        broker: Any = SlowBroker()
        standings = StatusCache(broker.store, broker.in_thread, broker.tasks)
        early = asyncio.create_task(standings.look_now())
        await turns()
        late = [asyncio.create_task(standings.look_now()) for _ in range(10)]
        await turns()

        assert len(broker.looks) == 1
        first, second = StoreStatus([], []), StoreStatus([], [])
        broker.looks[0].set_result(first)
        await turns()
        # A read that began before they came is not for them.
        assert early.result() is first
        assert not any(task.done() for task in late)
        assert len(broker.looks) == 2
        broker.looks[1].set_result(second)
        await turns()

        assert all(task.result() is second for task in late)
        assert await standings.look() is second

    asyncio.run(main())


def test_a_failed_poll_is_reported_and_the_next_one_runs() -> None:
    async def main() -> None:
        broker: Any = SlowBroker()
        standings = StatusCache(broker.store, broker.in_thread, broker.tasks)
        failing = asyncio.create_task(standings.look())
        await turns()
        broker.looks[0].set_exception(OSError("no"))
        await turns()
        with pytest.raises(OSError, match="no"):
            await failing

        again = asyncio.create_task(standings.look())
        await turns()
        status = StoreStatus([], [])
        broker.looks[1].set_result(status)

        assert await again is status

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/groups", "/v1/statistics", "/metrics", "/"])
def test_lists_of_all_topics_are_built_outside_the_event_loop(
    served: Http, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    served.broker.store.topic("orders")
    asides: list[str] = []
    aside = served.broker.aside

    async def recording(work: Any, *arguments: Any, **named: Any) -> Any:
        def watched() -> Any:
            asides.append(threading.current_thread().name.split("_")[0])
            return work(*arguments, **named)

        return await aside(watched)

    monkeypatch.setattr(served.broker, "aside", recording)

    assert served.ask("GET", path).status == 200
    assert asides == ["warren-aside"]


def test_the_longest_pause_of_the_event_loop_is_reported(served: Http) -> None:
    served.broker.pauses.note(0.25)

    assert served.get("/v1/statistics")["loop"]["longest_pause_s"] >= 0.25
    text = served.ask("GET", "/metrics").data.decode()
    assert "warren_event_loop_pause_seconds_bucket" in text
    assert "warren_event_loop_longest_pause_seconds" in text
