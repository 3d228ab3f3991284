"""Our own calls as bytes: messages, records and errors arrive as they were sent, and malformed ones are refused."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.support.message_values import decode_request, decode_response, encode_request, encode_response
from warren.errors import BadBatch, MalformedRequest, RemoteError, TooLarge, WarrenError
from warren.message import Message
from warren.protocol.api_keys import APIS
from warren.protocol.native.calls import error_kinds, error_of, wire_error
from warren.protocol.native.records import messages_of, pack, packed_of, wire_messages, wire_record
from warren.protocol.native_schemas import NATIVE_RECORDS_MAX, NativeKey
from warren.storage.format.columns import Batch
from warren.storage.format.limits import BODY_SIZE_MAX
from warren.storage.format.record import Packed

FACTS = {
    "number": 7,
    "first": 9,
    "partitions": [1, 2],
    "places": [(0, 4), (1, 5)],
    "size": 3,
    "size_max": 2,
    "count": 2,
    "partition": 1,
    "partition_count": 4,
    "timeout_s": 1.5,
    "wait_s": 2.5,
    "sequence": 8,
    "expected": 7,
    "pid": 12,
    "position": 4096,
    "version": 3,
    "api_key": 10_000,
    "handle": 5,
    "port": 9092,
    "waited_s": 2.5,
}
"""The arguments of errors, by the name of the fact; any other fact is a word."""


def made(kind: type[WarrenError]) -> WarrenError:
    """An error of this class, with facts of the right kind."""
    if not inspect.isfunction(kind.__init__):
        return kind("something is wrong")
    values: dict[str, Any] = {
        name: FACTS.get(name, f"some {name}")
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty
    }
    return kind(**values)


def sent(error: WarrenError) -> WarrenError:
    data = encode_response(NativeKey.LIST_TOPICS, 0, {"error": wire_error(error)})
    return error_of(decode_response(NativeKey.LIST_TOPICS, 0, b"".join(data)).error)


@pytest.mark.parametrize("code", sorted(error_kinds()))
def test_every_error_arrives_as_the_same_class_with_the_same_facts(code: str) -> None:
    error = made(error_kinds()[code])

    received = sent(error)

    assert type(received) is type(error)
    assert (str(received), received.code, received.retryable) == (str(error), error.code, error.retryable)
    assert vars(received) == vars(error)


def test_no_two_errors_have_one_code() -> None:
    def kinds(kind: type[WarrenError]) -> list[type[WarrenError]]:
        return [kind, *(below for child in kind.__subclasses__() for below in kinds(child))]

    own = [kind for kind in kinds(WarrenError) if "code" in vars(kind) and kind.__module__.startswith("warren.errors")]

    assert len({kind.code for kind in own}) == len(set(own))


def test_an_error_of_a_later_release_arrives_with_its_sentence() -> None:
    error = RemoteError("other", "a sentence")
    error.retryable = True
    data = encode_response(
        NativeKey.LIST_TOPICS,
        0,
        {"error": {"code": "no_such_code", "sentence": "a sentence", "facts": "{}", "retryable": True}},
    )

    received = error_of(decode_response(NativeKey.LIST_TOPICS, 0, b"".join(data)).error)

    assert isinstance(received, RemoteError)
    assert (str(received), received.remote_code, received.retryable) == ("a sentence", "no_such_code", True)


def test_messages_arrive_as_they_were_read() -> None:
    messages = [
        Message(5, 64, 0, "orders", 1_000, "", "", None, {}, -1, b"plain", 0),
        Message(6, 128, 3, "orders", 2_000, "id-1", "eu.de", b"k", {"trace": b"1"}, 64, b"", 2),
    ]

    data = b"".join(encode_response(NativeKey.TAKE, 0, {"messages": wire_messages(messages)}))
    received = messages_of(decode_response(NativeKey.TAKE, 0, data).messages, "orders")

    assert received == messages


def test_no_messages_arrive_as_none() -> None:
    data = b"".join(encode_response(NativeKey.TAKE, 0, {"messages": wire_messages([])}))

    assert messages_of(decode_response(NativeKey.TAKE, 0, data).messages, "orders") == []


def arrived(packed: Packed) -> Any:
    data = encode_request(NativeKey.APPEND, 0, {"topic": "orders", "records": [wire_record(0, packed)]})
    return decode_request(NativeKey.APPEND, 0, data).records[0]


def test_a_packed_record_arrives_whole() -> None:
    (packed,) = pack(Batch([b"a", b"bb"], ["x", "y"], [b"k", None], ["1", ""], [{"h": b"v"}, None], [-1, 8]))

    assert packed_of(arrived(packed), BODY_SIZE_MAX) == packed


def test_any_flipped_byte_of_a_packed_record_is_found() -> None:
    (packed,) = pack(Batch([b"a", b"bb"], ["x", "y"], [b"k", None], ["1", ""], [{"h": b"v"}, None], [-1, 8]))

    for place in range(len(packed.payload)):
        payload = bytearray(packed.payload)
        payload[place] ^= 1
        with pytest.raises(BadBatch):
            packed_of(arrived(packed._replace(payload=bytes(payload))), BODY_SIZE_MAX)


def test_a_record_with_a_wrong_count_is_refused() -> None:
    (packed,) = pack(Batch([b"a", b"bb"]))

    with pytest.raises(BadBatch, match="its count is wrong"):
        packed_of(arrived(packed._replace(message_count=3)), BODY_SIZE_MAX)


def test_a_body_over_the_limit_of_its_topic_is_refused() -> None:
    (packed,) = pack(Batch([b"a", b"bbb"]))

    with pytest.raises(TooLarge):
        packed_of(arrived(packed), 2)


def test_more_records_than_a_request_may_have_are_refused() -> None:
    record = wire_record(0, Packed(b"", 0, 0))
    data = encode_request(NativeKey.APPEND, 0, {"topic": "orders", "records": [record] * (NATIVE_RECORDS_MAX + 1)})

    with pytest.raises(MalformedRequest, match="over the limit"):
        decode_request(NativeKey.APPEND, 0, data)


@pytest.mark.parametrize("key", list(NativeKey))
def test_every_call_is_served_in_version_0_and_has_both_messages(key: NativeKey) -> None:
    api = APIS[key]

    decode_request(key, 0, encode_request(key, 0, {}))
    answer = decode_response(key, 0, b"".join(encode_response(key, 0, {})))

    assert (api.first, api.last, api.is_flexible(0)) == (0, 0, True)
    assert answer.error is None
