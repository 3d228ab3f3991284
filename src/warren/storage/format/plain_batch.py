"""Packs and checks a record of one message that has only a body, a tag and a marker, in a fifth of the general time.

For a body of 100 bytes packing takes 1.0 µs instead of 7.7 µs with `packing.pack_batch`, and checking takes 1.0 µs
instead of the 5.5 µs that unpacking the record would take. The bytes are the same, and every reader reads them. It is
what a client sends for a single put:

    payload:  | PAYLOAD_HEAD | tag | 0 … | MARKED_TABLE                           | body | 0 … | marker | 0 … |
                                         ^ columns_at: on an 8-byte boundary      ^ at + MARKED_TABLE.size
    table:    | 3, 0 | body ends, 8 | bodies, size | marker, its size | 0, size   (the two ends of the body)
"""

from __future__ import annotations

import functools
from typing import Final

from warren.errors import BadInput, TooLarge
from warren.message import NO_CORR_OFFSET
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import (
    ALIGNMENT,
    CODEC_COLUMNS,
    MARKED_TABLE,
    NO_KEY,
    PADDING,
    PAYLOAD_HEAD,
    SECTION_BODIES,
    SECTION_BODY_ENDS,
    SECTION_MARKER,
    aligned,
)
from warren.storage.format.limits import BODY_SIZE_MAX, MARKER_SIZE_MAX, TAG_SIZE_MAX
from warren.storage.format.record import Packed, columns_at, text_bytes

ENDS_SIZE: Final = 8
SECTION_COUNT: Final = 3


@functools.lru_cache(maxsize=1024)
def _head(tag: str) -> bytes:
    """Returns the bytes before the columns."""
    data = text_bytes("tag", tag, TAG_SIZE_MAX)
    head = PAYLOAD_HEAD.pack(1, NO_CORR_OFFSET, CODEC_COLUMNS, 0, len(data), 0, NO_KEY, 0) + data
    return head.ljust(columns_at(len(head)), b"\0")


def pack_plain_batch(body: bytes, tag: str, marker: bytes) -> Packed:
    """Returns the record of a message.

    Raises TooLarge if the body is over its limit, and BadInput if it is not bytes.
    """
    size, marker_size = len(body), len(marker)
    if size > BODY_SIZE_MAX:
        raise TooLarge("body", size, BODY_SIZE_MAX)
    table = MARKED_TABLE.pack(
        SECTION_COUNT, 0, SECTION_BODY_ENDS, ENDS_SIZE, SECTION_BODIES, size, SECTION_MARKER, marker_size, 0, size
    )
    try:
        payload = b"".join(
            (_head(tag), table, body, PADDING[-size % ALIGNMENT], marker, PADDING[-marker_size % ALIGNMENT])
        )
    except TypeError as error:
        raise BadInput(f"body: expected bytes, not {type(body).__name__}") from error
    return Packed(payload, crc32c(payload), 1)


def is_plain_batch(packed: Packed, body_size_max: int) -> bool:
    """Returns whether `packed` is such a record, without damage, with a body of at most `body_size_max` bytes."""
    payload, checksum, message_count = bytes(packed.payload), packed.checksum, packed.message_count
    if message_count != 1 or len(payload) < PAYLOAD_HEAD.size:
        return False
    at, tag_size = len(TAGLESS), 0
    if not payload.startswith(TAGLESS):
        *fields, id_size, tag_size, compression, key_size, headers_size = PAYLOAD_HEAD.unpack_from(payload)
        if (*fields, id_size, compression, key_size, headers_size) != PLAIN or tag_size > TAG_SIZE_MAX:
            return False
        at = columns_at(PAYLOAD_HEAD.size + tag_size)
    if len(payload) < at + MARKED_TABLE.size:
        return False
    count, flags, ends_kind, ends_size, bodies_kind, size, marker_kind, marker_size, start, end = (
        MARKED_TABLE.unpack_from(payload, at)
    )
    return (
        # The columns are those of one body and its marker, and nothing follows.
        (count, flags, ends_kind, ends_size, bodies_kind, marker_kind, start) == TABLE
        and end == size <= body_size_max
        and marker_size <= MARKER_SIZE_MAX
        and len(payload) == at + MARKED_TABLE.size + aligned(size) + aligned(marker_size)
        and crc32c(payload) == checksum
        and (not tag_size or _is_text(payload, tag_size))
    )


PLAIN: Final = (1, NO_CORR_OFFSET, CODEC_COLUMNS, 0, 0, NO_KEY, 0)
TAGLESS: Final = _head("")
TABLE: Final = (SECTION_COUNT, 0, SECTION_BODY_ENDS, ENDS_SIZE, SECTION_BODIES, SECTION_MARKER, 0)


def _is_text(payload: bytes, tag_size: int) -> bool:
    try:
        str(payload[PAYLOAD_HEAD.size : PAYLOAD_HEAD.size + tag_size], "utf-8")
    except UnicodeDecodeError:
        return False
    return True
