"""What stands before the body of each request and response: keys, versions, correlation ids and client ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warren.errors import MalformedRequest
from warren.protocol.api import APIS, ApiKey
from warren.protocol.codec import (
    FLEXIBLE_RESPONSE_HEAD,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    UNREADABLE,
    Buffer,
    read_size16,
    size16,
    skip_tags,
    text_reader,
)

READ_CLIENT_ID = text_reader(read_size16, is_nullable=True)
"""Of two bytes of size in every version: a broker must find its way in requests that are newer than itself."""


class Request(NamedTuple):
    """A request whose head was read. `version` may be one that is not served."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: memoryview


def read_request(frame: memoryview) -> Request:
    """The head of the request in `frame`; MalformedRequest where there is none.

    Whether key and version are served is not looked at: an ApiVersions request of any version is answered.
    """
    try:
        api_key, version, correlation_id = REQUEST_HEAD.unpack_from(frame)
        client_id, position = READ_CLIENT_ID(frame, REQUEST_HEAD.size)
        api = APIS.get(api_key)
        # Of a version that is newer than what is served the head is enough, and its tags are none of our business.
        if api is not None and api.flexible_from <= version <= api.last:
            position = skip_tags(frame, position) if frame[position] else position + 1
    except UNREADABLE as error:
        raise MalformedRequest("the head of a request", str(error)) from error
    return tuple.__new__(Request, (api_key, version, correlation_id, client_id, frame[position:]))


def request_frame(request: Request, *, is_flexible: bool) -> bytes:
    """The request as a client sends it, without the size before it."""
    client_id = b"" if request.client_id is None else request.client_id.encode()
    size = size16(-1 if request.client_id is None else len(client_id))
    head = REQUEST_HEAD.pack(request.api_key, request.version, request.correlation_id)
    return b"".join((head, size, client_id, b"\0" if is_flexible else b"", request.body))


def response_frame(request: Request, body: Sequence[Buffer]) -> list[Buffer]:
    """The buffers to send as the answer to `request`, the size first; those of the body are not copied."""
    api = APIS.get(request.api_key)
    # The answer to ApiVersions must be understood by who does not know yet which versions there are.
    is_flexible = api is not None and api.is_flexible(request.version) and request.api_key != ApiKey.API_VERSIONS
    layout = FLEXIBLE_RESPONSE_HEAD if is_flexible else RESPONSE_HEAD
    size = layout.size - 4 + sum(map(len, body))
    head = layout.pack(size, request.correlation_id, 0) if is_flexible else layout.pack(size, request.correlation_id)
    return [head, *body]
