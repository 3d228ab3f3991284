"""Every struct on disk, declared once, next to the tuple that it unpacks to.

To change one: raise the version, keep the old declaration for its readers, and add a file written by the old code to
the tests. `docs/formats.md` shows the same tables, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

INDEX_SPACING: Final = 64

# --- Size words: what every blob of a version 2 block starts with ------------------------------------------------

SIZE_WORD: Final = Struct("<I")
SIZE_MASK: Final = (1 << 30) - 1
META_DATA: Final = 1 << 30
NOT_READY: Final = 1 << 31
END_OF_BLOCK: Final = NOT_READY | META_DATA
ALIGNMENT: Final = 8
PADDING: Final = tuple(bytes(count) for count in range(ALIGNMENT))
"""`PADDING[n]` is n zero bytes."""


def aligned(position: int) -> int:
    """Returns the first 8-byte boundary at or after `position`."""
    return (position + 7) & -8


# --- Index -------------------------------------------------------------------------------------------------------


class IndexHeaderV1(NamedTuple):
    """The head of a version 1 index. The number of slots follows from the file's length."""

    version: int
    block_count: int
    block_start: int
    flag: int
    message_count: int


class IndexHeader(NamedTuple):
    """The head of a version 2 index."""

    version: int
    block_count: int
    block_start: int
    flag: int
    max_block_count: int
    message_count: int


class IndexState(NamedTuple):
    """The last 64 bytes of the header in both versions: the state of the log, in native byte order.

    `state` is one of the STATE values. `checksum` covers a cleanly closed index. Every message below the number
    `synced` is on disk. `writing` is the process in the middle of an append. `waiting` is the time in µs until which a
    reader waits to be woken. `boot_id` identifies the start of the machine during which the other fields were stored.
    `recovered` is the time in µs of the last recovery at which no other process had the log open: unsynced messages may
    be lost.
    """

    state: int
    checksum: int
    synced: int
    writing: int
    waiting: int
    boot_id: bytes
    recovered: int


class SlotV1(NamedTuple):
    """The fields of a block in a version 1 index."""

    base_offset: int
    end_offset: int
    created: int
    updated: int


class Slot(NamedTuple):
    """The fields of a block in a version 2 index. `end_number` and `last_timestamp` are set for sealed blocks."""

    base_offset: int
    end_offset: int
    created: int
    updated: int
    base_number: int
    end_number: int
    first_timestamp: int
    last_timestamp: int


INDEX_HEADER_SIZE: Final = 1024
VISIBLE_AT: Final = 952
INDEX_STATE_AT: Final = 960
INDEX_HEADER_V1: Final = Struct(">IIQIQ")
INDEX_HEADER: Final = Struct("<IIQIIQ")
INDEX_STATE: Final = Struct("=QQQQQ16sQ")
SLOT_V1: Final = Struct(">QQQQ")
SLOT: Final = Struct("<QQQQQQQQ")
EXTENSION_SIZES: Final = Struct("<BH")

BLOCK_RANGE_AT: Final = 4
BLOCK_RANGE_V1: Final = Struct(">IQ")
BLOCK_RANGE: Final = Struct("<IQ")
"""BlockCount and BlockStart, which change together."""
MESSAGE_COUNT_AT_V1: Final = 20
MESSAGE_COUNT_AT: Final = 24
FLAG_AT: Final = 16
FLAG_V1: Final = Struct(">I")
FLAG: Final = Struct("<I")
NATIVE_WORD: Final = Struct("=Q")
SLOT_WORD_END_OFFSET: Final = 1
SLOT_WORD_UPDATED: Final = 3

STATE_CLEAN: Final = 1
STATE_OPEN: Final = 2
STATE_REPLACED: Final = 3
STATE_FAILED: Final = 4

# The same fields as 8-byte words of the mapped header, for stores that must be atomic.
WORD_MESSAGE_COUNT: Final = MESSAGE_COUNT_AT // 8
WORD_VISIBLE: Final = VISIBLE_AT // 8
WORD_STATE: Final = INDEX_STATE_AT // 8
WORD_CHECKSUM: Final = WORD_STATE + 1
WORD_SYNCED: Final = WORD_STATE + 2
WORD_WRITING: Final = WORD_STATE + 3
WORD_WAITING: Final = WORD_STATE + 4
WORD_RECOVERED: Final = WORD_STATE + 7
BOOT_ID_AT: Final = INDEX_STATE_AT + 40
BOOT_ID_SIZE: Final = 16
MESSAGE_COUNT_LOW_AT: Final = 24
"""The position of the half of MessageCount that changes with every append, in both versions.

Waiting processes sleep on it.
"""

# --- Record ------------------------------------------------------------------------------------------------------


class RecordHeadV1(NamedTuple):
    """The head of a record of version 1. Id and tag are one length byte and then the text, zero-padded."""

    offset: int
    timestamp: int
    id: bytes
    corr_offset: int
    number: int
    tag: bytes
    length: int


class RecordHead(NamedTuple):
    """The head of a record of version 2, up to the id."""

    size_word: int
    checksum: int
    offset: int
    number: int
    timestamp: int
    stamp_checksum: int
    message_count: int
    corr_offset: int
    codec: int
    id_size: int
    tag_size: int
    compression: int
    key_size: int
    headers_size: int


RECORD_HEAD_V1: Final = Struct(">QQ40sqQ128sI")
RECORD_START_V1: Final = Struct(">QQ")
"""Offset and time, the first fields of a version 1 record. Stored last: a record without them is unfinished."""
RECORD_HEAD: Final = Struct("<IIQQQIIqBBBBHH")
STAMP: Final = Struct("<QQQ")
STAMP_AT: Final = 8
STAMP_END: Final = 32
STAMPED: Final = Struct("<II24sI")
"""Size word, checksum, stamp, stamp checksum: the bytes that the writer puts before a packed payload."""
PAYLOAD_AT: Final = 36
PAYLOAD_HEAD: Final = Struct("<IqBBBBHH")
"""The rest of the head, from the count on. The packer of the record writes it."""
RAW_SIZE: Final = Struct("<I")
"""The unpacked size, which precedes a compressed body."""
HEADER_SIZES: Final = Struct("<BH")
"""Name size and value size, before each header."""

CODEC_SINGLE: Final = 0
CODEC_COLUMNS: Final = 1
CODEC_KAFKA: Final = 2
COMPRESSIONS: Final = ("none", "zstd", "lz4")
NO_KEY: Final = 0xFFFF

# --- Columns: the body of a record that holds a batch ------------------------------------------------------------


class ColumnsHead(NamedTuple):
    """The number of sections that follow."""

    section_count: int
    spare: int


class Section(NamedTuple):
    """One entry of the table of sections. Sections stand in the order of the table, each on an 8-byte boundary."""

    kind: int
    size: int


COLUMNS_HEAD: Final = Struct("<II")
SECTION: Final = Struct("<II")
PLAIN_TABLE: Final = Struct("<IIIIII")
MARKED_TABLE: Final = Struct("<IIIIIIIIII")
"""The table of a record with one message and a marker, followed by the start and the end of the body."""
SECTION_BODY_ENDS: Final = 1
SECTION_BODIES: Final = 2
SECTION_TAG_CODES: Final = 3
SECTION_TAGS: Final = 4
SECTION_KEY_ENDS: Final = 5
SECTION_KEYS: Final = 6
SECTION_KEY_PRESENT: Final = 7
SECTION_ID_ENDS: Final = 8
SECTION_IDS: Final = 9
SECTION_HEADERS_ENDS: Final = 10
SECTION_HEADERS: Final = 11
SECTION_CORR_OFFSETS: Final = 12
SECTION_MARKER: Final = 13
SECTION_COUNT_MAX: Final = 16
PIECE: Final = Struct("<II")
"""Two neighbouring ends in a section of ends: where one piece starts, and where it ends."""
PIECE_STEP: Final = PIECE.size // 2


# --- Kafka batch: the body of a record that holds messages as a Kafka client sent them, big-endian -----------------


class KafkaBatchHead(NamedTuple):
    """The head of a Kafka record batch, version 2. Its records follow, compressed or not.

    `batch_length` counts the bytes after itself, and `checksum` is the CRC-32C of all from `attributes` on.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


KAFKA_BATCH_HEAD: Final = Struct(">qiibIhiqqqhii")
KAFKA_BATCH_START: Final = Struct(">qii")
"""Base offset, length and leader epoch. A broker or a sender may change them, because no checksum covers them."""
KAFKA_LENGTH_END: Final = 12
KAFKA_CHECKED_AT: Final = 21
KAFKA_MAGIC: Final = 2
KAFKA_COMPRESSION: Final = 0x07
KAFKA_TRANSACTIONAL: Final = 0x10
KAFKA_CONTROL: Final = 0x20
KAFKA_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
XERIAL_HEAD: Final = Struct(">8sii")
"""The start of snappy's bytes if they come in pieces: a name, and two versions."""
XERIAL_NAME: Final = b"\x82SNAPPY\0"
XERIAL_SIZE: Final = Struct(">i")
ZSTD_HEAD: Final = Struct("<IB")
"""The start of a frame of zstd (RFC 8878, 3.1.1): a magic number, and a byte that describes the following fields."""
ZSTD_MAGIC: Final = 0xFD2FB528
ZSTD_DICTIONARY_SIZES: Final = (0, 1, 2, 4)
ZSTD_CONTENT_SIZES: Final = (0, 2, 4, 8)
"""The sizes of the dictionary id and of the content size, each selected by two bits of that byte."""
ZSTD_CHECKED: Final = 0x04
ZSTD_BLOCK_HEAD_SIZE: Final = 3
ZSTD_REPEATED: Final = 1
ZSTD_COMPRESSED: Final = 2
"""The kinds of a block that takes fewer bytes than it unpacks to."""

STEP: Final = Struct("<I12xQ12xI")
"""Size word, number and count: the fields of a head that are needed to step from record to record."""

# --- Index messages within a block -------------------------------------------------------------------------------


class MetaHead(NamedTuple):
    """The size word and the label of an index2index or index message. The entries follow."""

    size_word: int
    label: bytes


class IndexEntry(NamedTuple):
    """The position of the record of each 64th message, and the CRC-32C of it and of the 63 single records after it.

    `checksum` is 0 if there is none; then each record of the group is checked by itself.
    """

    position: int
    checksum: int


META_HEAD: Final = Struct("<I4s")
INDEX2INDEX_ENTRY: Final = Struct("<Q")
INDEX_ENTRY: Final = Struct("<II")
LABEL_INDEX2INDEX: Final = b"i2i\0"
LABEL_INDEX: Final = b"idx\0"

# --- Reader ------------------------------------------------------------------------------------------------------


class ReaderPositionV1(NamedTuple):
    """The file of a reader in version 1: its position and its filter."""

    block_number: int
    offset: int
    tag: bytes


class ReaderIntentV1(NamedTuple):
    """The next position and filter of a version 1 reader, stored after the fields of the zbus document.

    It is valid if its checksum is right. `checksum` is 0 if no change is in progress.
    """

    block_number: int
    offset: int
    tag: bytes
    checksum: int


class ReaderPosition(NamedTuple):
    """The position of a version 2 reader. Its file has two of these, written in turn: the later one with a right
    checksum counts.

    `number` is the position; block and offset are the place of that message.
    """

    block_number: int
    offset: int
    number: int
    sequence: int
    checksum: int


class ReaderFilter(NamedTuple):
    """The filter of a version 2 reader. Its file has two of these too, written in turn."""

    tag_size: int
    checksum: int
    sequence: int
    tag: bytes


READER_V1: Final = Struct(">QI128s")
READER_INTENT_V1: Final = Struct(">QI128sI")
READER_INTENT_V1_AT: Final = 256
READER_INTENT_V1_CHECKSUM: Final = slice(396, 400)
READER_CHECKSUM_V1: Final = Struct(">I")
READER: Final = Struct("<QQQQQ")
READER_BEYOND: Final = (1 << 64) - 1
"""Replaces the block number if a client committed a number past the end of the log."""
READER_PLACES: Final = (0, 64)
READER_CHECKSUM: Final = slice(32, 40)
READER_FILTER: Final = Struct("<IIQ128s")
READER_FILTER_PLACES: Final = (128, 272)
READER_FILTER_CHECKSUM: Final = slice(4, 8)
READER_FILE_SIZE: Final = 512
"""One sector: the disk writes it completely or not at all."""
READER_REMOVED_AT: Final = 511
"""Not 0 if the file was removed. A process that has it mapped then opens the file that may have replaced it."""

# --- Queue file: the single-file queue of BunnyMQ, big-endian ------------------------------------------------------


class QueuePointers(NamedTuple):
    """The head of a queue file: the position of its first message, and that of the next one to write."""

    pull: int
    push: int


class QueueRecordHead(NamedTuple):
    """The field before each body in a file without delays: the body's length."""

    length: int


class DelayedRecordHead(NamedTuple):
    """The fields before each body in a file with delays. `length` counts all bytes after itself."""

    length: int
    expires_ms: int


LOCK_REQUEST: Final = Struct("hhqqi4x")
"""Not on disk: the argument and the result of the system call `fcntl` for a lock on bytes of a file."""
QUEUE_POINTERS: Final = Struct(">ii")
QUEUE_RECORDS_AT: Final = QUEUE_POINTERS.size
QUEUE_RECORD_HEAD: Final = Struct(">i")
DELAYED_RECORD_HEAD: Final = Struct(">iq")
QUEUE_POINTER_MAX: Final = (1 << 31) - 1
"""The largest position in a pointer, and so the end of the largest file."""

TABLES: Final[Mapping[str, tuple[Struct, type[tuple[object, ...]], int]]] = {
    "Index header, version 2": (INDEX_HEADER, IndexHeader, 0),
    "Index header, version 1": (INDEX_HEADER_V1, IndexHeaderV1, 0),
    "Index state": (INDEX_STATE, IndexState, INDEX_STATE_AT),
    "Slot, version 2": (SLOT, Slot, 0),
    "Slot, version 1": (SLOT_V1, SlotV1, 0),
    "Record, version 2": (RECORD_HEAD, RecordHead, 0),
    "Record, version 1": (RECORD_HEAD_V1, RecordHeadV1, 0),
    "Columns": (COLUMNS_HEAD, ColumnsHead, 0),
    "Section": (SECTION, Section, 0),
    "Kafka batch": (KAFKA_BATCH_HEAD, KafkaBatchHead, 0),
    "Meta-data message": (META_HEAD, MetaHead, 0),
    "Index entry": (INDEX_ENTRY, IndexEntry, 0),
    "Reader, version 2": (READER, ReaderPosition, 0),
    "Reader filter, version 2": (READER_FILTER, ReaderFilter, READER_FILTER_PLACES[0]),
    "Reader, version 1": (READER_V1, ReaderPositionV1, 0),
    "Reader intent, version 1": (READER_INTENT_V1, ReaderIntentV1, READER_INTENT_V1_AT),
    "Queue pointers": (QUEUE_POINTERS, QueuePointers, 0),
    "Queue record": (QUEUE_RECORD_HEAD, QueueRecordHead, 0),
    "Delayed queue record": (DELAYED_RECORD_HEAD, DelayedRecordHead, 0),
}
