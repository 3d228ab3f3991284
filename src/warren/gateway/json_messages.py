"""Messages of topics as JSON: as they are put, and as they are read."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from warren.config import HEADERS_SIZE_MAX, HTTP_BODY_SIZE_MAX, ID_SIZE_MAX, KEY_SIZE_MAX, TAG_SIZE_MAX
from warren.errors import TooLarge
from warren.gateway.shapes import BASE64, Bytes, Fields, Mapped, Shape, Text, Whole
from warren.message import Message
from warren.storage.columns import Batch

NUMBER_MAX: Final = (1 << 63) - 1
HEADERS_MAX: Final = 1000
Encoding = Literal["auto", "base64"]
ENCODINGS: Final = ("auto", "base64")
"""Bytes that are UTF-8 are given as text, or all bytes as base64."""

PUT_FIELDS: Final = Fields(
    {
        "body": Bytes(HTTP_BODY_SIZE_MAX),
        "key": Bytes(KEY_SIZE_MAX, is_nullable=True),
        "tag": Text(TAG_SIZE_MAX),
        "headers": Mapped(Bytes(HEADERS_SIZE_MAX), HEADERS_MAX),
        "id": Text(ID_SIZE_MAX),
    },
    required=("body",),
)
"""A message that is put."""

_READ: Final[Mapping[str, Shape]] = {
    "topic": Text(HTTP_BODY_SIZE_MAX),
    "partition": Whole(0, NUMBER_MAX),
    "number": Whole(0, NUMBER_MAX),
    "offset": Whole(0, NUMBER_MAX),
    "time": Text(64),
    "timestamp": Whole(0, NUMBER_MAX),
    "id": Text(HTTP_BODY_SIZE_MAX),
    "tag": Text(HTTP_BODY_SIZE_MAX),
    "key": Bytes(HTTP_BODY_SIZE_MAX, is_nullable=True),
    "headers": Mapped(Bytes(HTTP_BODY_SIZE_MAX), HTTP_BODY_SIZE_MAX),
    "body": Bytes(HTTP_BODY_SIZE_MAX),
}
READ_FIELDS: Final = Fields(_READ, required=tuple(_READ))
"""A message that was read."""
TAKEN_FIELDS: Final = Fields(
    {**_READ, "attempt": Whole(1, NUMBER_MAX), "lease": Text(256)}, required=(*_READ, "attempt", "lease")
)
"""A message that was taken from a queue group."""


def message_document(message: Message, encoding: Encoding = "auto") -> dict[str, Any]:
    """A message that was read; TooLarge where no answer holds it."""
    if len(message.body) > HTTP_BODY_SIZE_MAX:
        raise TooLarge(
            f"message {message.number} for an answer over HTTP: a body", len(message.body), HTTP_BODY_SIZE_MAX
        )
    return {
        "topic": str(message.topic),
        "partition": message.partition,
        "number": message.number,
        "offset": message.offset,
        "time": message.time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "timestamp": message.timestamp,
        "id": message.id,
        "tag": message.tag,
        "key": None if message.key is None else bytes_document(message.key, encoding),
        "headers": {name: bytes_document(value, encoding) for name, value in message.headers.items()},
        "body": bytes_document(message.body, encoding),
    }


def bytes_document(data: bytes, encoding: Encoding) -> str | dict[str, str]:
    """`data` as text where it is UTF-8 and may be given as text; else as base64."""
    if encoding == "auto":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {BASE64: base64.b64encode(data).decode()}


def batch_of(messages: Sequence[Mapping[str, Any]]) -> Batch:
    """The messages that are put, as columns; one that nobody has a value in is left out."""
    keys = [message.get("key") for message in messages]
    tags = [message.get("tag", "") for message in messages]
    ids = [message.get("id", "") for message in messages]
    headers = [message.get("headers") or None for message in messages]
    return Batch(
        [message["body"] for message in messages],
        tags=tags if any(tags) else None,
        keys=keys if any(key is not None for key in keys) else None,
        ids=ids if any(ids) else None,
        headers=headers if any(headers) else None,
    )
