"""Requests and responses: other codecs read what we write, and the reverse, in every version that is served."""

from __future__ import annotations

import io
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tests.support.message_values import decode_request, decode_response, encode_request, encode_response
from tests.support.protocol_values import DESCRIBED_HERE, every_version, kafka_class, made_up, message_named
from warren.errors import KafkaMissing, MalformedRequest, UnsupportedRequest
from warren.protocol.api_keys import APIS, ApiKey, served
from warren.protocol.kafka_messages import HeartbeatResponse
from warren.protocol.native_messages import ListParkedResponse, WireSetting
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import COPIED_SIZE_MAX
from warren.protocol.schema_codec import CONTROL_SIZE_MAX, message_buffers
from warren.protocol.schemas import kafka_message
from warren.protocol.wire_struct import fields_of

# kafka-python reads its descriptions in a way that is deprecated in Python.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

EVERY = [pytest.param(api, version, id=f"{api.name}-{version}") for api, version in every_version()]
KAFKAS = [case for case in EVERY if case.values[0].key not in set(NativeKey)]  # type: ignore[union-attr]
DESCRIBED = [case for case in EVERY if f"{case.values[0].name}Request" not in DESCRIBED_HERE]  # type: ignore[union-attr]


def response(api_key: int, version: int, values: dict[str, Any]) -> bytes:
    return b"".join(encode_response(api_key, version, values))


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_written_fields_are_read_back(api: Any, version: int) -> None:
    for seed in range(4):
        request = made_up(message_named(f"{api.name}Request").fields, version, seed)
        answer = made_up(message_named(f"{api.name}Response").fields, version, seed)

        requested = encode_request(api.key, version, request)
        answered = response(api.key, version, answer)

        assert encode_request(api.key, version, fields_of(decode_request(api.key, version, requested))) == requested
        assert response(api.key, version, fields_of(decode_response(api.key, version, answered))) == answered


@pytest.mark.parametrize(("api", "version"), DESCRIBED)
def test_kafka_python_reads_and_writes_the_same_bytes(api: Any, version: int) -> None:
    for name, encode in ((f"{api.name}Request", encode_request), (f"{api.name}Response", response)):
        for seed in range(4):
            values = made_up(message_named(name).fields, version, seed)
            if name == "ApiVersionsResponse":
                # kafka-python treats any other answer as version 0, as clients must.
                values["error_code"] = 0
            ours = encode(api.key, version, values)

            theirs = kafka_class(name).decode(ours, version=version)
            theirs._header = None

            assert theirs.encode(version=version) == ours


@pytest.mark.parametrize(("api", "version"), KAFKAS)
def test_kio_reads_and_writes_the_same_bytes(api: Any, version: int) -> None:
    for seed in range(4):
        request = made_up(message_named(f"{api.name}Request").fields, version, seed)
        answer = with_known_codes(made_up(message_named(f"{api.name}Response").fields, version, seed))

        requested, answered = encode_request(api.key, version, request), response(api.key, version, answer)

        assert rewritten_by_kio(load_request_schema(api.key, version), requested) == requested
        assert rewritten_by_kio(load_response_schema(api.key, version), answered) == answered


def with_known_codes(value: Any) -> Any:
    """Returns the same values with error codes that kio has a name for."""
    if isinstance(value, dict):
        return {name: 3 if name.endswith("error_code") else with_known_codes(one) for name, one in value.items()}
    return [with_known_codes(one) for one in value] if isinstance(value, list) else value


def rewritten_by_kio(schema: Any, data: bytes) -> bytes:
    entity, size = entity_reader(schema)(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    entity_writer(schema)(out, entity)
    return out.getvalue()


def test_a_field_that_the_version_does_not_carry_has_its_default() -> None:
    body = encode_request(ApiKey.FETCH, 4, {"max_wait_ms": 500, "topics": [{"topic": "orders"}]})

    request = decode_request(ApiKey.FETCH, 4, body)

    assert (request.max_wait_ms, request.session_epoch, request.rack_id) == (500, -1, "")
    assert request.topics[0].topic == "orders"
    assert request.topics[0].topic_id == bytes(16)
    assert request.forgotten_topics_data == ()


def test_a_null_in_a_version_without_nulls_becomes_the_empty_value() -> None:
    old = decode_response(ApiKey.JOIN_GROUP, 5, response(ApiKey.JOIN_GROUP, 5, {"protocol_name": None}))
    new = decode_response(ApiKey.JOIN_GROUP, 7, response(ApiKey.JOIN_GROUP, 7, {"protocol_name": None}))

    assert (old.protocol_name, new.protocol_name) == ("", None)


def test_a_field_that_no_version_has_is_refused() -> None:
    with pytest.raises(TypeError, match="trottle_time_ms"):
        HeartbeatResponse(trottle_time_ms=1)  # type: ignore[call-arg]


def test_only_structs_of_the_class_of_a_field_are_written() -> None:
    wrong: Any
    for wrong, name in (({"id": "1"}, "dict"), (WireSetting("a", "1"), "WireSetting")):
        with pytest.raises(ValueError, match=f"a {name} where a ListParkedResponseParked is expected"):
            message_buffers(ListParkedResponse(parked=[wrong]), 0)


def test_record_batches_in_a_response_are_not_copied() -> None:
    batches = [memoryview(b"first" * 100), memoryview(b"second" * 100)]
    partition = {"partition_index": 3, "records": batches}

    buffers = encode_response(ApiKey.SHARE_FETCH, 1, {"responses": [{"partitions": [partition]}]})

    assert [buffer for buffer in buffers if any(buffer is batch for batch in batches)] == batches
    read = decode_response(ApiKey.SHARE_FETCH, 1, b"".join(buffers))
    assert read.responses[0].partitions[0].records == b"".join(batches)


def test_a_large_payload_in_a_native_response_is_not_copied() -> None:
    payload = bytes(COPIED_SIZE_MAX + 1)
    record = {"partition": 0, "message_count": 1, "checksum": 0, "payload": payload}
    values = {"messages": {"records": [record, {**record, "payload": b"small"}]}}

    buffers = encode_response(NativeKey.READ, 0, values)

    assert any(buffer is payload for buffer in buffers)
    records = decode_response(NativeKey.READ, 0, b"".join(buffers)).messages.records
    assert [bytes(each.payload) for each in records] == [payload, b"small"]


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 99), (4, 0), (-1, 0)])
def test_an_api_or_version_that_is_not_served_is_refused(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedRequest) as caught:
        served(api_key, version)

    assert (caught.value.api_key, caught.value.version) == (api_key, version)


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_a_body_that_is_cut_anywhere_is_malformed(api: Any, version: int) -> None:
    values = made_up(message_named(f"{api.name}Request").fields, version, 1)
    body = encode_request(api.key, version, values)

    for end in range(0, len(body), max(1, len(body) // 50)):
        with pytest.raises(MalformedRequest):
            decode_request(api.key, version, body[:end])


def test_a_control_request_over_the_limit_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="over the limit"):
        decode_request(ApiKey.METADATA, 1, bytes(CONTROL_SIZE_MAX + 1))


def test_a_response_may_be_larger_than_a_control_request() -> None:
    records = bytes(CONTROL_SIZE_MAX + 1)
    body = response(ApiKey.SHARE_FETCH, 1, {"responses": [{"partitions": [{"records": records}]}]})

    assert decode_response(ApiKey.SHARE_FETCH, 1, body).responses[0].partitions[0].records == records


def test_a_message_without_a_schema_is_an_error() -> None:
    with pytest.raises(KafkaMissing, match="install"):
        kafka_message("MakeCoffeeRequest")


def test_requests_and_structs_can_be_shown_and_compared() -> None:
    body = encode_request(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": [{"name": "t"}]})

    request = decode_request(ApiKey.OFFSET_DELETE, 0, body)

    text = "OffsetDeleteRequest(group_id='g', topics=[OffsetDeleteRequestTopic(name='t', partitions=[])])"
    assert repr(request) == text
    assert request == decode_request(ApiKey.OFFSET_DELETE, 0, body)
    assert request != decode_request(ApiKey.OFFSET_DELETE, 0, encode_request(ApiKey.OFFSET_DELETE, 0, {}))


def test_the_table_says_from_which_version_on_messages_are_flexible() -> None:
    for api in APIS.values():
        if f"{api.name}Request" not in DESCRIBED_HERE:
            for kind in ("Request", "Response"):
                flexible = kafka_message(api.name + kind).flexible
                for version in range(api.first, api.last + 1):
                    assert api.is_flexible(version) == (version in flexible), (api.name, version)
