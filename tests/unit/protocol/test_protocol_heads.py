"""Heads of requests and responses: in the form that Kafka's own classes read and write."""

from __future__ import annotations

import io

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from warren.errors import MalformedRequest
from warren.protocol.api_keys import ApiKey
from warren.protocol.headers import JOINED_SIZE_MAX, Request, read_request, request_frame, response_frame
from warren.protocol.primitives import Buffer


def written_by_kio(api_key: int, version: int, client_id: str | None, *, is_flexible: bool) -> bytes:
    kind = HeaderV2 if is_flexible else HeaderV1
    out = io.BytesIO()
    header = kind(
        request_api_key=i16(api_key), request_api_version=i16(version), correlation_id=i32(77), client_id=client_id
    )
    entity_writer(kind)(out, header)
    return out.getvalue()


@pytest.mark.parametrize("client_id", [None, "", "kcat", "ä" * 300])
@pytest.mark.parametrize(
    ("api_key", "version", "is_flexible"), [(3, 8, False), (3, 9, True), (18, 3, True), (17, 1, False), (0, 7, False)]
)
def test_a_head_is_read_and_written_as_kafka_does(
    api_key: int, version: int, is_flexible: bool, client_id: str | None
) -> None:
    frame = written_by_kio(api_key, version, client_id, is_flexible=is_flexible) + b"body"

    request = read_request(memoryview(frame))

    assert request == Request(api_key, version, 77, client_id, memoryview(b"body"))
    assert request_frame(request, is_flexible=is_flexible) == frame


@pytest.mark.parametrize("version", [5, 100, -1])
def test_the_head_of_a_version_that_is_not_served_is_read(version: int) -> None:
    frame = written_by_kio(ApiKey.API_VERSIONS, version, "new", is_flexible=False) + b"whatever"

    request = read_request(memoryview(frame))

    assert (request.version, request.correlation_id, request.client_id) == (version, 77, "new")


def test_the_head_of_an_unknown_key_is_read() -> None:
    assert read_request(memoryview(written_by_kio(999, 0, None, is_flexible=False))).api_key == 999


def test_a_head_that_is_cut_is_malformed() -> None:
    frame = written_by_kio(3, 9, "client", is_flexible=True)

    for end in range(len(frame)):
        with pytest.raises(MalformedRequest):
            read_request(memoryview(frame[:end]))


@pytest.mark.parametrize(
    ("api_key", "version", "tags"),
    [(3, 8, b""), (3, 9, b"\0"), (18, 3, b""), (18, 0, b""), (999, 9, b"")],
)
def test_a_response_has_its_size_and_correlation_id_and_is_flexible_except_for_api_versions(
    api_key: int, version: int, tags: bytes
) -> None:
    request = Request(api_key, version, 5, None, memoryview(b""))
    body: list[Buffer] = [b"ab", memoryview(b"cde")]

    size, buffers = response_frame(request, body)

    content = b"\0\0\0\5" + tags + b"abcde"
    assert buffers == (len(content).to_bytes(4, "big") + content,)
    assert size == len(buffers[0])


def test_the_buffers_of_a_large_response_are_not_copied() -> None:
    request = Request(3, 8, 5, None, memoryview(b""))
    body: list[Buffer] = [b"ab", memoryview(bytes(JOINED_SIZE_MAX))]

    size, buffers = response_frame(request, body)

    sent = b"".join(buffers)
    assert sent == (size - 4).to_bytes(4, "big") + b"\0\0\0\5" + b"".join(body)
    assert size == len(sent)
    assert buffers[-1] is body[-1]
