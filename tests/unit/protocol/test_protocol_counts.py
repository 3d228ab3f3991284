"""Requests with too many elements: each array is refused by its count, before its elements are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from tests.support.message_values import decode_request, decode_response, encode_request, encode_response
from tests.support.protocol_values import every_version, message_named
from warren.errors import MalformedRequest
from warren.protocol.api_keys import APIS, Api, ApiKey
from warren.protocol.kafka.fetch import FETCH_PARTITIONS_MAX, decode_fetch
from warren.protocol.kafka.produce import PRODUCE_PARTITIONS_MAX, decode_produce
from warren.protocol.limits import FRAME_SIZE_MAX, NATIVE_LIMIT_MAX, REQUEST_ARRAY_COUNT_MAX
from warren.protocol.native_schemas import REPLICATED_LOGS_MAX, SPARK_TASKS_MAX, NativeKey
from warren.protocol.primitives import REQUEST_ELEMENTS_MAX, TAGGED_FIELDS_MAX, varint
from warren.protocol.schemas import DEFAULTS, STRUCT, Field

BY_HAND: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
LATEST: Final = [(api, version) for api, version in every_version() if version == api.last and api.key not in BY_HAND]
METADATA_VERSION: Final = 9


def arrays(fields: Sequence[Field], version: int, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    """Yields the path to each array that a version has: the structs and arrays around it, then itself."""
    for field in fields:
        if version in field.versions:
            path = (*above, field)
            if field.is_array:
                yield path
            yield from arrays(field.fields, version, path)


def with_count(path: tuple[Field, ...], version: int, count: int) -> dict[str, Any]:
    """Returns the fields of a request in which the array at the end of the path has this many elements, and the others
    one.
    """
    field, *below = path
    if below:
        inner = with_count(tuple(below), version, count)
        return {field.name: [inner] if field.is_array else inner}
    element: Any = {} if field.kind == STRUCT else DEFAULTS[field.kind]
    return {field.name: [element] * count}


ARRAYS: Final = [
    pytest.param(api, version, path, id=f"{api.name}-{'.'.join(field.name for field in path)}")
    for api, version in LATEST
    for path in arrays(message_named(f"{api.name}Request").fields, version)
]


@pytest.mark.parametrize(("api", "version", "path"), ARRAYS)
def test_every_array_of_a_request_has_a_limit(api: Api, version: int, path: tuple[Field, ...]) -> None:
    limit = path[-1].count_max or REQUEST_ARRAY_COUNT_MAX
    body = encode_request(api.key, version, with_count(path, version, limit))
    over = encode_request(api.key, version, with_count(path, version, limit + 1))

    decode_request(api.key, version, body)

    with pytest.raises(MalformedRequest, match=f"{limit + 1} elements are over the limit of {limit}"):
        decode_request(api.key, version, over)
    assert limit <= max(NATIVE_LIMIT_MAX, SPARK_TASKS_MAX, REPLICATED_LOGS_MAX)


def test_a_count_is_refused_before_its_elements_are_read() -> None:
    # The elements are missing: a reader that began with them would report the end instead.
    body = varint(REQUEST_ARRAY_COUNT_MAX + 2) + b"\xff" * REQUEST_ARRAY_COUNT_MAX * 2

    with pytest.raises(MalformedRequest, match="over the limit"):
        decode_request(ApiKey.METADATA, METADATA_VERSION, body)


def topics_with(partitions: int, topics: int) -> dict[str, Any]:
    parts = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]
    return {"topics": [{"name": "t", "partitions": parts}] * topics}


def test_many_short_arrays_are_refused_by_their_sum() -> None:
    at_once = REQUEST_ARRAY_COUNT_MAX // 2
    whole = encode_request(ApiKey.LIST_OFFSETS, 6, topics_with(at_once, REQUEST_ELEMENTS_MAX // at_once))
    over = encode_request(ApiKey.LIST_OFFSETS, 6, topics_with(at_once, REQUEST_ELEMENTS_MAX // at_once + 1))

    decode_request(ApiKey.LIST_OFFSETS, 6, whole)

    with pytest.raises(MalformedRequest, match=f"more than {REQUEST_ELEMENTS_MAX} elements"):
        decode_request(ApiKey.LIST_OFFSETS, 6, over)


def test_arrays_three_deep_are_summed_as_well() -> None:
    topics = [{"name": "t", "partition_indexes": list(range(100))}] * 100
    groups = [{"group_id": "g", "topics": topics}] * 6

    with pytest.raises(MalformedRequest, match=f"more than {REQUEST_ELEMENTS_MAX} elements"):
        decode_request(ApiKey.OFFSET_FETCH, 8, encode_request(ApiKey.OFFSET_FETCH, 8, {"groups": groups}))


def test_an_answer_may_hold_more_than_a_request() -> None:
    topics = [{"name": "t"}] * (REQUEST_ARRAY_COUNT_MAX + 1)
    body = b"".join(encode_response(ApiKey.METADATA, METADATA_VERSION, {"topics": topics}))

    assert len(decode_response(ApiKey.METADATA, METADATA_VERSION, body).topics) == len(topics)


@pytest.mark.parametrize("count", [TAGGED_FIELDS_MAX, TAGGED_FIELDS_MAX + 1])
def test_tagged_fields_are_counted(count: int) -> None:
    empty = encode_request(ApiKey.METADATA, METADATA_VERSION, {"topics": []})
    body = empty[:-1] + varint(count) + b"".join(varint(100 + tag) + b"\0" for tag in range(count))

    if count > TAGGED_FIELDS_MAX:
        with pytest.raises(MalformedRequest, match=f"{count} tagged fields are over the limit"):
            decode_request(ApiKey.METADATA, METADATA_VERSION, body)
    else:
        assert decode_request(ApiKey.METADATA, METADATA_VERSION, body).topics == []


# --- Produce and Fetch, which are read by hand ---


def produce_body(version: int, topics: int, partitions: int) -> memoryview:
    parts = [{"index": number, "records": None} for number in range(partitions)]
    return memoryview(encode_request(ApiKey.PRODUCE, version, {"topic_data": [{"partition_data": parts}] * topics}))


def fetch_body(version: int, topics: int, partitions: int) -> memoryview:
    parts = [{"partition": number} for number in range(partitions)]
    return memoryview(encode_request(ApiKey.FETCH, version, {"topics": [{"partitions": parts}] * topics}))


@pytest.mark.parametrize("version", [APIS[ApiKey.PRODUCE].first, APIS[ApiKey.PRODUCE].last])
def test_the_partitions_of_a_produce_are_limited_over_all_topics(version: int) -> None:
    half = PRODUCE_PARTITIONS_MAX // 2

    assert len(decode_produce(version, produce_body(version, 2, half)).topics) == 2
    for topics, partitions in ((1, PRODUCE_PARTITIONS_MAX + 1), (3, half), (REQUEST_ARRAY_COUNT_MAX + 1, 0)):
        with pytest.raises(MalformedRequest, match="over the limit"):
            decode_produce(version, produce_body(version, topics, partitions))


@pytest.mark.parametrize("version", [APIS[ApiKey.FETCH].first, APIS[ApiKey.FETCH].last])
def test_the_partitions_of_a_fetch_are_limited_over_all_topics(version: int) -> None:
    half = FETCH_PARTITIONS_MAX // 2

    assert len(decode_fetch(version, fetch_body(version, 2, half)).topics) == 2
    for topics, partitions in ((1, FETCH_PARTITIONS_MAX + 1), (3, half), (REQUEST_ARRAY_COUNT_MAX + 1, 0)):
        with pytest.raises(MalformedRequest, match="over the limit"):
            decode_fetch(version, fetch_body(version, topics, partitions))


def test_the_partitions_that_a_fetch_forgets_are_limited_over_all_topics() -> None:
    half = FETCH_PARTITIONS_MAX // 2
    version = APIS[ApiKey.FETCH].last
    for topics, partitions in ((1, FETCH_PARTITIONS_MAX + 1), (3, half), (REQUEST_ARRAY_COUNT_MAX + 1, 0)):
        forgotten = [{"partitions": list(range(partitions))}] * topics
        body = encode_request(ApiKey.FETCH, version, {"forgotten_topics_data": forgotten})

        with pytest.raises(MalformedRequest, match=r"limit|more than"):
            decode_fetch(version, memoryview(body))


def test_a_client_cannot_make_the_decoder_step_over_tagged_fields_for_long() -> None:
    # A frame of our own calls may be large, but it may never have many tagged fields.
    body = encode_request(NativeKey.APPEND, 0, {"topic": "t"})[:-1] + varint(1 << 20) + bytes(2 << 20)
    assert len(body) < FRAME_SIZE_MAX

    with pytest.raises(MalformedRequest, match="tagged fields are over the limit"):
        decode_request(NativeKey.APPEND, 0, body)
