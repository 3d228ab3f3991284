"""Requests read with an eye on the one before are read as each by itself is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.kafka_batches import batch_of
from warren.errors import MalformedRequest
from warren.protocol.alike import UNLIKE_MAX, RequestReader
from warren.protocol.api import ApiKey
from warren.protocol.heads import Request, read_request, request_frame
from warren.protocol.kafka_codec import encode_request
from warren.protocol.produce import PRODUCE, read_lone_produce
from warren.storage.layout import KAFKA_BATCH_HEAD, KafkaBatchHead

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
    """Frames of which many are alike, and some have been changed or cut."""
    kinds = draw(st.lists(FRAMES, min_size=1, max_size=3))
    frames = []
    for _ in range(draw(st.integers(1, 2 * UNLIKE_MAX))):
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


def by_itself(frame: bytes) -> Any:
    try:
        request = read_request(memoryview(frame))
    except MalformedRequest:
        return MalformedRequest
    if request.api_key != ApiKey.PRODUCE:
        return request
    return request._replace(lone=read_lone_produce(request.version, request.body))


@given(streams())
def test_a_stream_is_read_as_each_frame_by_itself(frames: list[bytes]) -> None:
    reader = RequestReader()

    for frame in frames:
        try:
            found: Any = reader.read(memoryview(frame))
        except MalformedRequest:
            found = MalformedRequest
        else:
            if found.lone is not None and found.lone.head is not None:
                assert found.lone.head == KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(found.lone.records))
                found = found._replace(lone=found.lone._replace(head=None))
        assert found == by_itself(frame)


def test_the_head_of_a_batch_is_read_with_a_request_like_the_one_before() -> None:
    for version in (3, 8, 9, 12):
        reader = RequestReader()
        frames = [
            produce(version, place, "c", "orders", place % 3, batch_of([(None, b"%d" % place, [])]))
            for place in range(5)
        ]

        found = [reader.read(memoryview(frame)).lone for frame in frames]

        assert [lone is not None and lone.head is not None for lone in found] == [False, True, True, True, True]


def test_whoever_goes_over_to_another_topic_is_followed() -> None:
    reader, batch = RequestReader(), batch_of([(None, b"a", [])])
    reader.read(memoryview(produce(7, 0, "c", "orders", 0, batch)))
    others = [memoryview(produce(7, place, "c", "others", 0, batch)) for place in range(UNLIKE_MAX + 1)]

    found = [reader.read(frame).lone for frame in others]

    assert [lone is not None and lone.head is not None for lone in found] == [False] * UNLIKE_MAX + [True]
