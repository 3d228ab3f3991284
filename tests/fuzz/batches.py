"""Malicious batches: with wrong counts, sizes, checksums and codecs, and with a wrong unpacked size."""

from __future__ import annotations

import functools
import random
import struct
import zlib
from typing import Final

import cramjam

from tests.support.kafka_batches import batch_of
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_CHECKED_AT, KAFKA_LENGTH_END, KafkaBatchHead

LYING_COUNTS: Final = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\x0f", b"\xff" * 12, b"\x80" * 12, b"\x00\x00\xff\xff")
COUNTS: Final = (1, 2, 79, 1 << 20, 1 << 30, (1 << 31) - 1)
HEADERS: Final = (
    ("h", b"v"),
    ("h", b"v"),
    ("warren.deliver-at", b"0"),
    ("warren.deliver-at", b"9" * 30),
    ("warren.deliver-at", b"2100-01-01T00:00Z"),
    ("warren.tag", b"\xff" * 200),
    ("warren.corr-offset", b"-5"),
)
"""Headers without a meaning, and those with a meaning here, with valid and invalid values."""
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
BOMBS: Final = (GZIP, SNAPPY, LZ4, ZSTD)
ZSTD_BLOCK: Final = 128 << 10
PIECE: Final = 4 << 20


def wounded(body: bytes, chance: random.Random) -> bytes:
    """Returns the bytes cut, lengthened, with some changed, or with a wrong count."""
    data = bytearray(body)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                del data[place:]
            case 1:
                data[place : place + 1] = chance.randbytes(1)
            case 2:
                count = chance.choice(LYING_COUNTS)
                data[place : place + len(count)] = count
            case 3:
                data[place:place] = chance.randbytes(chance.randrange(20))
            case 4:
                del data[place : place + chance.randrange(5)]
    return bytes(data)


def packed_as(records: bytes, compression: int, count: int, *, is_checked: bool = True) -> bytes:
    """Returns a batch of these bytes, with a matching checksum."""
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch_of([(None, b"", [])])))
    head = head._replace(
        batch_length=KAFKA_BATCH_HEAD.size - KAFKA_LENGTH_END + len(records),
        attributes=compression,
        record_count=count,
        last_offset_delta=count - 1,
    )
    data = KAFKA_BATCH_HEAD.pack(*head) + records
    checksum = crc32c(data[KAFKA_CHECKED_AT:]) if is_checked else 0
    return KAFKA_BATCH_HEAD.pack(*head._replace(checksum=checksum)) + records


def lying_batch(chance: random.Random) -> bytes:
    """Returns a batch that was tampered with, with or without a matching checksum."""
    headers = [chance.choice(HEADERS)]
    rows = [(b"k", chance.randbytes(chance.choice([0, 5, 300])), headers) for _ in range(chance.choice([1, 80]))]
    producer = chance.choice((-1, -1, 7))
    batch = batch_of(
        rows,
        compression=chance.randrange(5),
        is_transactional=chance.random() < 0.1,
        producer_id=producer,
        producer_epoch=min(producer, 0),
        base_sequence=min(producer, chance.randrange(3)),
    )
    if chance.random() < 0.3:
        return wounded(batch, chance)
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    records = batch[KAFKA_BATCH_HEAD.size :]
    if chance.random() < 0.7:
        records = wounded(records, chance)
    count = chance.choice((head.record_count, head.record_count, *COUNTS))
    compression = chance.choice((head.attributes, head.attributes, 0, 1, 2, 3, 4, 5, 7))
    return packed_as(records, compression, count, is_checked=chance.random() < 0.9)


@functools.cache
def bomb(compression: int, size: int) -> bytes:
    """Returns a batch of about `size` bytes that claims to have one record, and unpacks to as many
    zeros as possible.
    """
    room = size - KAFKA_BATCH_HEAD.size
    make = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}[compression]
    return packed_as(make(room), compression, 1)


def _gzip(room: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + piece * max(0, (room - len(head)) // len(piece))


def _snappy(room: int) -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(room * 20)))


def _lz4(room: int) -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(min(PIECE, room * 200)), store_size=False))
    piece = struct.pack("<I", len(block)) + block
    return b"\x04\x22\x4d\x18\x60\x70\x73" + piece * max(1, room // len(piece)) + bytes(4)


def _zstd(room: int) -> bytes:
    """Returns blocks that stand for this byte, 128 KiB times."""
    block = (1 << 1 | ZSTD_BLOCK << 3).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | ZSTD_BLOCK << 3).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * max(0, room // len(block) - 2) + last


@functools.cache
def large_record(compression: int, size: int) -> bytes:
    """Returns a valid batch of one record, whose value is `size` zeros, and which is to be delivered later."""
    return batch_of([(None, bytes(size), [("warren.deliver-at", b"2100-01-01T00:00Z")])], compression=compression)
