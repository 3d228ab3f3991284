"""One record of version 2: the sender packs it, the writer of the log stamps it, and each reader checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from mmap import mmap
from typing import Any, Final, NamedTuple

from warren.errors import BadInput, TooLarge
from warren.message import NO_CORR_OFFSET, NO_HEADERS
from warren.storage.format.allowance import UNASKED_SIZE_MAX, use_allowance
from warren.storage.format.checksum import crc32c
from warren.storage.format.compression import compress, decompress
from warren.storage.format.layout import (
    ALIGNMENT,
    CODEC_COLUMNS,
    CODEC_KAFKA,
    CODEC_SINGLE,
    HEADER_SIZES,
    META_DATA,
    NO_KEY,
    NOT_READY,
    PAYLOAD_AT,
    PAYLOAD_HEAD,
    RECORD_HEAD,
    SIZE_MASK,
    SIZE_WORD,
    STAMP,
    STAMP_AT,
    STAMP_END,
    STAMPED,
    RecordHead,
    aligned,
)
from warren.storage.format.limits import BODY_SIZE_MAX, HEADERS_SIZE_MAX, ID_SIZE_MAX, KEY_SIZE_MAX, TAG_SIZE_MAX
from warren.storage.format.slices import COPIED_SIZE_MAX, copied

PLAIN_HEAD: Final = PAYLOAD_HEAD.pack(1, NO_CORR_OFFSET, CODEC_SINGLE, 0, 0, 0, NO_KEY, 0)
"""The payload head of a single message with only a body."""
COMPRESS_SIZE_MIN: Final = 128
CODECS: Final = (CODEC_SINGLE, CODEC_COLUMNS, CODEC_KAFKA)
NEW_TUPLE: Final = tuple.__new__
UNPACK_HEAD: Final = RECORD_HEAD.unpack_from
"""Returns the fields of RecordHead, in its order, of the head at a position.

For the two hottest loops; see `unpack_head`.
"""

View = mmap | memoryview | bytes
"""Bytes that hold records: a mapped block, a view of one, or a copy."""


class Damage(Exception):
    """Bytes with a wrong checksum or structure. The caller that knows the file raises CorruptRecord."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at {position}: {reason}")
        self.position, self.reason = position, reason


class Unreadable(Damage):
    """A record that matches its checksums, but whose content, from a Kafka client, no reader can unpack.

    Nothing on disk is damaged. All readers follow one rule: they skip the record, count it, and continue after its
    numbers (decision 0027).
    """


class Packed(NamedTuple):
    """A record without its stamp: the payload, its checksum, and how many messages it holds."""

    payload: bytes | memoryview
    checksum: int
    message_count: int


class DiskMessage(NamedTuple):
    """A record that was read and checked, with its fields. `end` is the start of the next blob.

    `body` is that of a single message. `area` holds the columns of a batch, in the mapped file, or unpacked if they
    were compressed. For a Kafka batch `area` is the batch as it was stored, and `headers` is its marker.
    """

    position: int
    end: int
    offset: int
    number: int
    timestamp: int
    message_count: int
    codec: int
    corr_offset: int
    id: str
    tag: str
    key: bytes | None
    headers: bytes
    body: bytes
    area: bytes | memoryview = b""


def check_body(body: bytes) -> None:
    """Raises BadInput if `body` is not bytes, and TooLarge if it is over its limit."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise BadInput(f"body: expected bytes, not {type(body).__name__}")
    if len(body) > BODY_SIZE_MAX:
        raise TooLarge("body", len(body), BODY_SIZE_MAX)


def check_sequence(bodies: Sequence[bytes]) -> None:
    """Raises BadInput if `bodies` is not a sequence. Does not check each body."""
    if not hasattr(bodies, "__len__") or not hasattr(bodies, "__getitem__"):
        raise BadInput(f"bodies: expected a sequence of bytes, not {type(bodies).__name__}")


def check_bodies(bodies: Sequence[bytes]) -> None:
    """Raises BadInput for the first body that is not valid."""
    check_sequence(bodies)
    for row, body in enumerate(bodies):
        if not isinstance(body, bytes | bytearray | memoryview):
            raise BadInput(f"bodies[{row}]: expected bytes, not {type(body).__name__}")


def check_size(what: str, size: int, size_max: int) -> None:
    """Raises TooLarge if `size` is over `size_max`. Every check of a topic's size limits uses this function."""
    if size > size_max:
        raise TooLarge(what, size, size_max)


def text_bytes(what: str, text: str, size_max: int) -> bytes:
    """Returns `text` in UTF-8. Raises BadInput if it is not text, and TooLarge if it is over `size_max` bytes."""
    if not isinstance(text, str):
        raise BadInput(f"{what}: expected a str, not {type(text).__name__}")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{what} {text!r} cannot be encoded as UTF-8: {error.reason}") from error
    if len(data) > size_max:
        raise TooLarge(what, len(data), size_max)
    return data


def check_corr_offset(corr_offset: Any) -> int:
    """Returns the offset. Raises BadInput if it is not a valid one."""
    if not isinstance(corr_offset, int) or not NO_CORR_OFFSET <= corr_offset < 1 << 63:
        raise BadInput(f"corr_offset {corr_offset!r}: expected an offset, or {NO_CORR_OFFSET} for none")
    return corr_offset


def key_bytes(key: bytes) -> bytes:
    """Returns `key` as bytes. Raises BadInput if it is not bytes, and TooLarge if it is over its limit."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise BadInput(f"key: expected bytes, not {type(key).__name__}")
    if len(key) > KEY_SIZE_MAX:
        raise TooLarge("key", len(key), KEY_SIZE_MAX)
    return bytes(key)


def pack_headers(headers: Mapping[str, bytes]) -> bytes:
    """Packs names and values back to back, each pair after its sizes."""
    if not isinstance(headers, Mapping):
        raise BadInput(f"headers: expected a mapping of names to bytes, not {type(headers).__name__}")
    parts: list[bytes] = []
    for name, value in headers.items():
        if not isinstance(value, bytes):
            raise BadInput(f"header {name!r}: expected bytes, not {type(value).__name__}")
        encoded = text_bytes("header name", name, 255)
        if len(value) > HEADERS_SIZE_MAX:
            raise TooLarge(f"header {name!r}", len(value), HEADERS_SIZE_MAX)
        parts += (HEADER_SIZES.pack(len(encoded), len(value)), encoded, value)
    data = b"".join(parts)
    if len(data) > HEADERS_SIZE_MAX:
        raise TooLarge("headers", len(data), HEADERS_SIZE_MAX)
    return data


def unpack_headers(data: bytes) -> Mapping[str, bytes]:
    """Returns the headers that `pack_headers` packed. Raises ValueError if it cannot have packed `data`."""
    if not data:
        return NO_HEADERS
    headers: dict[str, bytes] = {}
    position = 0
    while position + HEADER_SIZES.size <= len(data):
        name_size, value_size = HEADER_SIZES.unpack_from(data, position)
        name_at = position + HEADER_SIZES.size
        value_at = name_at + name_size
        position = value_at + value_size
        headers[data[name_at:value_at].decode()] = data[value_at:position]
    if position != len(data):
        raise ValueError("the headers do not end where they should")
    return headers


def pack_single(
    body: bytes,
    *,
    tag: str = "",
    key: bytes | None = None,
    headers: Mapping[str, bytes] | None = None,
    id: str = "",
    corr_offset: int = NO_CORR_OFFSET,
    compression: int = 0,
) -> Packed:
    """Packs one message, ready to be stamped."""
    if type(body) is not bytes or len(body) > BODY_SIZE_MAX:
        check_body(body)
    check_corr_offset(corr_offset)
    id_data = text_bytes("id", id, ID_SIZE_MAX) if id != "" else b""
    tag_data = text_bytes("tag", tag, TAG_SIZE_MAX) if tag != "" else b""
    key_data = b"" if key is None else key_bytes(key)
    headers_data = pack_headers(headers) if headers else b""
    small = compress(bytes(body), compression) if compression and len(body) >= COMPRESS_SIZE_MIN else None
    head = PAYLOAD_HEAD.pack(
        1,
        corr_offset,
        CODEC_SINGLE,
        len(id_data),
        len(tag_data),
        compression if small is not None else 0,
        NO_KEY if key is None else len(key_data),
        len(headers_data),
    )
    payload = b"".join((head, id_data, tag_data, key_data, headers_data, body if small is None else small))
    return Packed(payload, crc32c(payload), 1)


def stamp(packed: Packed, offset: int, number: int, timestamp: int) -> bytes:
    """Returns the record as it is stored on disk."""
    return stamp_head(packed, offset, number, timestamp) + packed.payload


def stamp_head(packed: Packed, offset: int, number: int, timestamp: int) -> bytes:
    """Returns the head that precedes the payload, for large records, whose payload is not copied."""
    payload, checksum, _ = packed
    stamped = STAMP.pack(offset, number, timestamp)
    return STAMPED.pack(len(payload) + PAYLOAD_AT - SIZE_WORD.size, checksum, stamped, crc32c(stamped))


def record_size(packed: Packed) -> int:
    """Returns how many bytes of a block the record takes, with its padding."""
    return aligned(PAYLOAD_AT + len(packed.payload))


def next_blob(view: mmap, position: int, limit: int) -> tuple[int, bool]:
    """Returns where the blob after the one at `position` starts, and whether this one is data.

    Raises Damage if no blob fits here.
    """
    if position + SIZE_WORD.size > limit:
        raise Damage(position, "a size word would exceed the end")
    (word,) = SIZE_WORD.unpack_from(view, position)
    size = word & SIZE_MASK
    end, is_data = aligned(position + SIZE_WORD.size + size), not word & META_DATA
    if word & NOT_READY or not size or end > limit or (is_data and size < RECORD_HEAD.size - SIZE_WORD.size):
        raise Damage(position, f"size word {word:#010x} is not valid here")
    return end, is_data


def unpack_head(view: View, position: int) -> RecordHead:
    """Returns the head at `position`, of which nothing is checked:

        0           4          8        16       24          32               36
        | size word | checksum | offset | number | timestamp | stamp checksum | payload …
                               ^ STAMP_AT                    ^ STAMP_END      ^ PAYLOAD_AT

        36              40            48      49        50         51            52         54             56
        | message count | corr offset | codec | id size | tag size | compression | key size | headers size | id …

    Every reader takes a head apart with this function, and the two hottest loops with its Struct.
    """
    head: RecordHead = NEW_TUPLE(RecordHead, UNPACK_HEAD(view, position))
    return head


def check_stamp(head: RecordHead, view: View, position: int, base_offset: int) -> None:
    """Raises Damage if the stamp in a head does not match its checksum, or belongs to another position."""
    if crc32c(view[position + STAMP_AT : position + STAMP_END]) != head.stamp_checksum:
        raise Damage(position, "the stamp does not match its checksum")
    if head.offset != base_offset + position:
        raise Damage(position, f"the record says offset {head.offset}, but is at {base_offset + position}")


def read_head(view: View, position: int, base_offset: int) -> RecordHead:
    """Returns the head of the record at `position`. Checks its stamp, but neither the size word nor the payload.

    Raises Damage if the stamp does not match its checksum or belongs to another position.
    """
    head = unpack_head(view, position)
    check_stamp(head, view, position, base_offset)
    return head


def read_stamp(view: mmap, position: int, base_offset: int) -> tuple[int, int, int]:
    """Returns number, timestamp and count of the record at `position`. Checks its stamp, but not its payload."""
    head = read_head(view, position, base_offset)
    return head.number, head.timestamp, head.message_count


def read_record(view: View, position: int, limit: int, base_offset: int) -> DiskMessage:
    """Returns the record at `position`. Raises Damage if a checksum does not match."""
    if position + RECORD_HEAD.size > limit:
        raise Damage(position, "the head of a record would exceed the end")
    head = unpack_head(view, position)
    size_word = head.size_word
    payload_at, payload_end = position + PAYLOAD_AT, position + SIZE_WORD.size + (size_word & SIZE_MASK)
    end = (payload_end + ALIGNMENT - 1) & -ALIGNMENT
    if size_word >= META_DATA or end > limit:
        raise Damage(position, f"size word {size_word:#010x} is not valid here")
    check_stamp(head, view, position, base_offset)
    if size_word > UNASKED_SIZE_MAX and head.codec != CODEC_KAFKA and not head.compression:
        use_allowance(size_word)
    # A batch is large: it is checked in the mapped file, and not copied. Of a large message only the body is copied.
    is_copied = head.codec == CODEC_SINGLE and size_word <= COPIED_SIZE_MAX
    payload = view[payload_at:payload_end] if is_copied else memoryview(view)[payload_at:payload_end]
    if crc32c(payload) != head.checksum:
        raise Damage(position, "the payload does not match its checksum")
    return _take_apart(payload, head, position, end)


def read_unstored(packed: Packed) -> DiskMessage:
    """Returns a packed record that is in no log, checked as in `read_record`. Its offset, number and time are 0."""
    data = stamp(packed, 0, 0, 0).ljust(record_size(packed), b"\0")
    return read_record(data, 0, len(data), 0)


def read_packed(view: mmap, position: int, limit: int, base_offset: int) -> tuple[Packed, int, int]:
    """Returns the record at `position` as it was packed, checked; the number of its first message, and its end."""
    if position + RECORD_HEAD.size > limit:
        raise Damage(position, "the head of a record would exceed the end")
    end, is_data = next_blob(view, position, limit)
    if not is_data:
        raise Damage(position, "meta-data was found where a record was expected")
    head = read_head(view, position, base_offset)
    payload = view[position + PAYLOAD_AT : position + SIZE_WORD.size + (head.size_word & SIZE_MASK)]
    if crc32c(payload) != head.checksum or not head.message_count:
        raise Damage(position, "the payload does not match its checksum")
    return Packed(payload, head.checksum, head.message_count), head.number, end


def peek_area(view: mmap, position: int) -> tuple[memoryview, int] | None:
    """Returns the columns of the batch at `position`, neither checked nor unpacked, and how many messages it holds.

    Returns None if it is not a batch, or a compressed one.
    """
    head = unpack_head(view, position)
    if head.codec != CODEC_COLUMNS or head.compression or head.key_size != NO_KEY:
        return None
    body_at = PAYLOAD_HEAD.size + head.id_size + head.tag_size + head.headers_size
    area_at, end = position + PAYLOAD_AT + columns_at(body_at), position + SIZE_WORD.size + (head.size_word & SIZE_MASK)
    return memoryview(view)[area_at:end], head.message_count


def peek_marker(view: mmap, position: int) -> tuple[bytes, int] | None:
    """Returns the marker of the Kafka batch at `position`, unchecked, and its count; None if it is
    not a Kafka batch.
    """
    head = unpack_head(view, position)
    if head.codec != CODEC_KAFKA or head.id_size or head.tag_size or head.key_size != NO_KEY:
        return None
    marker_at = position + RECORD_HEAD.size
    return view[marker_at : marker_at + head.headers_size], head.message_count


def _take_apart(payload: bytes | memoryview, head: RecordHead, position: int, end: int) -> DiskMessage:
    _, _, offset, number, timestamp, _, count, corr_offset, codec, id_size, tag_size, compression, key_size, _ = head
    tag_at = PAYLOAD_HEAD.size + id_size
    key_at = tag_at + tag_size
    headers_at = key_at if key_size == NO_KEY else key_at + key_size
    body_at = headers_at + head.headers_size
    if codec == CODEC_COLUMNS:
        body_at = columns_at(body_at)
    if body_at > len(payload) or codec not in CODECS or not count or (codec == CODEC_KAFKA and compression):
        raise Damage(position, "the sizes in the head do not match the record")
    body, area, headers = payload[body_at:], b"", b""
    try:
        if compression:
            body = decompress(body, compression)
        id = str(payload[PAYLOAD_HEAD.size : tag_at], "utf-8") if id_size else ""
        tag = str(payload[tag_at:key_at], "utf-8") if tag_size else ""
    except ValueError as error:
        raise Damage(position, str(error)) from error
    key = None if key_size == NO_KEY else bytes(payload[key_at:headers_at])
    if headers_at < body_at and codec != CODEC_COLUMNS:
        headers = bytes(payload[headers_at:body_at])
    if codec != CODEC_SINGLE:
        body, area = b"", body
    elif isinstance(body, memoryview):
        body = copied(body)
    fields = (position, end, offset, number, timestamp, count, codec, corr_offset, id, tag, key, headers, body, area)
    return tuple.__new__(DiskMessage, fields)


def columns_at(body_at: int) -> int:
    """Returns the position of the columns in a payload: on an 8-byte boundary of the record,
    because readers map them.
    """
    return aligned(body_at + PAYLOAD_AT) - PAYLOAD_AT
