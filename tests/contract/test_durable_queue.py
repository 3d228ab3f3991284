"""The durable queue: the same on every kind of store. With asyncio its methods are those of `asyncio.Queue`."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Full
from typing import Any

import pytest

from tests.contract.conftest import SYNCHRONOUS, Opener
from tests.support.patience import WAIT_S
from warren.errors import BadInput, BadName, NoSuchTopic, NotAQueue, SettingsDiffer, StoreClosed, TooLarge

EMPTY = Empty, asyncio.QueueEmpty
FULL = Full, asyncio.QueueFull
SHORT_S = 0.01

with_timeouts = pytest.mark.parametrize("opener", SYNCHRONOUS, indirect=True)
"""`asyncio.Queue` has no timeouts: a task that waits can be cancelled."""


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_items_come_out_in_the_order_they_went_in(store: Any, durability: str) -> None:
    count = 200
    queue = store.queue("jobs", durability=durability)
    for number in range(count):
        queue.put({"number": number, "text": ("a", None, 1.5)})

    assert queue.qsize() == count
    assert [queue.get()["number"] for _ in range(count)] == list(range(count))
    assert queue.empty()


def test_items_survive_closing_and_taken_items_do_not_return(opener: Opener) -> None:
    store: Any
    with opener() as store:
        queue = store.queue("jobs")
        for number in range(5):
            queue.put(number)
        assert [queue.get(), queue.get()] == [0, 1]

    with opener() as store:
        queue = store.queue("jobs")
        assert queue.qsize() == 3
        assert [queue.get_nowait() for _ in range(3)] == [2, 3, 4]


def test_an_empty_queue_raises(store: Any) -> None:
    queue = store.queue("jobs")

    with pytest.raises(EMPTY):
        queue.get_nowait()
    assert queue.empty()
    assert not queue.full()


@with_timeouts
def test_a_get_from_an_empty_queue_times_out(store: Any) -> None:
    queue = store.queue("jobs")

    with pytest.raises(Empty):
        queue.get(block=False)
    with pytest.raises(Empty):
        queue.get(timeout=SHORT_S)
    with pytest.raises(BadInput, match="timeout"):
        queue.get(timeout=-1)


def test_a_waiting_get_receives_the_next_item(store: Any) -> None:
    queue = store.queue("jobs")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.get)
        store.queue("jobs").put("here")

        assert waiting.result(WAIT_S) == "here"


def test_a_full_queue_raises_and_accepts_items_again_when_there_is_room(store: Any) -> None:
    queue = store.queue("jobs", 2)
    queue.put(1)
    queue.put_nowait(2)

    with pytest.raises(FULL):
        queue.put_nowait(3)
    assert queue.full()
    with ThreadPoolExecutor(1) as pool:
        putting = pool.submit(queue.put, 3)
        assert queue.get() == 1
        putting.result(WAIT_S)
    assert [queue.get(), queue.get()] == [2, 3]


@with_timeouts
def test_a_put_to_a_full_queue_times_out(store: Any) -> None:
    queue = store.queue("jobs", 1)
    queue.put(1)

    with pytest.raises(Full):
        queue.put(2, timeout=SHORT_S)
    assert queue.qsize() == 1


def test_join_returns_when_every_task_is_done(store: Any) -> None:
    queue = store.queue("jobs")
    for number in range(3):
        queue.put(number)
    for _ in range(3):
        queue.get()
    queue.task_done()
    queue.task_done()
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(queue.join)
        with pytest.raises(TimeoutError):
            joining.result(SHORT_S)

        queue.task_done()
        joining.result(WAIT_S)

    with pytest.raises(ValueError, match="more often"):
        queue.task_done()


@with_timeouts
def test_a_join_times_out(store: Any) -> None:
    queue = store.queue("jobs")
    queue.put(1)

    assert not queue.join(timeout=SHORT_S)
    queue.get()
    queue.task_done()
    assert queue.join()


def test_another_codec_for_items_can_be_set(store: Any) -> None:
    class Words:
        def dumps(self, item: list[str], /) -> bytes:
            return " ".join(item).encode()

        def loads(self, body: bytes, /) -> list[str]:
            return body.decode().split()

    queue = store.queue("jobs", codec=Words())

    queue.put(["two", "words"])

    assert store.topic("jobs").last(1)[0].body == b"two words"
    assert queue.get() == ["two", "words"]


def test_an_item_that_cannot_be_stored_changes_nothing(store: Any) -> None:
    queue, raw = store.queue("jobs"), store.queue("jobs", codec="bytes")

    with pytest.raises(BadInput, match="an item of type lock cannot be written as JSON"):
        queue.put(threading.Lock())
    with pytest.raises(BadInput, match="JSON"):
        queue.put(float("nan"))
    with pytest.raises(BadInput, match="must be bytes, not str"):
        raw.put("text")
    with pytest.raises(BadInput, match="delay"):
        queue.put(1, delay=-1.0)

    assert queue.qsize() == 0


def test_a_queue_continues_after_its_topic_is_configured(store: Any) -> None:
    queue = store.queue("jobs")
    queue.put(1)
    queue.put(2)
    assert queue.get() == 1

    store.topic("jobs").configure(durability="commit")

    queue.put(3)
    assert (queue.qsize(), queue.get(), queue.get()) == (2, 2, 3)


def test_a_deleted_or_closed_queue_raises(opener: Opener) -> None:
    store: Any
    with opener() as store:
        queue = store.queue("jobs", message_size_max=100)
        with pytest.raises(TooLarge):
            queue.put("x" * 200)
        with pytest.raises(TooLarge):
            queue.put("x" * 200, delay=10.0)
        with opener() as other:
            other.delete_topic("jobs")
        with pytest.raises(NoSuchTopic):
            queue.put(1)
        store.close()
        with pytest.raises(StoreClosed):
            queue.put(1)
        with pytest.raises(StoreClosed):
            queue.get_nowait()


def test_bad_queues_are_refused(store: Any) -> None:
    store.topic("many", partitions=2)

    with pytest.raises(BadName):
        store.queue("a/b")
    with pytest.raises(NotAQueue, match="topic 'many' is not a queue"):
        store.queue("many")
    store.queue("grown")
    store.configure_topic("grown", {"partitions": 2})
    with pytest.raises(SettingsDiffer, match="use another name"):
        store.queue("grown")
    with pytest.raises(BadInput, match="expected 1 for a queue"):
        store.queue("wide", partitions=2)
    assert not store.has_topic("wide")
    for codec in ("yaml", None, object()):
        with pytest.raises(BadInput, match="codec"):
            store.queue("jobs", codec=codec)
    with pytest.raises(BadInput, match="maxsize"):
        store.queue("jobs", "2")


def test_items_are_json_by_default_and_pickle_only_by_name(store: Any) -> None:
    plain, pickled = store.queue("plain"), store.queue("pickled", codec="pickle")

    plain.put({"resize": ["carrot.png", 1.5, None]})
    pickled.put({1, 2})

    assert store.topic("plain").last(1)[0].body == b'{"resize": ["carrot.png", 1.5, null]}'
    assert plain.get() == {"resize": ["carrot.png", 1.5, None]}
    assert pickled.get() == {1, 2}
