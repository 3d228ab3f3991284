"""One record of version 1, as in the zbus document: big-endian, no checksum, the time in ms."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap
from typing import Final

from warren.errors import UnsupportedByVersion
from warren.message import NO_CORR_OFFSET
from warren.storage.format.layout import CODEC_SINGLE, RECORD_HEAD_V1, RecordHeadV1
from warren.storage.format.record import Damage, DiskMessage, Packed, check_body, check_corr_offset, text_bytes

ID_FIELD: Final = 40
TAG_FIELD: Final = 128
VERSION: Final = 1


def text_field(what: str, text: str, field_size: int) -> bytes:
    """Returns one length byte, the text, and zeros up to the field's size."""
    data = text_bytes(what, text, field_size - 1)
    return bytes((len(data),)) + data.ljust(field_size - 1, b"\0")


def field_text(field: bytes) -> str:
    """Returns the text of a field. Raises ValueError if its length byte cannot be right."""
    if field[0] >= len(field) or any(field[1 + field[0] :]):
        raise ValueError("a text field does not end where its length says")
    return field[1 : 1 + field[0]].decode()


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
    """Packs one message. `stamp` fills in its offset, time and number."""
    check_body(body)
    check_corr_offset(corr_offset)
    for what, is_present in (("a key", key is not None), ("headers", headers), ("compression", compression)):
        if is_present:
            raise UnsupportedByVersion(what, VERSION)
    id_field, tag_field = text_field("id", id, ID_FIELD), text_field("tag", tag, TAG_FIELD)
    head = RecordHeadV1(0, 0, id_field, corr_offset, 0, tag_field, len(body))
    return Packed(RECORD_HEAD_V1.pack(*head) + bytes(body), 0, 1)


def stamp(packed: Packed, offset: int, number: int, timestamp: int) -> bytes:
    """Returns the record as it is stored on disk."""
    head = RecordHeadV1._make(RECORD_HEAD_V1.unpack_from(packed.payload))
    head = head._replace(offset=offset, number=number, timestamp=timestamp // 1000)
    return RECORD_HEAD_V1.pack(*head) + packed.payload[RECORD_HEAD_V1.size :]


def record_size(packed: Packed) -> int:
    return len(packed.payload)


def next_blob(view: mmap, position: int, limit: int) -> tuple[int, bool]:
    """Returns the start of the next record, and True, because every blob of version 1 is data."""
    return _read_head(view, position, limit)[1], True


def _read_head(view: mmap, position: int, limit: int) -> tuple[RecordHeadV1, int]:
    """Returns the head of the record at `position`, and the end of the record. Raises Damage if it exceeds `limit`."""
    if position + RECORD_HEAD_V1.size > limit:
        raise Damage(position, "the head of a record would exceed the end")
    head = RecordHeadV1._make(RECORD_HEAD_V1.unpack_from(view, position))
    end = position + RECORD_HEAD_V1.size + head.length
    if end > limit:
        raise Damage(position, f"a body of {head.length} bytes does not fit here")
    return head, end


def _check_offset(head: RecordHeadV1, position: int, base_offset: int) -> None:
    if head.offset != base_offset + position:
        raise Damage(position, f"the record says offset {head.offset}, but is at {base_offset + position}")


def read_stamp(view: mmap, position: int, base_offset: int) -> tuple[int, int, int]:
    """Returns number, timestamp in µs and count of the record at `position`."""
    head = RecordHeadV1._make(RECORD_HEAD_V1.unpack_from(view, position))
    _check_offset(head, position, base_offset)
    return head.number, head.timestamp * 1000, 1


def read_record(view: mmap, position: int, limit: int, base_offset: int) -> DiskMessage:
    """Returns the record at `position`. Checks its structure; version 1 has no checksums."""
    head, end = _read_head(view, position, limit)
    _check_offset(head, position, base_offset)
    try:
        id, tag = field_text(head.id), field_text(head.tag)
    except ValueError as error:
        raise Damage(position, str(error)) from error
    body = view[position + RECORD_HEAD_V1.size : end]
    time = head.timestamp * 1000
    return DiskMessage(
        position, end, head.offset, head.number, time, 1, CODEC_SINGLE, head.corr_offset, id, tag, None, b"", body
    )
