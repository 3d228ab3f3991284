"""The topic of a durable queue: only the queue puts into it, by any API."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import warren
from tests.support.kafka_batches import batch_of
from warren.errors import BadInput, CorruptSettings, IsAQueue, NotAQueue, UnreadableItem
from warren.message import NO_CORR_OFFSET, Message
from warren.queue.state import paths


@pytest.fixture
def store(tmp_path: Path) -> Iterator[warren.Store]:
    with warren.open(tmp_path / "data", keeps=False, durability="os") as store:
        store.queue("jobs")
        yield store


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.write_text, (self._path, "caught")


def in_transaction(store: warren.Store, put: Callable[[Any], None]) -> None:
    with store.transaction() as transaction:
        put(transaction)


DOORS: dict[str, Callable[[warren.Store], object]] = {
    "put": lambda store: store.topic("jobs").put(b"x"),
    "put of nothing": lambda store: store.topic("jobs").put(b""),
    "put later": lambda store: store.topic("jobs").put(b"x", delay=5.0),
    "put_many": lambda store: store.topic("jobs").put_many([b"x"]),
    "put_many of none": lambda store: store.topic("jobs").put_many([]),
    "put_many later": lambda store: store.topic("jobs").put_many([b"x"], delay=5.0),
    "request": lambda store: store.topic("jobs").request(b"x", timeout=0.1),
    "batching": lambda store: store.batching().put("jobs", b"x").result(10),
    "producer": lambda store: store.producer("p").put("jobs", b"x"),
    "transaction": lambda store: in_transaction(store, lambda tx: tx.put("jobs", b"x")),
    "transaction, later": lambda store: in_transaction(store, lambda tx: tx.put("jobs", b"x", delay=1.0)),
    "transaction, many": lambda store: in_transaction(store, lambda tx: tx.put_many("jobs", [b"x"])),
    "transaction, columns": lambda store: in_transaction(
        store, lambda tx: tx.put_columns("jobs", pyarrow.RecordBatch.from_pydict({"body": [b"x"]}))
    ),
    "transaction, Kafka": lambda store: in_transaction(
        store, lambda tx: tx.put_kafka(store.topic("jobs"), batch_of([(None, b"x", [])]), partition=0)
    ),
    "redrive": lambda store: store.topic("jobs").group("g", mode="queue").redrive(),
    "redrive of one": lambda store: store.topic("jobs").group("g", mode="queue").redrive(numbers={0: [0]}),
    "dead-letter setting": lambda store: store.topic("orders", dead_letter="jobs"),
    "dead-letter change": lambda store: store.topic("others").configure(dead_letter="jobs"),
}


@pytest.mark.parametrize("door", DOORS)
def test_nothing_but_the_queue_puts_into_its_topic(store: warren.Store, door: str) -> None:
    with pytest.raises(IsAQueue, match=r"topic 'jobs' is a queue: only store\.queue\('jobs'\) puts into it"):
        DOORS[door](store)

    topic = store.topic("jobs")
    assert (topic.partition(0).end, list(topic.scheduled()), store.queue("jobs").qsize()) == (0, [], 0)


def test_a_reply_cannot_be_sent_to_a_queue(store: warren.Store) -> None:
    store.topic("orders").put(b"ask", reply_to="jobs")
    (message,) = store.topic("orders").last()

    with pytest.raises(IsAQueue):
        message.reply(b"x")


def test_a_dead_letter_is_not_put_into_a_queue_and_its_message_is_not_lost(store: warren.Store) -> None:
    orders = store.topic("orders", dead_letter="graves")
    orders.put(b"order")
    store.queue("graves")
    group = orders.group("workers", mode="queue", attempts_max=1)
    (message,) = group.take(1)

    with pytest.raises(IsAQueue, match="graves"):
        group.reject(message, "no")

    group.ack(message)
    assert store.queue("graves").empty()


def test_a_letter_that_names_a_queue_as_its_source_is_not_put_back(store: warren.Store) -> None:
    headers = {"topic": b"jobs", "group": b"g", "partition": b"0", "number": b"0", "attempts": b"1", "reason": b""}
    store.topic("jobs.dead").put(b"x", headers={f"warren.dead-{name}": value for name, value in headers.items()})

    with pytest.raises(IsAQueue):
        store.topic("jobs").group("g", mode="queue").redrive()

    assert store.queue("jobs").empty()


def test_messages_prepared_for_a_topic_do_not_go_into_a_queue_of_its_name(store: warren.Store) -> None:
    transaction = store.transaction(id="sleeper")
    transaction.put("later", b"x")
    transaction.prepare()
    store.delete_topic("later")
    queue = store.queue("later")

    store.commit("sleeper")

    assert queue.empty()


def test_an_ordinary_topic_is_not_opened_as_a_queue_nor_a_queue_made_of_one(store: warren.Store) -> None:
    store.topic("orders").put(b"1")

    with pytest.raises(NotAQueue, match="topic 'orders' is not a queue"):
        store.queue("orders")

    assert isinstance(store.topic("orders").put(b"2").number, int)


def test_another_process_and_a_changed_setting_leave_a_queue_a_queue(store: warren.Store, tmp_path: Path) -> None:
    store.configure_topic("jobs", {"message_size_max": 100})

    with pytest.raises(IsAQueue):
        store.topic("jobs").put(b"x")
    with warren.open(tmp_path / "data", keeps=False) as other:
        other.queue("jobs").put("item")
        with pytest.raises(IsAQueue):
            other.topic("jobs").put(b"x")
    path = paths.topic_file(paths.topic_directory(store.path, "jobs"))
    assert json.loads(Path(path).read_text())["kind"] == "queue"


def test_a_kind_of_a_later_release_is_not_treated_as_a_topic(store: warren.Store) -> None:
    path = Path(paths.topic_file(paths.topic_directory(store.path, "jobs")))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "shelf"}))

    with (
        warren.open(store.path, keeps=False) as other,
        pytest.raises(CorruptSettings, match="not support the kind 'shelf'"),
    ):
        other.topic("jobs")


def test_a_queue_topic_can_be_read(store: warren.Store) -> None:
    store.queue("jobs").put({"a": 1})

    (message,) = store.topic("jobs").last()

    assert isinstance(message, Message)
    assert (message.body, message.corr_offset) == (b'{"a": 1}', NO_CORR_OFFSET)


def test_a_pickle_in_the_log_of_a_queue_is_not_run_by_its_worker(store: warren.Store, tmp_path: Path) -> None:
    caught = tmp_path / "caught"
    # Past every check, as a process that writes the files directly could do it.
    store.topic("jobs").partition(0).append(pickle.dumps(Trap(caught)))

    with pytest.raises(UnreadableItem):
        store.queue("jobs").get_nowait()
    with pytest.raises(BadInput):
        store.queue("jobs").put(Trap(caught))

    assert not caught.exists()


def test_an_item_that_is_given_back_is_the_oldest_again_or_the_last_one(store: warren.Store) -> None:
    queue = store.queue("jobs", codec="bytes")
    for item in (b"a", b"b", b"c"):
        queue.put(item)

    first = queue.take()
    assert first == (b"a", 0)
    assert queue.give_back(0) == 0
    assert queue.take() == first
    assert queue.take() == (b"b", 1)
    assert queue.give_back(0) == 3
    queue.task_done()

    assert [queue.get_nowait() for _ in range(2)] == [b"c", b"a"]
