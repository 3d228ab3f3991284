"""A Produce that is read by the template of the one before equals the parsed one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kafka_batches import batch_of
from tests.support.message_values import encode_request
from warren.errors import MalformedRequest, UnsupportedRequest
from warren.protocol.api_keys import ApiKey
from warren.protocol.headers import Request, read_request, request_frame
from warren.protocol.kafka.produce import PRODUCE, SingleProduce, decode_produce, read_produce
from warren.protocol.kafka.produce_template import MISSES_MAX, ProduceReader
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KafkaBatchHead

BODIES = st.binary(max_size=300)


def produce(
    version: int, correlation_id: int, client_id: str | None, topic: str, partition: int, records: bytes, acks: int = -1
) -> bytes:
    parts = [{"index": partition, "records": records}]
    values = {"acks": acks, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": parts}]}
    body = memoryview(encode_request(ApiKey.PRODUCE, version, {"transactional_id": None, **values}))
    request = Request(ApiKey.PRODUCE, version, correlation_id, client_id, body)
    return request_frame(request, is_flexible=version >= PRODUCE.flexible_from)


FRAMES = st.builds(
    produce,
    st.sampled_from([3, 7, 8, 9, 12]),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.sampled_from([None, "", "warren", "ä"]),
    st.sampled_from(["t", "orders", "ö" * 40, "o" * 200]),
    st.integers(0, 3),
    st.one_of(BODIES.map(lambda body: batch_of([(None, body, [])])), st.binary(max_size=100)),
    st.sampled_from([-1, 0, 1]),
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Frames of which many are alike, and some were changed or cut."""
    kinds = draw(st.lists(FRAMES, min_size=1, max_size=3))
    frames = []
    for _ in range(draw(st.integers(1, 2 * MISSES_MAX))):
        frame = bytearray(draw(st.sampled_from(kinds)))
        how = draw(st.sampled_from(["same", "same", "same", "byte", "cut", "longer"]))
        if how == "byte":
            frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
        elif how == "cut":
            del frame[draw(st.integers(0, len(frame))) :]
        elif how == "longer":
            frame += draw(st.binary(min_size=1, max_size=5))
        frames.append(bytes(frame))
    return frames


@given(streams())
def test_a_stream_is_read_like_its_single_requests(frames: list[bytes]) -> None:
    reader = ProduceReader()

    for frame in frames:
        try:
            request = read_request(memoryview(frame))
        except MalformedRequest:
            continue
        try:
            by_itself = read_produce(request.version, request.body)
        except (MalformedRequest, UnsupportedRequest) as error:
            with pytest.raises(type(error)):
                reader.read(request.version, request.body)
            continue
        read = reader.read(request.version, request.body)
        if isinstance(read, SingleProduce):
            assert read.records == request.body[read.records_at :][: len(read.records)]
            assert read.to_request() == decode_produce(request.version, request.body)
            if read.head is not None:
                assert read.head == KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(read.records))
                read = read._replace(head=None)
        assert read == by_itself


def read_all(reader: ProduceReader, frames: list[bytes]) -> list[bool]:
    """Returns whether each was read by the template: then the head of its batch was read, too."""
    requests = [read_request(memoryview(frame)) for frame in frames]
    read = [reader.read(request.version, request.body) for request in requests]
    return [isinstance(each, SingleProduce) and each.head is not None for each in read]


def test_the_head_of_a_batch_is_read_with_a_request_like_the_one_before() -> None:
    for version in (3, 8, 9, 12):
        frames = [
            produce(version, place, "c", "orders", place % 3, batch_of([(None, b"%d" % place, [])]))
            for place in range(5)
        ]

        assert read_all(ProduceReader(), frames) == [False, True, True, True, True]


def test_a_request_of_another_version_does_not_match() -> None:
    batch = batch_of([(None, b"a", [])])
    frames = [produce(version, 0, "c", "orders", 0, batch) for version in (7, 8, 7)]

    assert read_all(ProduceReader(), frames) == [False, False, True]


def test_a_producer_that_goes_over_to_another_topic_is_followed() -> None:
    reader, batch = ProduceReader(), batch_of([(None, b"a", [])])
    read_all(reader, [produce(7, 0, "c", "orders", 0, batch)])
    others = [produce(7, place, "c", "others", 0, batch) for place in range(MISSES_MAX + 1)]

    assert read_all(reader, others) == [False] * MISSES_MAX + [True]


def test_sizes_that_take_more_bytes_than_they_need_match_no_template() -> None:
    reader, batch = ProduceReader(), batch_of([(None, b"a", [])])
    request = read_request(memoryview(produce(9, 0, "c", "orders", 258, batch)))
    body = bytes(request.body).replace(b"\x07orders", b"\x87\x00orders")

    for _ in range(2):
        single = reader.read(request.version, memoryview(body))

        assert isinstance(single, SingleProduce)
        assert (single.topic, single.partition, bytes(single.records)) == ("orders", 258, batch)
