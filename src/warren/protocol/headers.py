"""The heads of requests and responses: API key, version, correlation id and client id."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.errors import MalformedRequest
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import (
    CORRELATION_ID,
    FLEXIBLE_RESPONSE_HEAD,
    INT32,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    THROTTLE_TAG,
    UNREADABLE,
    Buffer,
    skip_tags,
)

NO_TEXT: Final = -1
"""The size of a client id that is null."""
MS_PER_S: Final = 1000
THROTTLE_TAG_NUMBER: Final = 0
JOINED_SIZE_MAX: Final = 4096
"""Up to this many bytes, copying into one buffer is faster than sending several."""


class Request(NamedTuple):
    """A request whose head was read. The broker may not serve its `version`."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: memoryview


def read_request(frame: memoryview) -> Request:
    """Returns the request in `frame`. Raises MalformedRequest if its head cannot be read.

    Key and version are not checked, because an ApiVersions request of any version is answered. The head:

        api key (2 bytes) | version (2) | correlation id (4) | size of client id (2) | client id | tags (flexible only)
    """
    try:
        api_key, version, correlation_id, size = REQUEST_HEAD.unpack_from(frame)
        position = REQUEST_HEAD.size
        client_id = None
        if size != NO_TEXT:
            position += size
            if size < 0 or position > len(frame):
                raise ValueError(f"a client id of {size} bytes")
            client_id = str(frame[REQUEST_HEAD.size : position], "utf-8")
        api = APIS.get(api_key)
        # A version that is newer than the served ones is refused by its head, so its tags need not be read.
        if api is not None and api.flexible_from <= version <= api.last:
            position = skip_tags(frame, position) if frame[position] else position + 1
    except UNREADABLE as error:
        raise MalformedRequest("the head of a request", str(error)) from error
    return tuple.__new__(Request, (api_key, version, correlation_id, client_id, frame[position:]))


def request_frame(request: Request, *, is_flexible: bool) -> bytes:
    """Returns the request as a client sends it, without the size before it."""
    client_id = b"" if request.client_id is None else request.client_id.encode()
    size = NO_TEXT if request.client_id is None else len(client_id)
    head = REQUEST_HEAD.pack(request.api_key, request.version, request.correlation_id, size)
    return b"".join((head, client_id, b"\0" if is_flexible else b"", request.body))


def read_response_head(frame: memoryview, *, is_flexible: bool) -> tuple[int, float, int]:
    """Returns the correlation id of an answer, the seconds that its client should wait, and the start of its body.

    Raises one of UNREADABLE if there is no such head.
    """
    (correlation_id,) = CORRELATION_ID.unpack_from(frame)
    position = CORRELATION_ID.size
    if not is_flexible:
        return correlation_id, 0.0, position
    throttle_s = 0.0
    if frame[position] == 1:
        number, size, throttle_ms = THROTTLE_TAG.unpack_from(frame, position + 1)
        if (number, size) == (THROTTLE_TAG_NUMBER, INT32.size):
            throttle_s = throttle_ms / MS_PER_S
    return correlation_id, throttle_s, skip_tags(frame, position)


def response_frame(request: Request, body: Sequence[Buffer], throttle_s: float = 0.0) -> tuple[int, Sequence[Buffer]]:
    """Returns the size of the answer to `request`, and the buffers to send, the size first.

    A small answer is one buffer, because that costs less to send; the buffers of a larger one are not copied. A tag in
    the head of Warren's own answers says for how long the client should send nothing.
    """
    api_key, version, correlation_id, _, _ = request
    api = APIS.get(api_key)
    # A client that does not know the versions yet must understand the answer to ApiVersions.
    is_flexible = api is not None and version >= api.flexible_from and api_key != ApiKey.API_VERSIONS
    tag_count = 1 if throttle_s and api_key >= NativeKey.OPEN_SESSION else 0
    if tag_count:
        body = (THROTTLE_TAG.pack(THROTTLE_TAG_NUMBER, INT32.size, math.ceil(throttle_s * MS_PER_S)), *body)
    body_size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    if is_flexible:
        head_size = FLEXIBLE_RESPONSE_HEAD.size
        head = FLEXIBLE_RESPONSE_HEAD.pack(head_size - INT32.size + body_size, correlation_id, tag_count)
    else:
        head_size = RESPONSE_HEAD.size
        head = RESPONSE_HEAD.pack(head_size - INT32.size + body_size, correlation_id)
    if body_size <= JOINED_SIZE_MAX:
        return head_size + body_size, (b"".join((head, *body)),)
    return head_size + body_size, (head, *body)
