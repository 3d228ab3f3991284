"""Our own client against a broker: puts and reads, unchanged errors, and puts that are written once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from warren.client.net.connection import Connection
from warren.client.store import RemoteStore
from warren.errors import (
    BadBatch,
    BadInput,
    ConnectionLost,
    NoSuchPartition,
    NoSuchTopic,
    NumberRetired,
    SettingsDiffer,
    StoreClosed,
    TooLarge,
)
from warren.message import Place
from warren.protocol.native_messages import AppendRequest, WireRecord
from warren.protocol.wire_struct import replaced

WAIT_S = 20.0


@pytest.fixture(params=["os", "commit"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", durability=request.param) as running:
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[RemoteStore]:
    with warren.connect(broker.address, timeout=WAIT_S) as connected:
        yield connected


def test_a_put_over_the_network_is_stored_with_all_its_fields(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders", partitions=3)

    receipt = topic.put(b"one", key=b"k", tag="eu.de", headers={"trace": b"1"}, id="id-1", corr_offset=64)
    places = topic.put_many([b"two", b"three", b"four"], keys=[b"a", None, b"k"], tags=["x", "y", "z"])

    here = broker.broker.store.topic("orders")
    message = here.partition(receipt.partition).at(receipt.number)
    assert message is not None
    assert (message.body, message.key, message.tag, message.id) == (b"one", b"k", "eu.de", "id-1")
    assert (dict(message.headers), message.corr_offset) == ({"trace": b"1"}, 64)
    assert (receipt.offset, receipt.timestamp, receipt.topic) == (message.offset, message.timestamp, "orders")
    messages = [here.partition(place.partition).at(place.number) for place in places]
    assert [each and (each.body, each.key, each.tag) for each in messages] == [
        (b"two", b"a", "x"),
        (b"three", None, "y"),
        (b"four", b"k", "z"),
    ]
    assert places[2].partition == receipt.partition


def test_reads_over_the_network_return_the_messages_of_the_log(broker: RunningBroker, store: RemoteStore) -> None:
    here = broker.broker.store.topic("orders")
    log = here.partition(0)
    here.put_many([b"%d" % number for number in range(2000)], tags=["even", "odd"] * 1000)
    middle = log.at(1000)
    assert middle is not None
    here.put_many([b"later"], headers=[{"h": b"v"}], keys=[b"k"])
    remote = store.topic("orders").partition(0)

    assert remote.read(0, limit=5000) == log.read(0, limit=5000)
    assert remote.read(10, limit=7, tag="odd") == log.read(10, limit=7, tag="odd")
    assert remote.read(0, bytes_max=50) == log.read(0, bytes_max=50)
    assert remote.at(7) == log.at(7)
    assert remote.at(9999) is None
    assert (remote.first, remote.end) == (log.first, log.end)
    assert list(remote.backwards()) == list(log.backwards())
    assert list(remote.backwards(3)) == list(log.backwards(3))
    assert remote.last(3) == log.last(3)
    assert remote.find_time(middle.timestamp) == log.find_time(middle.timestamp)
    assert store.topic("orders").last(2) == here.last(2)
    assert list(store.topic("orders").since(0, tag="even")) == list(here.since(0, tag="even"))
    assert list(store.topic("orders").between(datetime(2020, 1, 1, tzinfo=UTC), middle.timestamp)) == []


def test_a_scan_over_the_network_gives_the_same_columns(broker: RunningBroker, store: RemoteStore) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    here = broker.broker.store.topic("orders")
    here.put_many([b"%d" % number * 50 for number in range(60_000)], tags=["even", "odd"] * 30_000)
    log, remote = here.partition(0), store.topic("orders").partition(0)

    def table(batches: Any) -> Any:
        return pyarrow.Table.from_batches(batches).combine_chunks()

    assert table(remote.scan()).equals(table(log.scan()))
    assert table(remote.scan(5, 999, columns=["body", "tag"], tag="odd")).equals(
        table(log.scan(5, 999, columns=["body", "tag"], tag="odd"))
    )
    assert list(remote.scan(60_000)) == []


def test_a_scan_continues_after_a_short_answer(store: RemoteStore) -> None:
    topic = store.topic("orders")
    sizes = [*[10] * 3000, *[3 << 20] * 7, *[10] * 3000]
    for start in range(0, len(sizes), 1000):
        topic.put_many([bytes(size) for size in sizes[start : start + 1000]])

    scanned_sizes = [len(body.as_py()) for batch in topic.partition(0).scan() for body in batch.column("body")]
    tail: Any = topic.partition(0).scan(100, 5000)
    next(tail)
    tail.close()

    assert scanned_sizes == sizes
    assert topic.put(b"after").number == len(sizes)


def test_arrow_batches_are_appended_without_a_loop(broker: RunningBroker, store: RemoteStore) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    remote = store.topic("orders").partition(0)

    numbers = remote.append_arrow(pyarrow.record_batch({"body": [b"a", b"b"], "tag": ["x", None]}))

    assert numbers == range(2)
    messages = broker.broker.store.topic("orders").partition(0).read(0)
    assert [(message.body, message.tag) for message in messages] == [(b"a", "x"), (b"b", "")]


def test_a_waiting_call_is_woken_by_a_put_and_blocks_no_other_thread(store: RemoteStore) -> None:
    log = store.topic("orders").partition(0)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(log.wait(0, WAIT_S)))
    thread.start()

    assert store.topics() == ["orders"]
    store.topic("orders").put(b"now")
    thread.join(WAIT_S)

    assert results == [True]


def test_topics_are_made_described_changed_and_removed(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders", partitions=2, compression="zstd")
    topic.put_many([b"x" * 1000] * 10, partition=1)

    assert store.topics() == ["orders"]
    assert store.describe("orders") == broker.broker.store.describe("orders")
    assert store.describe("orders").messages == 10
    assert topic.configure(partitions=3, message_size_max=100).partitions == 3
    assert topic.partition(2).end == 0
    with pytest.raises(TooLarge):
        topic.put(b"x" * 101)
    with pytest.raises(SettingsDiffer) as caught:
        store.topic("orders", partitions=9)
    assert (caught.value.given, caught.value.kept) == (9, 3)
    store.delete_topic("orders")
    assert not store.has_topic("orders")


def test_errors_of_the_store_are_raised_by_the_client(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders", block_size=4096)
    topic.put_many([b"x" * 3000] * 5)
    for _ in range(4):
        topic.put(b"x" * 3000)
    broker.broker.store.topic("orders").partition(0).retire(before=5)

    with pytest.raises(NoSuchTopic):
        store.describe("nothing")
    with pytest.raises(NoSuchPartition):
        topic.put(b"x", partition=7)
    with pytest.raises(NumberRetired) as caught:
        topic.partition(0).read(0)
    assert (type(caught.value), caught.value.number) == (NumberRetired, 0)
    with pytest.raises(BadInput):
        store.topic("../evil")
    with pytest.raises(BadInput):
        topic.put("text")  # type: ignore[call-overload]


def test_a_closed_client_raises(broker: RunningBroker) -> None:
    store = warren.connect(broker.address)
    topic = store.topic("orders")

    store.close()

    with pytest.raises(StoreClosed):
        topic.put(b"late")


def test_an_unreachable_broker_is_a_clear_retryable_error() -> None:
    with pytest.raises(ConnectionLost) as caught:
        warren.connect("127.0.0.1:1", timeout=0.2)

    assert caught.value.retryable


def append_request(store: RemoteStore, topic: str, bodies: list[bytes]) -> tuple[AppendRequest, Any]:
    """Returns the request of a put, without sending it."""
    caught: list[Any] = []
    calls, whole = store.calls, store.calls.call

    def catch(request: Any, **options: Any) -> Any:
        caught.append(request)
        return whole(request, **options)

    calls.call = catch  # type: ignore[method-assign]
    store.topic(topic).put_many(bodies)
    calls.call = whole  # type: ignore[method-assign]
    return caught[-1], whole


@pytest.mark.parametrize("retried", [1, 3])
def test_a_put_that_is_sent_again_is_written_once(broker: RunningBroker, store: RemoteStore, retried: int) -> None:
    request, call = append_request(store, "orders", [b"once", b"and once"])
    store.topic("orders").put(b"another")

    answers = [call(replaced(request, is_retry=True)) for _ in range(retried)]
    # Even the first attempt, which arrives when its caller no longer waits.
    late = call(request)

    assert {answer.positions[0].number for answer in [*answers, late]} == {0}
    messages = broker.broker.store.topic("orders").partition(0).read(0)
    assert [message.body for message in messages] == [b"once", b"and once", b"another"]


def test_the_rest_of_a_partly_written_put_is_written(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders", block_size=1 << 20)
    request, call = append_request(store, "orders", [b"%d" % number * 100_000 for number in range(9)])
    assert len(request.records) > 1
    topic.configure(durability="os")
    store.topic("copy", block_size=1 << 20)
    call(replaced(request, topic="copy", records=request.records[:1]))

    call(replaced(request, topic="copy", is_retry=True))

    bodies = [message.body for message in topic.partition(0).read(0)]
    assert [message.body for message in store.topic("copy").partition(0).read(0)] == bodies
    assert len(bodies) == 9


def test_a_client_continues_after_its_connection_was_cut(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders")
    cut = 0
    for number in range(20):
        if number % 5 == 0:
            for connection in store.calls._idle:
                connection._socket.close()
                cut += 1
        topic.put(b"%d" % number)

    assert cut
    messages = broker.broker.store.topic("orders").partition(0).read(0)
    assert [message.body for message in messages] == [b"%d" % number for number in range(20)]


def test_a_client_continues_when_the_broker_was_restarted(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", durability="commit") as first:
        port = first.broker.advertised[1]
        store = warren.connect(first.address, timeout=WAIT_S)
        topic = store.topic("orders")
        topic.put(b"before")

    with running_broker(tmp_path / "data", port=port), store:
        place = topic.put_many([b"after"])[0]

        assert place == Place(0, 1)
        assert [message.body for message in topic.partition(0).read(0)] == [b"before", b"after"]


def test_a_queue_that_was_deleted_while_its_client_was_disconnected_is_not_created_again(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as first:
        port = first.broker.advertised[1]
        store = warren.connect(first.address, timeout=WAIT_S)
        jobs, deleted = store.queue("kept"), store.queue("deleted")

    with running_broker(tmp_path / "data", port=port) as second, store:
        second.broker.store.delete_topic("deleted")

        assert jobs.qsize() == 0
        with pytest.raises(NoSuchTopic):
            deleted.qsize()
        with pytest.raises(NoSuchTopic):
            deleted.put(1)

        jobs.put(1)
        assert (jobs.get(), store.topics()) == (1, ["kept"])


def test_an_unreadable_record_is_not_stored(broker: RunningBroker, store: RemoteStore) -> None:
    request, call = append_request(store, "orders", [b"one"])
    record = request.records[0]
    for payload in (b"", b"x" * 40, record.payload[:-9], record.payload + b"x"):
        bad = WireRecord(record.partition, record.message_count, record.checksum, payload)

        with pytest.raises(BadBatch):
            call(replaced(request, marker=b"other", records=[bad]))

    assert broker.broker.store.topic("orders").partition(0).end == 1


def test_a_put_larger_than_a_request_is_refused_by_the_client(store: RemoteStore) -> None:
    topic = store.topic("orders")

    with pytest.raises(TooLarge, match="request"):
        topic.put_many([bytes(30 << 20)] * 4)

    assert topic.put(b"small").number == 0


def test_a_read_of_more_than_one_answer_holds_uses_several_requests(broker: RunningBroker, store: RemoteStore) -> None:
    topic = store.topic("orders")
    for _ in range(3):
        broker.broker.store.topic("orders").put_many([bytes(1 << 20)] * 7)

    assert [message.number for message in topic.partition(0).read(0)] == list(range(21))


def test_a_topic_of_version_1_accepts_puts(store: RemoteStore) -> None:
    topic = store.topic("old", version=1)

    receipt = topic.put(b"one", tag="a.b")
    places = topic.put_many([b"two", b"three"])

    assert (receipt.number, [place.number for place in places]) == (0, [1, 2])
    assert [message.body for message in topic.partition(0).read(0)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("fields", [{"key": b"k"}, {"headers": {"a": b"1"}}, {"id": "x" * 40}])
def test_a_topic_of_version_1_refuses_fields_that_it_has_no_place_for(
    store: RemoteStore, fields: dict[str, Any]
) -> None:
    topic = store.topic("old", version=1)

    with pytest.raises(BadInput):
        topic.put(b"refused", **fields)

    assert topic.put(b"taken").number == 0


@pytest.mark.parametrize("address", ["", "host:", "host:port", "host:99999", ":1"])
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(BadInput):
        warren.connect(address)


def test_a_frame_that_is_no_call_ends_its_connection_and_no_other(broker: RunningBroker, store: RemoteStore) -> None:
    connection = Connection(broker.address, None, WAIT_S)
    connection._socket.sendall(b"\0\0\0\x09\x27\x15\0\0\0\0\0\1\xff")

    assert connection._socket.recv(100) == b""
    assert store.topics() == []
    connection.close()
