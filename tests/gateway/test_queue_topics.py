"""The topic of a durable queue behind a broker: only the queue's own calls put into it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller, numbered_batch
from tests.support.broker.http import Http, running_http
from tests.support.broker.running import PATIENCE_S
from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.client.store import RemoteStore
from warren.errors import IsAQueue, NotAQueue, UnreadableItem
from warren.protocol.native_schemas import NativeKey

LATER = [("warren.deliver-at", b"99999999999999")]


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.write_text, (self._path, "caught")


@pytest.fixture(params=["os", "commit"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Http]:
    with running_http(tmp_path / "data", durability=request.param) as server:
        yield server


@pytest.fixture
def store(served: Http) -> Iterator[RemoteStore]:
    with warren.connect(served.running.address, timeout=PATIENCE_S) as store:
        store.queue("jobs")
        yield store


def is_empty(served: Http) -> bool:
    topic = served.broker.store.topic("jobs")
    return topic.partition(0).end == 0 and not list(topic.scheduled())


def test_a_pickle_that_a_stranger_puts_never_runs_in_a_worker(served: Http, store: RemoteStore, tmp_path: Path) -> None:
    caught = tmp_path / "caught"
    trap = pickle.dumps(Trap(caught))
    message = {"body": {"base64": base64.b64encode(trap).decode()}}

    over_http = served.ask("POST", "/v1/topics/jobs/messages", {"messages": [message]})
    with Caller(served.running) as caller:
        produced = [caller.produce("jobs", batch_of([(None, trap, [])]))[0] for _ in range(4)]
    store.queue("jobs", codec="bytes").put(trap)

    assert over_http.problem == (409, "is_a_queue")
    assert produced == [Code.POLICY_VIOLATION] * 4
    with pytest.raises(UnreadableItem):
        served.broker.store.queue("jobs").get_nowait()
    with pytest.raises(UnreadableItem) as raised:
        store.queue("jobs").get(timeout=PATIENCE_S)
    assert raised.value.body == trap
    assert store.queue("jobs").skip(raised.value)
    with pytest.raises(Empty):
        store.queue("jobs").get_nowait()
    assert not caught.exists()


def test_produce_is_refused_for_every_kind_of_producer(served: Http, store: RemoteStore) -> None:
    with Caller(served.running) as caller:
        _, id, epoch = caller.init()
        _, tx_id, tx_epoch = caller.init("tx")
        who = ("tx", tx_id, tx_epoch)
        caller.add(who, "jobs", 0)
        codes = [
            caller.produce("jobs", numbered_batch((id, epoch), 0, b"x"))[0],
            caller.produce("jobs", batch_of([(None, b"x", LATER)]))[0],
            caller.produce(
                "jobs", numbered_batch((tx_id, tx_epoch), 0, b"x", is_transactional=True), transactional_id="tx"
            )[0],
        ]
        caller.end(who, committed=True)

    assert codes == [Code.POLICY_VIOLATION] * 3
    assert is_empty(served)


def test_a_kafka_client_gets_a_final_error_with_the_reason(served: Http, store: RemoteStore) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    errors: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": served.running.address, "log_level": 0})

    producer.produce("jobs", b"x", on_delivery=lambda error, _: errors.append(error))

    assert producer.flush(PATIENCE_S) == 0
    assert errors[0].code() == Code.POLICY_VIOLATION
    assert not errors[0].retriable()


DOORS: dict[str, Callable[[RemoteStore], object]] = {
    "put": lambda store: store.topic("jobs").put(b"x"),
    "put later": lambda store: store.topic("jobs").put(b"x", delay=5.0),
    "put_many": lambda store: store.topic("jobs").put_many([b"x", b"y"]),
    "batching": lambda store: store.batching().put("jobs", b"x").result(PATIENCE_S),
    "producer": lambda store: store.producer("p").put("jobs", b"x"),
    "transaction": lambda store: store.transaction().put("jobs", b"x"),
    "transaction, later": lambda store: store.transaction().put("jobs", b"x", delay=5.0),
    "redrive": lambda store: store.topic("jobs").group("g", mode="queue").redrive(),
    "dead-letter setting": lambda store: store.topic("orders", dead_letter="jobs"),
}


@pytest.mark.parametrize("door", DOORS)
def test_only_the_calls_of_a_queue_put_into_its_topic(served: Http, store: RemoteStore, door: str) -> None:
    with pytest.raises(IsAQueue, match="topic 'jobs' is a queue"):
        DOORS[door](store)

    assert is_empty(served)


def test_a_put_over_http_into_a_queue_is_refused_with_or_without_a_delay(served: Http, store: RemoteStore) -> None:
    messages = {"messages": [{"body": "x"}]}

    now = served.ask("POST", "/v1/topics/jobs/messages", messages)
    later = served.ask("POST", "/v1/topics/jobs/messages", messages | {"delay_s": 5})

    assert (now.problem, later.problem) == ((409, "is_a_queue"), (409, "is_a_queue"))
    assert is_empty(served)


def test_an_ordinary_topic_is_not_opened_as_a_queue_by_a_client(store: RemoteStore) -> None:
    store.topic("orders")

    with pytest.raises(NotAQueue):
        store.queue("orders").put(1)


@pytest.mark.parametrize("setting", ["codec", "name", "maxsize", "self", "partitions"])
def test_a_setting_that_a_queue_cannot_have_is_refused_and_makes_nothing(served: Http, setting: str) -> None:
    with Caller(served.running) as caller:
        caller.call(NativeKey.OPEN_SESSION, 0, {"session": bytes(range(16)), "software": "test"})
        values = {"handle": 1, "queue": "jobs", "settings": [{"name": setting, "value": "2"}]}
        answer = caller.call(NativeKey.OPEN_QUEUE, 0, values)

    assert answer.error.code == "bad_input"
    assert not served.broker.store.has_topic("jobs")


def test_a_delayed_item_of_a_client_comes_when_it_is_due(store: RemoteStore) -> None:
    jobs = store.queue("jobs")

    jobs.put("later", delay=0.2)
    jobs.put_nowait("now", delay=0.0)

    assert jobs.qsize() >= 1
    assert [jobs.get(timeout=PATIENCE_S), jobs.get(timeout=PATIENCE_S)] == ["now", "later"]
