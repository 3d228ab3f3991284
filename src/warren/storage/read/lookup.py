"""Reads one message by its number in the shortest way: index2index, index, a few steps, and one check of the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.message import NO_HEADERS, Message
from warren.storage.disk.block import Block
from warren.storage.format.allowance import UNASKED_SIZE_MAX, is_limited
from warren.storage.format.checksum import crc32c
from warren.storage.format.columns import Columns, decoded
from warren.storage.format.layout import (
    CODEC_COLUMNS,
    CODEC_SINGLE,
    META_DATA,
    NO_KEY,
    NOT_READY,
    PAYLOAD_AT,
    PAYLOAD_HEAD,
    PIECE,
    PIECE_STEP,
    RECORD_HEAD,
    SECTION_BODY_ENDS,
    SECTION_CORR_OFFSETS,
    SECTION_HEADERS_ENDS,
    SECTION_ID_ENDS,
    SECTION_KEY_ENDS,
    SECTION_KEY_PRESENT,
    SECTION_TAG_CODES,
    SIZE_WORD,
    STAMP_AT,
    STAMP_END,
    RecordHead,
    aligned,
)
from warren.storage.format.record import UNPACK_HEAD, Damage, read_head, unpack_headers
from warren.storage.read import messages as read
from warren.storage.read.log_view import LogView
from warren.storage.read.messages import Label

PLAIN_SECTION_COUNT: Final = 2
"""The number of sections in a batch that has only bodies."""


def look_up(view: LogView, label: Label, number: int) -> Message | None:
    """Returns message `number`, or None if it is past the end or in a batch that cannot be read.

    The fast path takes 5 µs instead of 14 µs with `messages.read`, and 9 µs instead of 32 µs for a message in a batch
    of 100. If something looks wrong, `messages.read` reads the message, and reports the damage.
    """
    place = view.quick(number)
    if place is not None:
        message = _find(view, place[0], place[1], number, label)
        if message is not None:
            return message
    messages = read.read(view, label, number, limit=1).messages
    return messages[0] if messages and messages[0].number == number else None


def _find(log_view: LogView, block: Block, limit: int, number: int, label: Label) -> Message | None:
    """Returns the message if its record is single, or a batch that is not compressed, and every check passes.

    Returns None in any other case: the ordinary read then finds the message, or raises what is wrong. The bytes of a
    single record:

        | size word, checksum | stamp: offset, number, timestamp | stamp checksum | payload                      | 0 …
        ^ position            ^ STAMP_AT                         ^ STAMP_END      ^ PAYLOAD_AT                   ^ end

        payload:  | PAYLOAD_HEAD | id | tag | key | headers | body
                                      ^     ^     ^         ^ body_at
                                      tag_at key_at headers_at

    It takes the head apart with the Struct of `unpack_head`, in the order of RecordHead, and without its call: a
    look-up would take 4.8 µs instead of 4.5 µs.
    """
    position = block.guess(number, limit)
    if not position or position + RECORD_HEAD.size > limit:
        return None
    view = block.view
    head = UNPACK_HEAD(view, position)
    word, checksum, offset, first, timestamp, stamp_checksum, _, corr_offset, codec, *sizes = head
    id_size, tag_size, compression, key_size, headers_size = sizes
    end = position + SIZE_WORD.size + word
    if word & (META_DATA | NOT_READY) or end > limit or compression:
        return None
    if word > UNASKED_SIZE_MAX and is_limited():
        # A broker counts it first.
        return None
    if codec != CODEC_SINGLE:
        return _find_row(log_view, block, position, number, label) if codec == CODEC_COLUMNS else None
    payload = view[position + PAYLOAD_AT : end]
    if first != number or offset != block.base_offset + position or crc32c(payload) != checksum:
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


def _find_row(log_view: LogView, block: Block, position: int, number: int, label: Label) -> Message | None:
    """Returns the message in the batch at `position`, or None if a check of the batch fails.

    A batch that is on disk is checked as a whole once. Its stamp is checked at every look-up.
    """
    try:
        head = read_head(block.view, position, block.base_offset)
    except Damage:
        return None
    view = memoryview(block.view)
    checksum, first, count = head.checksum, head.number, head.message_count
    row, end = number - first, position + SIZE_WORD.size + head.size_word
    if not 0 <= row < count or head.id_size or head.headers_size or head.key_size != NO_KEY:
        return None
    is_verified = block.is_verified(position, checksum)
    if not is_verified and crc32c(view[position + PAYLOAD_AT : end]) != checksum:
        return None
    tag_at = position + RECORD_HEAD.size
    tag_end = tag_at + head.tag_size
    try:
        batch = Columns(view[aligned(tag_end) : end], count)
        if not is_verified:
            _check(batch)
            if first + count <= log_view.synced:
                block.remember_verified(position, checksum)
        return _row(batch, row, head, decoded(view[tag_at:tag_end]) if head.tag_size else "", label)
    except (Damage, ValueError):
        return None


def _check(batch: Columns) -> None:
    """Raises Damage if a section does not match the others."""
    for kind in (SECTION_BODY_ENDS, SECTION_KEY_ENDS, SECTION_ID_ENDS, SECTION_HEADERS_ENDS):
        if kind in batch:
            batch.ends(kind)
    if SECTION_TAG_CODES in batch:
        batch.tag_codes(len(batch.tags()))
    if SECTION_KEY_PRESENT in batch:
        batch.keys_present()
    if SECTION_CORR_OFFSETS in batch:
        batch.corr_offsets()


def _row(batch: Columns, row: int, head: RecordHead, tag: str, label: Label) -> Message:
    """Returns one message of a batch whose sections were checked."""
    id, corr_offset = "", head.corr_offset
    key: bytes | None = None
    headers: Mapping[str, bytes] = NO_HEADERS
    if len(batch.kinds) > PLAIN_SECTION_COUNT:
        if SECTION_ID_ENDS in batch:
            id = _piece(batch, SECTION_ID_ENDS, row).decode()
        if SECTION_TAG_CODES in batch:
            tags = batch.tags()
            tag = tags[int(batch.tag_codes(len(tags))[row])]
        if SECTION_KEY_ENDS in batch and (SECTION_KEY_PRESENT not in batch or batch.section(SECTION_KEY_PRESENT)[row]):
            key = _piece(batch, SECTION_KEY_ENDS, row)
        if SECTION_HEADERS_ENDS in batch:
            headers = unpack_headers(_piece(batch, SECTION_HEADERS_ENDS, row))
        if SECTION_CORR_OFFSETS in batch:
            corr_offset = int(batch.corr_offsets()[row])
    body = _piece(batch, SECTION_BODY_ENDS, row)
    fields = head.number + row, head.offset, label.partition, label.topic, head.timestamp
    return tuple.__new__(Message, (*fields, id, tag, key, headers, corr_offset, body, 0))


def _piece(batch: Columns, kind: int, row: int) -> bytes:
    """Returns the bytes between two neighbouring ends in section `kind`, from the section that follows it."""
    start, end = PIECE.unpack_from(batch.section(kind), row * PIECE_STEP)
    return bytes(batch.section(kind + 1)[start:end])
