"""An append of one record has its own codec and path. Clients see no difference."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from warren.broker.native import append, handler
from warren.broker.security.rights import Operation, ResourceKind
from warren.protocol.native.append import SingleAppend
from warren.protocol.native.records import wire_record
from warren.protocol.native_messages import AppendRequest, AppendResponse, WirePosition
from warren.protocol.native_schemas import NativeKey
from warren.storage.format.columns import Batch
from warren.storage.format.compression import compression_code
from warren.storage.format.limits import MARKER_SIZE_MAX, RAW_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.plain_batch import pack_plain_batch
from warren.storage.format.record import Packed

LARGE = 60_000


def send(caller: Caller, request: AppendRequest) -> AppendResponse:
    answer: AppendResponse = caller.call(NativeKey.APPEND, 0, request)
    return answer


def appends(topic: str) -> Iterator[AppendRequest]:
    """Appends of one record each, of every kind that the broker distinguishes."""
    large, marker_at = bytes(LARGE), itertools.count()

    def request(packed: Packed, *, partition: int = 0, is_retry: bool = False, marker: bytes = b"") -> AppendRequest:
        marker = marker or b"marker-%d" % next(marker_at)
        return AppendRequest(
            topic, marker, is_retry, True, [WirePosition(partition, 0)], [wire_record(partition, packed)]
        )

    def columns(body: bytes, compression: int = 0, marker: bytes = b"", **fields: Any) -> Packed:
        (packed,) = pack_batch(Batch([body], **fields), "", compression, RAW_SIZE_MAX, marker)
        return packed

    plain = pack_plain_batch(b"plain", "", b"m")
    yield request(plain)
    yield request(pack_plain_batch(b"tagged", "eu.de", b"m"))
    yield request(columns(b"key", keys=[b"k"]))
    yield request(columns(b"all", keys=[b""], ids=["id"], headers=[{"a": b"1"}], tags=["eu"], corr_offsets=[7]))
    yield request(columns(b"compressed" * 100, compression_code("zstd"), keys=[b"k"]))
    yield request(pack_plain_batch(large, "", b"m"))
    yield request(columns(large, keys=[b"k"]))
    yield request(columns(bytes(LARGE + 1), keys=[b"k"]))
    yield request(pack_plain_batch(bytes(LARGE + 1), "", b"m"))
    yield request(plain._replace(checksum=1))
    yield request(columns(b"key", keys=[b"k"])._replace(checksum=1))
    yield request(plain._replace(payload=b"no record"))
    yield request(plain, partition=1)
    yield request(plain, partition=2)
    yield request(plain, marker=bytes(MARKER_SIZE_MAX + 1))
    for _ in range(2):
        yield request(pack_plain_batch(b"repeated", "", b"again"), is_retry=True, marker=b"again")
        yield request(columns(b"one", marker=b"one", keys=[b"k"]), is_retry=True, marker=b"one")


@pytest.mark.parametrize("durability", ["commit", "os"])
@pytest.mark.parametrize("topic", ["orders", "missing", "queue"])
def test_an_append_of_one_record_is_answered_as_any_other_is(
    tmp_path: Path, durability: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codec for one record and the schema lead to the same answers and the same messages."""

    def outcome(name: str) -> tuple[list[Any], list[Any]]:
        with running_broker(tmp_path / name, durability=durability) as running, Caller(running) as caller:
            store = running.broker.store
            store.topic("orders", partitions=2, message_size_max=LARGE)
            store.queue("queue")
            answers = [send(caller, each) for each in appends(topic)]
            logs = store.topic("orders").logs
            messages = [message._replace(timestamp=0) for log in logs for message in log.read(0)]
            return [(each.error, each.positions, each.offset, each.partition_count) for each in answers], messages

    single = outcome("single")
    monkeypatch.setattr(append, "read_single_append", lambda body: None)
    by_schema = outcome("schema")

    assert single == by_schema
    assert len(single[1]) == (10 if topic == "orders" else 0)


def test_one_record_with_a_key_is_not_made_into_a_request_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(single: SingleAppend) -> AppendRequest:
        raise AssertionError("the request took the way of those with many records")

    monkeypatch.setattr(SingleAppend, "to_request", refuse)
    (packed,) = pack_batch(Batch([b"carrots"], keys=[b"k"], headers=[{"a": b"1"}]), "", 0, RAW_SIZE_MAX, b"m")
    request = AppendRequest("orders", b"m", False, True, [WirePosition(0, 0)], [wire_record(0, packed)])
    with running_broker(tmp_path / "data") as running, Caller(running) as caller:
        running.broker.store.topic("orders")

        answer = send(caller, request)

        (message,) = running.broker.store.topic("orders").partition(0).read(0)
        assert (message.body, message.key, dict(message.headers)) == (b"carrots", b"k", {"a": b"1"})
        assert (answer.offset, answer.timestamp) == (message.offset, message.timestamp)


class CountedRights:
    """Rights that allow everything, and record each check."""

    def __init__(self) -> None:
        self.questions: list[tuple[Operation, ResourceKind, str]] = []

    def may(self, peer: object, operation: Operation, kind: ResourceKind, name: str) -> bool:
        self.questions.append((operation, kind, name))
        return True


def test_an_append_is_decoded_once_and_its_right_is_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights: Any = CountedRights()

    def refuse_to_read(*arguments: object) -> None:
        raise AssertionError("the schema decoded a request that the codec for one record had decoded")

    monkeypatch.setattr(handler, "read_request", refuse_to_read)
    with running_broker(tmp_path / "data") as running, Caller(running) as caller:
        running.broker.store.topic("orders", partitions=2, message_size_max=LARGE)
        running.broker.rights = rights
        # The codec does not decode a marker of such a size.
        requests = [each for each in appends("orders") if len(each.marker) <= MARKER_SIZE_MAX]

        for request in requests:
            send(caller, request)

    assert rights.questions == [(Operation.WRITE, ResourceKind.TOPIC, "orders")] * len(requests)
