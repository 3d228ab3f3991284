"""The durable queue: the methods of `queue.Queue`, in a store that several processes have open."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Empty, Full
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.errors import (
    BadInput,
    BadName,
    NoSuchTopic,
    NotAQueue,
    SettingsDiffer,
    StoreClosed,
    TooLarge,
    UnreadableItem,
)
from warren.message import Message
from warren.queue.store import Store
from warren.storage import Log

PATIENCE_S = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with quick_store(tmp_path, defaults={"durability": "os"}) as store:
        yield store


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_items_come_out_in_the_order_they_went_in(tmp_path: Path, durability: str) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs", durability=durability)
        for number in range(1000):
            queue.put({"number": number, "text": ("a", None, 1.5)})

        assert queue.qsize() == 1000
        assert [queue.get()["number"] for _ in range(1000)] == list(range(1000))
        assert queue.empty()


def test_items_survive_closing_and_taken_items_do_not_return(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs")
        for number in range(5):
            queue.put(number)
        assert [queue.get(), queue.get()] == [0, 1]

    with quick_store(tmp_path) as store:
        queue = store.queue("jobs")
        assert queue.qsize() == 3
        assert [queue.get_nowait() for _ in range(3)] == [2, 3, 4]


def test_an_empty_queue_raises(store: Store) -> None:
    queue = store.queue("jobs")

    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(block=False)
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    assert queue.empty()
    assert not queue.full()


def test_a_waiting_get_receives_the_next_item(store: Store) -> None:
    queue, items = store.queue("jobs"), []
    waiter = threading.Thread(target=lambda: items.append(queue.get(timeout=PATIENCE_S)), daemon=True)
    waiter.start()

    store.queue("jobs").put("here")

    waiter.join(PATIENCE_S)
    assert items == ["here"]


def test_a_full_queue_raises_and_accepts_items_again_when_there_is_room(store: Store) -> None:
    queue = store.queue("jobs", 2)
    queue.put(1)
    queue.put_nowait(2)

    with pytest.raises(Full):
        queue.put_nowait(3)
    with pytest.raises(Full):
        queue.put(3, timeout=0.01)
    assert queue.full()
    putter = threading.Thread(target=lambda: queue.put(3, timeout=PATIENCE_S), daemon=True)
    putter.start()
    assert queue.get() == 1
    putter.join(PATIENCE_S)
    assert [queue.get(), queue.get()] == [2, 3]


def test_a_wait_ends_by_the_clock_of_the_store(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        queue = store.queue("jobs", 1)
        queue.put(1)

        with pytest.raises(Full):
            queue.put(2, timeout=60.0)

        assert clock.steady_s() >= 60.0


def test_items_that_others_took_are_skipped_without_reading_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = Log.read

    def noted_read(log: Log, number: int, **how: Any) -> list[Message]:
        reads.append(number)
        return read(log, number, **how)

    monkeypatch.setattr(Log, "read", noted_read)
    with quick_store(tmp_path, defaults={"durability": "os"}) as one, quick_store(tmp_path) as two:
        first, second = one.queue("jobs"), two.queue("jobs")
        for item in range(60):
            first.put(item)

        items = [(first, second, second)[turn % 3].get() for turn in range(60)]

        assert items == list(range(60))
        assert len(reads) == 2


def test_join_returns_when_every_task_is_done(store: Store) -> None:
    queue = store.queue("jobs")
    for number in range(3):
        queue.put(number)
    for _ in range(3):
        queue.get()
    queue.task_done()
    queue.task_done()
    assert not queue.join(timeout=0.01)

    queue.task_done()

    assert queue.join()
    with pytest.raises(ValueError, match="more often"):
        queue.task_done()


def test_another_codec_for_items_can_be_set(store: Store) -> None:
    class Words:
        def dumps(self, item: list[str], /) -> bytes:
            return " ".join(item).encode()

        def loads(self, body: bytes, /) -> list[str]:
            return body.decode().split()

    queue = store.queue("jobs", codec=Words())

    queue.put(["two", "words"])

    assert store.topic("jobs").last(1)[0].body == b"two words"
    assert queue.get() == ["two", "words"]


def test_an_item_that_cannot_be_stored_changes_nothing(store: Store) -> None:
    queue, raw = store.queue("jobs"), store.queue("jobs", codec="bytes")

    with pytest.raises(BadInput, match="an item of type lock cannot be written as JSON"):
        queue.put(threading.Lock())
    with pytest.raises(BadInput, match="JSON"):
        queue.put(float("nan"))
    with pytest.raises(BadInput, match="must be bytes, not str"):
        raw.put("text")

    assert queue.qsize() == 0


def test_the_space_of_taken_items_is_freed(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs", codec="bytes", block_size=4096, durability="os")
        for _ in range(100):
            queue.put(b"x" * 500)
        for _ in range(90):
            queue.get()

        store.keep()

        assert 80 < store.topic("jobs").partition(0).first <= 90
        assert queue.qsize() == 10
        assert [queue.get() for _ in range(10)] == [b"x" * 500] * 10


def test_items_that_were_retired_are_passed_over(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs", codec="bytes", block_size=4096, durability="os")
        for number in range(100):
            queue.put(number.to_bytes(500, "big"))
        first = store.topic("jobs").partition(0).retire(before=50)

        assert queue.qsize() == 100 - first
        assert int.from_bytes(queue.get(), "big") == first


def test_a_queue_continues_when_its_topic_is_configured(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        queue = store.queue("jobs")
        queue.put(1)
        queue.put(2)
        assert queue.get() == 1

        store.topic("jobs").configure(durability="os")

        queue.put(3)
        assert (queue.qsize(), queue.get(), queue.get()) == (2, 2, 3)


def test_a_deleted_or_closed_queue_raises(tmp_path: Path) -> None:
    store = quick_store(tmp_path)
    queue = store.queue("jobs", message_size_max=100)
    with pytest.raises(TooLarge):
        queue.put("x" * 200)
    with pytest.raises(TooLarge):
        queue.put("x" * 200, delay=10.0)
    with quick_store(tmp_path) as other:
        other.delete_topic("jobs")
    with pytest.raises(NoSuchTopic):
        queue.put(1)
    store.close()
    with pytest.raises(StoreClosed):
        queue.put(1)
    with pytest.raises(StoreClosed):
        queue.get_nowait()


def test_bad_queues_are_refused(store: Store) -> None:
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
            store.queue("jobs", codec=codec)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="maxsize"):
        store.queue("jobs", "2")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="timeout"):
        store.queue("jobs").get(timeout=-1)


def test_items_are_json_by_default_and_pickle_only_by_name(store: Store) -> None:
    plain, pickled = store.queue("plain"), store.queue("pickled", codec="pickle")

    plain.put({"resize": ["carrot.png", 1.5, None]})
    pickled.put({1, 2})

    assert store.topic("plain").last(1)[0].body == b'{"resize": ["carrot.png", 1.5, null]}'
    assert plain.get() == {"resize": ["carrot.png", 1.5, None]}
    assert pickled.get() == {1, 2}


def test_an_item_that_the_codec_cannot_read_stays_for_one_that_can(store: Store) -> None:
    store.queue("jobs", codec="pickle").put({1, 2})
    queue = store.queue("jobs")

    with pytest.raises(UnreadableItem, match="queue 'jobs' cannot be read") as raised:
        queue.get()

    assert raised.value.body == store.topic("jobs").last(1)[0].body
    assert queue.qsize() == 1
    assert store.queue("jobs", codec="pickle").get() == {1, 2}


def test_a_delayed_item_is_in_the_queue_and_is_got_when_it_is_due(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        queue = store.queue("jobs", 2)
        queue.put("later", delay=5.0)
        queue.put_nowait("now")

        assert queue.full()
        with pytest.raises(Full):
            queue.put_nowait("third", delay=1.0)
        assert queue.get_nowait() == "now"
        queue.task_done()
        with pytest.raises(Empty):
            queue.get_nowait()
        assert not queue.join(timeout=0.0)
        clock.sleep(6.0)
        store.keep()

        assert queue.get_nowait() == "later"
        assert queue.empty()


def test_a_bad_delay_is_refused_and_nothing_is_put(store: Store) -> None:
    queue = store.queue("jobs")

    with pytest.raises(BadInput, match="delay"):
        queue.put(1, delay=-1.0)

    assert queue.qsize() == 0
