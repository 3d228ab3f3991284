"""Codecs: turn the items of a durable queue into bytes and back."""

from __future__ import annotations

import json
import pickle
from types import MappingProxyType
from typing import Any, Final, Protocol

from warren.errors import BadInput, UnreadableItem


class Codec(Protocol):
    """Turns items into bytes and back. The module `pickle` implements it, as do the modules of many serializers."""

    def dumps(self, item: Any, /) -> bytes: ...
    def loads(self, body: bytes, /) -> Any: ...


class JsonCodec:
    """Items are values that JSON can express: None, bool, numbers, str, list and dict. A tuple comes back as a list."""

    def dumps(self, item: Any, /) -> bytes:
        try:
            return json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(
                f"an item of type {type(item).__name__} cannot be written as JSON: {error}; "
                "open the queue with codec='bytes' or codec='pickle', or pass your own codec"
            ) from error

    def loads(self, body: bytes, /) -> Any:
        return json.loads(body)


class BytesCodec:
    """Items are bytes, stored as they are."""

    def dumps(self, item: Any, /) -> bytes:
        if not isinstance(item, bytes | bytearray | memoryview):
            raise BadInput(f"an item of a queue with codec='bytes' must be bytes, not {type(item).__name__}")
        return bytes(item)

    def loads(self, body: bytes, /) -> Any:
        return bytes(body)


NAMED: Final[MappingProxyType[str, Codec]] = MappingProxyType(
    {"json": JsonCodec(), "bytes": BytesCodec(), "pickle": pickle}
)
"""`pickle` runs code that its input names. So it is used only if the caller names it."""


def codec_of(codec: Any) -> Codec:
    """Returns the codec for the argument `codec` of `store.queue`: a name or an object.

    Raises BadInput if it is neither.
    """
    if isinstance(codec, str):
        if codec not in NAMED:
            raise BadInput(f"codec {codec!r}: expected one of {', '.join(NAMED)}, or an object with dumps and loads")
        return NAMED[codec]
    if not (callable(getattr(codec, "dumps", None)) and callable(getattr(codec, "loads", None))):
        raise BadInput(f"codec {codec!r}: expected one of {', '.join(NAMED)}, or an object with dumps and loads")
    checked: Codec = codec
    return checked


def read_item(codec: Codec, queue: str, body: bytes, number: int) -> Any:
    """Returns the item in `body`. Raises UnreadableItem, with body and number, if the codec cannot read it."""
    try:
        return codec.loads(body)
    except Exception as error:
        raise UnreadableItem(queue, body, str(error), number) from error
