"""A Kafka record batch as the body of a record: stored as a client sent it, and returned unchanged."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Mapping
from typing import Final

from warren.errors import TooLarge
from warren.message import NO_CORR_OFFSET
from warren.storage.format.checksum import crc32c, crc32c_joined
from warren.storage.format.layout import (
    CODEC_KAFKA,
    KAFKA_BATCH_HEAD,
    KAFKA_BATCH_START,
    KAFKA_CHECKED_AT,
    KAFKA_COMPRESSION,
    KAFKA_COMPRESSIONS,
    KAFKA_LENGTH_END,
    KAFKA_MAGIC,
    NO_KEY,
    PAYLOAD_HEAD,
    XERIAL_HEAD,
    XERIAL_NAME,
    XERIAL_SIZE,
    ZSTD_BLOCK_HEAD_SIZE,
    ZSTD_CHECKED,
    ZSTD_COMPRESSED,
    ZSTD_CONTENT_SIZES,
    ZSTD_DICTIONARY_SIZES,
    ZSTD_HEAD,
    ZSTD_MAGIC,
    ZSTD_REPEATED,
    KafkaBatchHead,
)
from warren.storage.format.limits import MARKER_SIZE_MAX, RAW_SIZE_MAX
from warren.storage.format.record import Packed
from warren.storage.format.slices import together

BatchBytes = bytes | bytearray | memoryview
GZIP_WINDOW: Final = 31
"""Makes zlib expect the gzip format."""
SNAPPY_SIZE_BYTES_MAX: Final = 5
SNAPPY_RATIO_MAX: Final = 22
"""Three bytes of snappy unpack to at most 64."""
RATIOS_MAX: Final[Mapping[str, int]] = {"none": 1, "gzip": 1032, "snappy": SNAPPY_RATIO_MAX, "lz4": 255}
"""How many bytes one byte unpacks to at most: for deflate two bits unpack to 258, for lz4 a length byte to 255."""
ZSTD_BLOCK_SIZE_MAX: Final = 128 << 10
"""The largest size that one compressed block of zstd unpacks to."""
ZSTD_BLOCKS_MAX: Final = 4096
"""If there are more blocks than this, it is faster to unpack them than to read the head of each."""
UNPACKED_SIZE_FIRST: Final = 64 << 10
UNPACKED_RATIO: Final = 4
UNPACKED_STEP_MAX: Final = 4 << 20
"""Content is unpacked in pieces. The two sizes above estimate the first piece, and this is the largest."""
UNPACKED_IN_PLACE_MIN: Final = 8 << 20
"""Content of at least this size is unpacked into memory that never moves."""


class UnpacksToMore(ValueError):
    """A batch unpacks to more bytes than its reader allows."""


def pack_kafka(
    batch: BatchBytes, leader_epoch: int = 0, marker: bytes = b"", head: KafkaBatchHead | None = None
) -> Packed:
    """Returns a record, ready to be stamped, of a batch that was checked before. Its base offset is that of the stamp.

    `head` is the head of the batch, if the caller has it.
    """
    if len(marker) > MARKER_SIZE_MAX:
        raise TooLarge("marker", len(marker), MARKER_SIZE_MAX)
    if head is None:
        head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    assert head.batch_length == len(batch) - KAFKA_LENGTH_END
    payload = b"".join(
        (
            PAYLOAD_HEAD.pack(head.record_count, NO_CORR_OFFSET, CODEC_KAFKA, 0, 0, 0, NO_KEY, len(marker)),
            marker,
            KAFKA_BATCH_START.pack(0, head.batch_length, leader_epoch),
            memoryview(batch)[KAFKA_BATCH_START.size :],
        )
    )
    return tuple.__new__(Packed, (payload, crc32c(payload), head.record_count))


def pack_kafka_in_place(area: memoryview, batch_at: int, head: KafkaBatchHead) -> Packed:
    """Does what `pack_kafka` does without a copy, for a batch in memory that only the caller uses.

    Writes the head of the payload over the bytes before `batch_at`. Does not read the whole batch again, because the
    checksum in its head already covers all from `attributes` on:

        | …                  | base offset, length, epoch | magic, checksum | attributes … records |
        ^ payload_at         ^ batch_at                                     ^ checked_at
          PAYLOAD_HEAD         KAFKA_BATCH_START             crc32c up to here is joined with that of the head
    """
    payload_at = batch_at - PAYLOAD_HEAD.size
    head_bytes = PAYLOAD_HEAD.pack(head.record_count, NO_CORR_OFFSET, CODEC_KAFKA, 0, 0, 0, NO_KEY, 0)
    start = head_bytes + KAFKA_BATCH_START.pack(0, head.batch_length, 0)
    area[payload_at : payload_at + len(start)] = start
    payload = area[payload_at : batch_at + KAFKA_LENGTH_END + head.batch_length]
    checked_at = batch_at + KAFKA_CHECKED_AT
    before, checked_size = crc32c(area[payload_at:checked_at]), len(payload) - (checked_at - payload_at)
    return Packed(payload, crc32c_joined(before, head.checksum, checked_size), head.record_count)


def numbered(batch: memoryview, number: int, leader_epoch: int | None = None) -> tuple[bytes, memoryview]:
    """Returns the batch with `number` as its base offset: its first bytes, and the rest, which is not copied.

    It has its own epoch of a leader, unless another one is given: no checksum covers it.
    """
    _, length, own_epoch = KAFKA_BATCH_START.unpack_from(batch)
    leader_epoch = own_epoch if leader_epoch is None else leader_epoch
    return KAFKA_BATCH_START.pack(number, length, leader_epoch), batch[KAFKA_BATCH_START.size :]


def records_of(batch: BatchBytes, count: int, size_max: int = RAW_SIZE_MAX) -> bytes | memoryview:
    """Returns the unpacked records of a batch, one after the other. Raises ValueError if they cannot be unpacked.

    Raises UnpacksToMore if they have more than `size_max` bytes, and allocates no more memory than that.
    """
    head = head_of(batch, count)
    return decompress(memoryview(batch)[KAFKA_BATCH_HEAD.size :], head.attributes & KAFKA_COMPRESSION, size_max)


def head_of(batch: BatchBytes, count: int) -> KafkaBatchHead:
    """Returns the head of a batch of `count` records.

    Raises ValueError if it does not match the count. The broker stores no such batch.
    """
    if len(batch) < KAFKA_BATCH_HEAD.size:
        raise ValueError("there is no head of a Kafka batch")
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    if head.magic != KAFKA_MAGIC or head.batch_length != len(batch) - KAFKA_LENGTH_END or head.record_count != count:
        raise ValueError("the head of the Kafka batch does not match its record")
    if head.attributes & KAFKA_COMPRESSION >= len(KAFKA_COMPRESSIONS):
        raise ValueError(f"unknown compression {head.attributes & KAFKA_COMPRESSION}")
    return head


def decompress(data: memoryview, code: int, size_max: int = RAW_SIZE_MAX) -> bytes | memoryview:
    """Returns the decompressed bytes.

    Raises ValueError if `data` is damaged, UnpacksToMore if they exceed `size_max`.
    """
    if code >= len(KAFKA_COMPRESSIONS):
        raise ValueError(f"unknown compression {code}")
    name = KAFKA_COMPRESSIONS[code]
    if name == "none":
        return data
    if name == "gzip":
        raw = _unzip(data, size_max)
    else:
        raw = _unsnap(data, size_max) if name == "snappy" else _unframe(data, name, size_max)
    if len(raw) > size_max:
        raise UnpacksToMore(f"more than {size_max} bytes when unpacked")
    return raw


def unpacked_size_bound(data: memoryview, code: int) -> int | None:
    """Returns an upper bound of the unpacked size of compressed records, or None if only unpacking shows it.

    Costs about a microsecond. It trusts no size that the client wrote: each codec has a largest ratio, except zstd, for
    which the heads of its blocks are read.
    """
    name = KAFKA_COMPRESSIONS[code]
    return _zstd_size_bound(data) if name == "zstd" else len(data) * RATIOS_MAX[name]


def _zstd_size_bound(data: memoryview) -> int | None:
    """Returns the bound for one frame of zstd (RFC 8878, 3.1.1), or None for any other bytes.

    | magic, descriptor | window, dictionary id, content size | block head | block | block head | block … | checksum
    ^ ZSTD_HEAD           (each may be missing)               ^ position                         (may be missing)
    """
    if len(data) < ZSTD_HEAD.size:
        return None
    magic, descriptor = ZSTD_HEAD.unpack_from(data)
    if magic != ZSTD_MAGIC:
        return None
    is_single = descriptor >> 5 & 1
    position = ZSTD_HEAD.size + (not is_single) + ZSTD_DICTIONARY_SIZES[descriptor & 3]
    # A content size of 0 bytes means one byte if the frame has a single segment.
    position += ZSTD_CONTENT_SIZES[descriptor >> 6] or is_single
    bound = 0
    for _ in range(ZSTD_BLOCKS_MAX):
        if position + ZSTD_BLOCK_HEAD_SIZE > len(data):
            return None
        word = int.from_bytes(data[position : position + ZSTD_BLOCK_HEAD_SIZE], "little")
        is_last, kind, size = word & 1, word >> 1 & 3, word >> 3
        bound += ZSTD_BLOCK_SIZE_MAX if kind == ZSTD_COMPRESSED else size
        position += ZSTD_BLOCK_HEAD_SIZE + (1 if kind == ZSTD_REPEATED else size)
        if is_last:
            checksum_size = 4 if descriptor & ZSTD_CHECKED else 0
            return bound if position + checksum_size == len(data) else None
    return None


def _unzip(data: memoryview, size_max: int) -> bytes | memoryview:
    unpacker, raw = zlib.decompressobj(GZIP_WINDOW), _Unpacked(size_max + 1, len(data) * RATIOS_MAX["gzip"])
    rest, fed = b"", 0
    try:
        while raw.room and not unpacker.eof:
            if not rest:
                # In steps too, because each call copies the rest of what it got.
                rest, fed = bytes(data[fed : fed + UNPACKED_STEP_MAX]), fed + UNPACKED_STEP_MAX
            piece = unpacker.decompress(rest, min(raw.room, UNPACKED_STEP_MAX))
            rest = unpacker.unconsumed_tail
            if not piece and not rest and fed >= len(data):
                break
            raw.add(piece)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    if not bool(unpacker.eof) and raw.size <= size_max:
        raise ValueError("the bytes of gzip end too early")
    return raw.content()


def _unframe(data: memoryview, name: str, size_max: int) -> bytes | memoryview:
    """Returns the content of a frame of lz4 or zstd."""
    # Imported here because importing PyArrow takes longer than opening a log.
    import pyarrow

    room, step = size_max + 1, UNPACKED_SIZE_FIRST + len(data) * UNPACKED_RATIO
    try:
        stream = pyarrow.CompressedInputStream(pyarrow.BufferReader(data), name)
        # The format does not store the size of the content, and a buffer allocates all of its memory when it is
        # created.
        first: bytes = stream.read(min(step, room, UNPACKED_STEP_MAX))
        piece: bytes = stream.read(min(2 * step, room - len(first), UNPACKED_STEP_MAX))
        if not piece:
            return first
        raw = _Unpacked(room, unpacked_size_bound(data, KAFKA_COMPRESSIONS.index(name)))
        raw.add(first)
        del first
        while piece:
            raw.add(piece)
            step *= 2
            piece = stream.read(min(step, raw.room, UNPACKED_STEP_MAX))
    except OSError as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    return raw.content()


class _Unpacked:
    """Content that is unpacked piece by piece, up to a size. It takes the memory of what was added, and no more.

    Large content lies in memory of its own, which has room for all that may come: the system gives a page when it is
    written first. Bytes that grow would be moved while the interpreter is held, for 30 ms if they are 100 MB. `bound`
    is an upper bound of the content, if one is known.
    """

    def __init__(self, size_max: int, bound: int | None) -> None:
        self._size_max = size_max
        self._mapped_size = size_max if bound is None else min(bound, size_max)
        self._data: bytearray | mmap.mmap = bytearray()
        self.size = 0

    @property
    def room(self) -> int:
        """How many bytes may still be added."""
        return self._size_max - self.size

    def add(self, piece: bytes) -> None:
        end = self.size + len(piece)
        if isinstance(self._data, bytearray):
            if end < UNPACKED_IN_PLACE_MIN:
                self._data += piece
                self.size = end
                return
            small, self._data = self._data, _memory_of(max(self._mapped_size, end))
            self._data[: self.size] = small
        self._data[self.size : end] = piece
        self.size = end

    def content(self) -> memoryview:
        return memoryview(self._data)[: self.size]


def _memory_of(size: int) -> mmap.mmap:
    """Returns memory for `size` bytes. Raises MemoryError if there is not enough."""
    try:
        return mmap.mmap(-1, size)
    except OSError as error:
        # An OSError would be taken for data that cannot be unpacked.
        raise MemoryError(f"{size} bytes") from error


def _unsnap(data: memoryview, size_max: int) -> bytes | memoryview:
    """Returns the content that snappy packed, in one piece, or in several as Kafka's Java client writes them."""
    if len(data) < XERIAL_HEAD.size or bytes(data[: len(XERIAL_NAME)]) != XERIAL_NAME:
        return _unsnap_piece(data, size_max)
    pieces, position, room = list[bytes](), XERIAL_HEAD.size, size_max
    while position < len(data):
        if position + XERIAL_SIZE.size > len(data):
            raise ValueError("a size exceeds the end")
        (size,) = XERIAL_SIZE.unpack_from(data, position)
        position += XERIAL_SIZE.size
        if not 0 <= size <= len(data) - position:
            raise ValueError(f"a piece of {size} bytes exceeds the end")
        piece = _unsnap_piece(data[position : position + size], room)
        pieces.append(piece)
        position, room = position + size, room - len(piece)
    return together(pieces, size_max - room)


def _unsnap_piece(data: memoryview, room: int) -> bytes:
    import pyarrow

    size = shift = 0
    for byte in data[:SNAPPY_SIZE_BYTES_MAX]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("no size before snappy's bytes")
    if size > len(data) * SNAPPY_RATIO_MAX:
        raise ValueError(f"{size} bytes when unpacked, of {len(data)}")
    if size > room:
        raise UnpacksToMore(f"{size} bytes when unpacked")
    try:
        raw: bytes = pyarrow.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    except OSError as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    return raw
