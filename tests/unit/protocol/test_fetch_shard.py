"""The codec of a slave's fetches by hand gives and takes the same bytes as the schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.errors import MalformedRequest
from warren.protocol.headers import read_request as read_head
from warren.protocol.native.calls import read_answer, request_bytes
from warren.protocol.native.fetch_shard import (
    SMALL_ROWS_MAX,
    SMALL_SIZE_MAX,
    fetch_shard_bytes,
    fetched_shard_buffers,
    read_fetch_shard,
    read_fetched_shard,
)
from warren.protocol.native_messages import (
    FetchShardRequest,
    FetchShardResponse,
    FetchShardResponseCommitted,
    FetchShardResponseItem,
    WireError,
)
from warren.protocol.schema_codec import message_buffers, read_request, read_response
from warren.protocol.wire_struct import WireStruct, fields_of

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=200)
FETCHES = st.builds(FetchShardRequest, INT32, TEXT, TEXT, TEXT, INT64, INT32, INT64, INT64, INT32)
DATA = st.one_of(st.binary(max_size=300), st.binary(max_size=10).map(lambda data: data * SMALL_SIZE_MAX))
ITEMS = st.builds(
    FetchShardResponseItem, st.integers(-128, 127), TEXT, INT64, INT64, INT64, INT64, INT32, st.none() | DATA
)
COMMITTED = st.builds(FetchShardResponseCommitted, TEXT, INT64)
ERRORS = st.builds(WireError, TEXT, TEXT, TEXT, st.booleans())
ANSWERS = st.builds(
    FetchShardResponse,
    st.none() | ERRORS,
    st.just("") | TEXT,
    INT32,
    TEXT,
    INT64,
    INT64,
    INT64,
    st.lists(ITEMS, max_size=SMALL_ROWS_MAX + 2),
    st.lists(COMMITTED, max_size=SMALL_ROWS_MAX + 2),
)
FETCH = FetchShardRequest(2, "incarnation", "boot", "nonce", 7, 3, 11, 12, 1 << 24)
ANSWER = FetchShardResponse(
    None,
    "",
    3,
    "nonce",
    7,
    12,
    13,
    [FetchShardResponseItem(0, "topics/orders/0@1", 0, 4096, 10, 11, 0, b"record")],
    [FetchShardResponseCommitted("topics/orders/0@1", 10)],
)


def by_schema(message: WireStruct) -> bytes:
    return b"".join(message_buffers(message, 0))


def plain(struct: WireStruct) -> dict[str, object]:
    """Returns the fields of an answer, with bytes for views."""

    def value_of(value: object) -> object:
        if isinstance(value, WireStruct):
            return plain(value)
        if isinstance(value, list | tuple):
            return [value_of(each) for each in value]
        return bytes(value) if isinstance(value, memoryview) else value

    return {name: value_of(value) for name, value in fields_of(struct).items()}


@given(FETCHES)
def test_a_fetch_by_hand_is_the_fetch_by_the_schema(fetch: FetchShardRequest) -> None:
    frame = memoryview(fetch_shard_bytes(5, "warren replica", fetch))[4:]
    head = read_head(frame)

    assert (head.api_key, head.version, head.correlation_id) == (FetchShardRequest.api_key, 0, 5)
    assert head.client_id == "warren replica"
    assert bytes(head.body) == by_schema(fetch)
    assert read_fetch_shard(head.body) == fetch


@given(ANSWERS)
def test_an_answer_by_hand_is_the_answer_by_the_schema(answer: FetchShardResponse) -> None:
    body = b"".join(fetched_shard_buffers(answer))

    assert body == by_schema(answer)
    assert plain(read_fetched_shard(body)) == plain(read_response(FetchShardResponse, 0, body))


@given(st.data())
def test_a_damaged_fetch_is_read_as_by_the_schema(data: st.DataObject) -> None:
    body = damaged(data, by_schema(FETCH))

    try:
        expected: object = read_request(FetchShardRequest, 0, body)
    except MalformedRequest:
        expected = MalformedRequest

    if expected is MalformedRequest:
        with pytest.raises(MalformedRequest):
            read_fetch_shard(body)
    else:
        assert read_fetch_shard(body) == expected


@given(st.data())
def test_a_damaged_answer_is_read_as_by_the_schema(data: st.DataObject) -> None:
    body = damaged(data, by_schema(ANSWER))

    try:
        expected: object = plain(read_response(FetchShardResponse, 0, body))
    except MalformedRequest:
        expected = MalformedRequest

    if expected is MalformedRequest:
        with pytest.raises(MalformedRequest):
            read_fetched_shard(body)
    else:
        assert plain(read_fetched_shard(body)) == expected


def damaged(data: st.DataObject, body: bytes) -> bytes:
    """Returns the body with some bytes changed, cut off or added."""
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 4))
    return bytes(changed[: len(changed) - cut]) + data.draw(st.binary(max_size=3))


def test_both_ways_lead_through_the_calls() -> None:
    frame = request_bytes(FETCH, 0, 9, "c")
    answered = (9).to_bytes(4, "big") + b"\0" + by_schema(ANSWER)

    assert frame == fetch_shard_bytes(9, "c", FETCH)
    assert read_answer(FETCH, 0, 9, memoryview(answered)) == ANSWER


def test_the_links_of_two_slaves_are_not_confused() -> None:
    other = FetchShardRequest(1, "incarnation", "boot", "nonce", 8, 3, 11, 12, 1 << 24)

    for fetch in (FETCH, other, FETCH):
        assert read_fetch_shard(by_schema(fetch)) == fetch
