"""A put of a client: by the codec for a single message, and by the schema, the broker gets the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from warren.client import topic as client_topic
from warren.client.net.rack_reads import RackReads
from warren.client.net.session import retried
from warren.client.topic import RemoteTopic
from warren.clock import SYSTEM_CLOCK
from warren.message import TopicReceipt
from warren.protocol.native import append
from warren.protocol.native.append import SINGLE_BODY_SIZE_MAX, single_answer_bytes, single_append_bytes
from warren.protocol.native.calls import read_answer, request_bytes
from warren.protocol.native_messages import AppendRequest, AppendResponse, OpenTopicResponse

MARKER = bytes(range(16))
SIZES = [0, 1, 100, 20_000, SINGLE_BODY_SIZE_MAX, SINGLE_BODY_SIZE_MAX + 1, 3 * SINGLE_BODY_SIZE_MAX]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"tag": "eu.de"},
    {"partition": 2},
    {"key": b"customer"},
    {"key": b""},
    {"id": "1"},
    {"headers": {"a": b"1"}},
    {"corr_offset": 7},
    {"reply_to": "replies"},
    {"key": b"k", "tag": "eu", "headers": {"a": b"1", "b": b""}, "id": "x" * 40, "corr_offset": 1 << 40},
]


class RecordedCalls:
    """Calls that keep the requests, and answer each as a broker does that has stored it."""

    address, clock = "recorded:1", SYSTEM_CLOCK

    def __init__(self) -> None:
        self.requests: list[AppendRequest] = []

    def new_marker(self) -> bytes:
        return MARKER

    def call(self, request: AppendRequest, *, repeat: Callable[[AppendRequest], AppendRequest]) -> AppendResponse:
        self.requests += [request, repeat(request)]
        body = single_answer_bytes(request.records[0].partition, 5, 600, 1_700_000_000_000_000, 3)
        return read_answer(request, 0, 1, memoryview((1).to_bytes(4, "big") + b"\0" + body))


def put(body: bytes, options: dict[str, Any], compression: str) -> tuple[list[AppendRequest], TopicReceipt, int]:
    calls: Any = RecordedCalls()
    store: Any = type("RecordedStore", (), {"calls": calls, "reads": RackReads(calls)})()
    topic = RemoteTopic(store, "orders", OpenTopicResponse())
    topic.take_settings({"partitions": 3, "compression": compression})
    topic._turn = iter(range(1, 10))  # type: ignore[assignment]

    receipt = topic.put(body, **options)

    return calls.requests, receipt, topic._ends[receipt.partition]


def by_schema(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> tuple[list[bytes], TopicReceipt, int]:
    """Returns the result of the same put without the codec and the packing for a single message."""
    with monkeypatch.context() as patch:
        patch.setattr(append, "SINGLE_SIZE_MAX", -1)
        patch.setattr(client_topic, "SINGLE_BODY_SIZE_MAX", -1)
        requests, receipt, end = put(*arguments)
        assert not any(is_single(each) for each in requests)
        return [sent(each) for each in requests], receipt, end


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_a_single_put_sends_the_same_bytes_by_its_codec_and_by_the_schema(
    options: dict[str, Any], size: int, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)

    requests, receipt, end = put(body, options, compression)
    sent_by_schema, long_receipt, long_end = by_schema(monkeypatch, body, options, compression)

    assert [sent(each) for each in requests] == sent_by_schema
    assert (receipt, end) == (long_receipt, long_end)


def sent(request: AppendRequest) -> bytes:
    return request_bytes(request, 0, 7, "warren")


def is_single(request: AppendRequest) -> bool:
    return single_append_bytes(7, "warren", request) is not None


@pytest.mark.parametrize(("size", "is_codec_used"), [(100, True), (3 * SINGLE_BODY_SIZE_MAX, False)])
def test_the_codec_for_a_single_message_is_used_up_to_its_size(size: int, is_codec_used: bool) -> None:
    for options in ({}, {"key": b"k"}):
        requests, _, _ = put(random.Random(size).randbytes(size), options, "none")

        assert [is_single(each) for each in requests] == [is_codec_used] * 2


def test_a_repeated_append_is_marked_and_the_first_request_is_not_changed() -> None:
    request = AppendRequest("orders", MARKER)

    assert retried(request) == AppendRequest("orders", MARKER, is_retry=True)
    assert request == AppendRequest("orders", MARKER)
