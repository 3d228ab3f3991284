"""Writes throttle times into answers that are already encoded, because only then the bytes to charge are known."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from struct import calcsize
from typing import Final

from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.headers import MS_PER_S, Request
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import FIXED_FORMATS, INT32, Buffer
from warren.protocol.schema_codec import RESPONSE, message_of

FIELD: Final = "throttle_time_ms"
NO_TAGS_SIZE: Final = 1


def throttled(request: Request, body: Sequence[Buffer], throttle_s: float) -> Sequence[Buffer]:
    """Returns the body of an answer with a throttle time in it, if answers of its version have one.

    Kafka puts it at the start, and in a Produce at the end; in ApiVersions it is after a list, and stays 0.
    """
    place = _place(request.api_key, request.version)
    if place is None or not body:
        return body
    time = INT32.pack(math.ceil(throttle_s * MS_PER_S))
    if place >= 0:
        return [_replaced(bytes(body[0]), place, time), *body[1:]]
    return [*body[:-1], _replaced(bytes(body[-1]), len(body[-1]) + place, time)]


def _replaced(data: bytes, place: int, time: bytes) -> bytes:
    return data[:place] + time + data[place + INT32.size :]


@functools.cache
def _place(api_key: int, version: int) -> int | None:
    """Returns the position of the throttle time, below 0 from the end; None if it has no fixed position."""
    api = APIS.get(api_key)
    if api is None or api_key >= NativeKey.OPEN_SESSION:
        return None
    fields = [each for each in message_of(f"{api.name}{RESPONSE}").fields if version in each.versions]
    names = [each.name for each in fields]
    if FIELD not in names:
        return None
    if api_key == ApiKey.PRODUCE:
        return -INT32.size - (NO_TAGS_SIZE if api.is_flexible(version) else 0)
    before = fields[: names.index(FIELD)]
    if any(each.is_array or each.kind not in FIXED_FORMATS for each in before):
        return None
    return sum(calcsize(FIXED_FORMATS[each.kind]) for each in before)
