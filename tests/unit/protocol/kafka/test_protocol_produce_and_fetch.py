"""Produce and Fetch: our hand-written decoding and encoding equals that of the other codec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.message_values import encode_request, encode_response
from tests.support.protocol_values import kafka_class
from warren.errors import MalformedRequest, UnsupportedRequest
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.kafka.fetch import (
    FetchPartition,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
    decode_fetch,
    encode_fetch_response,
)
from warren.protocol.kafka.produce import (
    PartitionStored,
    TopicStored,
    decode_produce,
    encode_produce_response,
)

pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

PRODUCE = range(APIS[ApiKey.PRODUCE].first, APIS[ApiKey.PRODUCE].last + 1)
FETCH = range(APIS[ApiKey.FETCH].first, APIS[ApiKey.FETCH].last + 1)
BATCH = bytes(range(256)) * 10


def produce_body(version: int, transactional_id: str | None = "tx") -> bytes:
    partitions = [{"index": 0, "records": BATCH}, {"index": 7, "records": None}]
    topics = [
        {"name": "orders", "topic_id": bytes(range(16)), "partition_data": partitions},
        {"name": "ä", "topic_id": bytes(16), "partition_data": []},
    ]
    request = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 1500, "topic_data": topics}
    return encode_request(ApiKey.PRODUCE, version, request)


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_request_is_taken_apart(version: int) -> None:
    request = decode_produce(version, memoryview(produce_body(version)))

    assert (request.transactional_id, request.acks, request.timeout_ms) == ("tx", -1, 1500)
    known_by_id = version >= 13
    assert [topic.name for topic in request.topics] == (["", ""] if known_by_id else ["orders", "ä"])
    assert [topic.topic_id for topic in request.topics] == (
        [bytes(range(16)), bytes(16)] if known_by_id else [b"", b""]
    )
    partitions = [(part.partition, part.records) for part in request.topics[0].partitions]
    assert partitions == [(0, memoryview(BATCH)), (7, None)]
    assert request.topics[1].partitions == []
    assert decode_produce(version, memoryview(produce_body(version, None))).transactional_id is None


ONE = {"index": 3, "records": BATCH}


@pytest.mark.parametrize("version", PRODUCE)
@pytest.mark.parametrize("name", ["orders", "ä" * 200])
@pytest.mark.parametrize("parts", [[ONE], [ONE, ONE], [{"index": 3, "records": None}], []])
def test_a_produce_request_for_one_partition_is_like_any_other(
    version: int, name: str, parts: list[dict[str, Any]]
) -> None:
    topic = {"name": name, "topic_id": bytes(range(16)), "partition_data": parts}
    values = {"transactional_id": None, "acks": 1, "timeout_ms": 7, "topic_data": [topic]}
    body = encode_request(ApiKey.PRODUCE, version, values)

    request = decode_produce(version, memoryview(body))

    name_and_id = ("", bytes(range(16))) if version >= 13 else (name, b"")
    partitions = [(3, None if part["records"] is None else memoryview(BATCH)) for part in parts]
    (decoded,) = request.topics
    assert (request[:3], decoded[:2]) == ((None, 1, 7), name_and_id)
    assert [part[:2] for part in decoded.partitions] == partitions
    assert all(body[part.records_at :].startswith(part.records or b"") for part in decoded.partitions)
    for end in range(len(body)):
        if end < 40 or end > len(body) - 40:
            with pytest.raises(MalformedRequest):
                decode_produce(version, memoryview(body[:end]))


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_request_without_topics_is_one(version: int) -> None:
    body = encode_request(ApiKey.PRODUCE, version, {"transactional_id": None, "acks": 0, "timeout_ms": 7})

    assert decode_produce(version, memoryview(body)) == (None, 0, 7, [])


@pytest.mark.parametrize("version", PRODUCE)
@pytest.mark.parametrize("stored", [PartitionStored(2, 0, 1 << 40, -1, 5), PartitionStored(2, 3)])
def test_a_produce_response_for_one_partition_is_like_any_other(version: int, stored: PartitionStored) -> None:
    part = dict(
        zip(("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset"), stored, strict=False)
    )
    topic = {"name": "ä", "topic_id": bytes(range(16)), "partition_responses": [part]}

    ours = encode_produce_response(version, [TopicStored("ä", bytes(range(16)), [stored])])

    assert ours == b"".join(encode_response(ApiKey.PRODUCE, version, {"responses": [topic]}))


@pytest.mark.parametrize("version", PRODUCE)
def test_the_batch_of_a_produce_request_is_not_copied(version: int) -> None:
    body = bytearray(produce_body(version))

    records = decode_produce(version, memoryview(body)).topics[0].partitions[0].records

    assert records is not None
    assert records.obj is body


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_request_that_is_cut_is_malformed(version: int) -> None:
    body = produce_body(version)

    for end in [*range(60), *range(len(body) - 40, len(body))]:
        with pytest.raises(MalformedRequest):
            decode_produce(version, memoryview(body[:end]))


@pytest.mark.parametrize("version", [0, 2, PRODUCE[-1] + 1])
def test_a_produce_request_of_another_version_is_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedRequest):
        decode_produce(version, memoryview(b""))


@pytest.mark.parametrize("version", PRODUCE)
def test_a_produce_response_equals_the_output_of_the_codec(version: int) -> None:
    stored = [PartitionStored(0, 0, 1 << 40, -1, 5), PartitionStored(1, 3, error_message="no such topic")]
    partitions: list[dict[str, Any]] = [
        {"index": 0, "error_code": 0, "base_offset": 1 << 40, "log_append_time_ms": -1, "log_start_offset": 5},
        {"index": 1, "error_code": 3, "base_offset": -1, "error_message": "no such topic"},
    ]
    topic_id = bytes(range(16))
    topics = [{"name": "orders", "topic_id": topic_id, "partition_responses": partitions}]

    ours = encode_produce_response(version, [TopicStored("orders", topic_id, stored)])

    assert ours == b"".join(encode_response(ApiKey.PRODUCE, version, {"responses": topics}))
    theirs = kafka_class("ProduceResponse").decode(ours, version=version).responses[0]
    assert theirs.partition_responses[0].base_offset == 1 << 40


@pytest.mark.parametrize("version", FETCH)
def test_a_fetch_response_equals_the_output_of_the_codec_and_copies_no_large_batch(version: int) -> None:
    batches = [memoryview(BATCH), memoryview(b"second")]
    fetched = [
        PartitionFetched(0, 0, 100, 90, 3, batches, sum(map(len, batches))),
        PartitionFetched(1, 1),
    ]
    topic_id = bytes(range(16))
    partitions = [
        {
            "partition_index": 0,
            "high_watermark": 100,
            "last_stable_offset": 90,
            "log_start_offset": 3,
            "aborted_transactions": None,
            "records": batches,
        },
        {
            "partition_index": 1,
            "error_code": 1,
            "high_watermark": -1,
            "last_stable_offset": -1,
            "aborted_transactions": None,
            "records": b"",
        },
    ]
    responses = [{"topic": "orders", "topic_id": topic_id, "partitions": partitions}]

    ours = encode_fetch_response(version, [TopicFetched("orders", topic_id, fetched)])

    theirs = encode_response(ApiKey.FETCH, version, {"responses": responses})
    assert b"".join(ours) == b"".join(theirs)
    assert [buffer for buffer in ours if any(buffer is batch for batch in batches)] == batches


@pytest.mark.parametrize("version", FETCH)
def test_the_small_batches_of_a_fetch_response_are_sent_in_few_buffers(version: int) -> None:
    numbers = range(1000)
    records: list[bytes | memoryview] = [b"the head of a batch", memoryview(bytes(200))]
    fetched = [PartitionFetched(number, 0, 1, 1, 0, records, 219) for number in numbers]
    fields = {"high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0, "aborted_transactions": None}
    partitions = [{"partition_index": number, "records": records, **fields} for number in numbers]

    ours = encode_fetch_response(version, [TopicFetched("orders", bytes(16), fetched)])

    theirs = encode_response(ApiKey.FETCH, version, {"responses": [{"topic": "orders", "partitions": partitions}]})
    assert b"".join(ours) == b"".join(theirs)
    assert 2 < len(ours) < 10


def fetch_body(version: int) -> bytes:
    partitions: list[dict[str, Any]] = [
        {"partition": 4, "current_leader_epoch": 8, "fetch_offset": 1 << 40, "partition_max_bytes": 1 << 20},
        {"partition": 5, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 7},
    ]
    topic = {"topic": "orders", "topic_id": bytes(range(16))}
    request = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50,
        "isolation_level": 1,
        "session_id": 3,
        "session_epoch": 2,
        "topics": [{**topic, "partitions": partitions}],
        "forgotten_topics_data": [{**topic, "partitions": [1, 2, 3]}],
        "rack_id": "r",
        "cluster_id": "a tagged field",
    }
    return encode_request(ApiKey.FETCH, version, request)


@pytest.mark.parametrize("version", FETCH)
def test_a_fetch_request_is_taken_apart(version: int) -> None:
    request = decode_fetch(version, memoryview(fetch_body(version)))

    topic = ("", bytes(range(16))) if version >= 13 else ("orders", b"")
    assert request[:3] == (500, 1, 50)
    assert request.topics == [
        FetchTopic(*topic, [FetchPartition(4, 1 << 40, 1 << 20, 8 if version >= 9 else -1), FetchPartition(5, 0, 7)]),
    ]
    assert request.rack == ("r" if version >= 11 else "")


@pytest.mark.parametrize("version", FETCH)
def test_a_fetch_request_that_is_cut_is_malformed(version: int) -> None:
    body = fetch_body(version)

    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode_fetch(version, memoryview(body[:end]))


@pytest.mark.parametrize("version", [3, FETCH[-1] + 1])
def test_a_fetch_request_of_another_version_is_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedRequest):
        decode_fetch(version, memoryview(b""))
