"""One message by its number, by the shortest way: header, index2index, index, step, and one look at the record."""

from __future__ import annotations

from warren.message import NO_HEADERS, Message
from warren.storage import read
from warren.storage.block import Block
from warren.storage.checksum import crc32c
from warren.storage.layout import (
    CODEC_SINGLE,
    META_DATA,
    NO_KEY,
    NOT_READY,
    PAYLOAD_AT,
    PAYLOAD_HEAD,
    RECORD_HEAD,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
)
from warren.storage.read import Label
from warren.storage.record import unpack_headers
from warren.storage.view import LogView


def look_up(view: LogView, label: Label, number: int) -> Message | None:
    """Message `number`; None past the end."""
    found = view.quick(number)
    if found is not None:
        message = _single(found[0], found[1], number, label)
        if message is not None:
            return message
    messages = read.read(view, label, number, limit=1).messages
    return messages[0] if messages else None


def _single(block: Block, limit: int, number: int, label: Label) -> Message | None:
    """The message, where it is alone in its record and every check of it passes.

    None in any other case: reading it the long way then finds it, or says what is wrong.
    """
    position = block.guess(number, limit)
    if not position or position + RECORD_HEAD.size > limit:
        return None
    view = block.view
    head = RECORD_HEAD.unpack_from(view, position)
    word, checksum, offset, at, timestamp, stamp_checksum, _, corr_offset, codec = head[:9]
    id_size, tag_size, compression, key_size, headers_size = head[9:]
    end = position + SIZE_WORD.size + word
    if word & (META_DATA | NOT_READY) or end > limit or codec != CODEC_SINGLE or compression:
        return None
    payload = view[position + PAYLOAD_AT : end]
    if at != number or offset != block.base_offset + position or crc32c(payload) != checksum:
        return None
    if crc32c(view[position + STAMP_AT : position + STAMP_END]) != stamp_checksum:
        return None
    tag_at = PAYLOAD_HEAD.size + id_size
    key_at = tag_at + tag_size
    headers_at = key_at if key_size == NO_KEY else key_at + key_size
    body_at = headers_at + headers_size
    if body_at > len(payload):
        return None
    fields = (
        number,
        offset,
        label.partition,
        label.topic,
        timestamp,
        payload[PAYLOAD_HEAD.size : tag_at].decode() if id_size else "",
        payload[tag_at:key_at].decode() if tag_size else "",
        None if key_size == NO_KEY else payload[key_at:headers_at],
        unpack_headers(payload[headers_at:body_at]) if headers_size else NO_HEADERS,
        corr_offset,
        payload[body_at:],
        0,
    )
    return tuple.__new__(Message, fields)
