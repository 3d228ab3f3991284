"""Record batches of Kafka, version 2: checks those of producers, and builds batches of messages for consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.errors import BadBatch, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.protocol.kafka.byte_search import PIECE_SIZE, check_and_search
from warren.storage.format.checksum import crc32c
from warren.storage.format.kafka_batch import UnpacksToMore, numbered, records_of, unpacked_size_bound
from warren.storage.format.kafka_columns import CORR_OFFSET_HEADER, ID_HEADER, NULL_BODY_HEADER, TAG_HEADER
from warren.storage.format.kafka_records import find_places
from warren.storage.format.layout import (
    KAFKA_BATCH_HEAD,
    KAFKA_CHECKED_AT,
    KAFKA_COMPRESSION,
    KAFKA_COMPRESSIONS,
    KAFKA_CONTROL,
    KAFKA_LENGTH_END,
    KAFKA_MAGIC,
    KAFKA_TRANSACTIONAL,
    KafkaBatchHead,
)
from warren.storage.format.limits import BODY_SIZE_MAX, RAW_SIZE_MAX
from warren.storage.format.record import check_size

if TYPE_CHECKING:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

PRODUCE_BATCHES_MAX: Final = 100
"""The most batches that one Produce may have for one partition. Kafka's clients send one."""
KAFKA_BATCH_COUNT_MAX: Final = 1 << 20
"""The most records in a batch of a Kafka client: as many as librdkafka can be configured to send."""

QUICK_SIZE_MAX: Final = 4 << 20
"""The event loop, on which other requests wait, unpacks a batch up to this size. A thread unpacks larger ones."""

NO_PRODUCER: Final = -1
RECORD_SIZE_MIN: Final = 7
"""The bytes of the smallest record: length, attributes, two deltas, a null key, a null value, and no headers."""
US_PER_MS: Final = 1000
BUILT_SIZE_MAX: Final = (1 << 31) - 1
NAME_OF: Final[Mapping[str, str]] = {
    "tag": TAG_HEADER.decode(),
    "id": ID_HEADER.decode(),
    "corr_offset": CORR_OFFSET_HEADER.decode(),
    "null_body": NULL_BODY_HEADER.decode(),
}
"""The headers that carry the other fields of a Warren message to a Kafka consumer."""


class RecordBatch(NamedTuple):
    """One batch as the client sent it, and its head."""

    head: KafkaBatchHead
    data: memoryview
    is_named: bool | None = None
    """Whether the batch contains the name that was searched together with the checksum; None if it was not searched."""

    @property
    def compression(self) -> str:
        return KAFKA_COMPRESSIONS[self.head.attributes & KAFKA_COMPRESSION]

    @property
    def is_transactional(self) -> bool:
        return bool(self.head.attributes & KAFKA_TRANSACTIONAL)

    @property
    def is_idempotent(self) -> bool:
        """Returns whether its producer numbers its batches, so that the broker recognises one that is sent twice."""
        return self.head.producer_id != NO_PRODUCER


def split(records: memoryview, name: bytes = b"") -> list[RecordBatch]:
    """Returns the batches that a producer sent for one partition, each of them checked as `check_batch` does.

    Raises BadBatch if one of them is wrong.
    """
    batches: list[RecordBatch] = []
    position = 0
    while position < len(records):
        if len(batches) == PRODUCE_BATCHES_MAX:
            raise BadBatch(f"more than {PRODUCE_BATCHES_MAX} batches for one partition")
        rest = records[position:]
        head = read_batch_head(rest)
        if head is None:
            raise BadBatch(f"{len(rest)} bytes are less than a head")
        batch = check_batch(rest, head, name)
        batches.append(batch)
        position += len(batch.data)
    if not batches:
        raise BadBatch("there is none")
    return batches


def read_batch_head(records: memoryview) -> KafkaBatchHead | None:
    """Returns the head of the first batch in `records`, which is not checked; None if there are too few bytes."""
    if len(records) < KAFKA_BATCH_HEAD.size:
        return None
    return tuple.__new__(KafkaBatchHead, KAFKA_BATCH_HEAD.unpack_from(records))


def check_batch(records: memoryview, head: KafkaBatchHead, name: bytes = b"") -> RecordBatch:
    """Returns the first batch in `records`, whose head is `head`. Raises BadBatch if the head or the checksum is wrong.

    The records themselves are not checked. A large batch that is not compressed is searched for `name` together with
    its checksum, while its bytes are in the cache of the processor.
    """
    _, length, _, magic, checksum, attributes, last, _, _, _, _, _, count = head
    end, compression = KAFKA_LENGTH_END + length, attributes & KAFKA_COMPRESSION
    if magic != KAFKA_MAGIC:
        raise BadBatch(f"format {magic}; only format {KAFKA_MAGIC} is accepted")
    if not KAFKA_BATCH_HEAD.size < end <= len(records):
        raise BadBatch(f"a length of {length}, but {len(records)} bytes are left")
    if count > KAFKA_BATCH_COUNT_MAX:
        raise BadBatch(f"{count} records are over the limit of {KAFKA_BATCH_COUNT_MAX}")
    if count < 1 or last != count - 1:
        raise BadBatch(f"{count} records with a last offset of {last}")
    if compression >= len(KAFKA_COMPRESSIONS):
        raise BadBatch(f"unknown compression {compression}")
    if not compression and count * RECORD_SIZE_MIN > end - KAFKA_BATCH_HEAD.size:
        raise BadBatch(f"{count} records in {end} bytes")
    if attributes & KAFKA_CONTROL:
        raise BadBatch("a control batch, which only a broker writes")
    data = records if end == len(records) else records[:end]
    is_named = None
    if name and end > PIECE_SIZE and not compression:
        computed, is_named = check_and_search(data[KAFKA_CHECKED_AT:], name)
    else:
        computed = crc32c(data[KAFKA_CHECKED_AT:])
    if computed != checksum:
        raise BadBatch("it does not match its checksum")
    return tuple.__new__(RecordBatch, (head, data, is_named))


def may_unpack_to_more(batch: RecordBatch, size_max: int) -> bool:
    """Returns whether the records of a compressed batch may take more than `size_max` bytes when unpacked."""
    code = batch.head.attributes & KAFKA_COMPRESSION
    if not code:
        return False
    bound = unpacked_size_bound(batch.data[KAFKA_BATCH_HEAD.size :], code)
    return bound is None or bound > size_max


def check_records(batch: RecordBatch, body_size_max: int = BODY_SIZE_MAX, size_max: int | None = None) -> None:
    """Unpacks the records, and raises BadBatch if their number or their form does not match the head.

    Raises TooLarge if a body is over `body_size_max`, or if the records are larger than any reader unpacks. Raises
    UnpacksToMore if they are larger than `size_max`, if that is given and less than readers unpack.
    """
    try:
        _check_records(batch, RAW_SIZE_MAX if size_max is None else size_max, body_size_max)
    except UnpacksToMore as error:
        if size_max is not None and size_max < RAW_SIZE_MAX:
            raise
        raise TooLarge("unpacked batch", RAW_SIZE_MAX + 1, RAW_SIZE_MAX) from error


def is_checked_quickly(batch: RecordBatch, body_size_max: int = BODY_SIZE_MAX) -> bool:
    """Does the same checks, and returns True. Returns False if there is too much to unpack on the event loop."""
    try:
        _check_records(batch, QUICK_SIZE_MAX, body_size_max)
    except UnpacksToMore:
        return False
    return True


def _check_records(batch: RecordBatch, size_max: int, body_size_max: int) -> None:
    count = batch.head.record_count
    try:
        area = records_of(batch.data, count, size_max)
        places = find_places(area, count)
    except UnpacksToMore:
        raise
    except ValueError as error:
        raise BadBatch(str(error)) from error
    if len(area) > body_size_max:
        check_size("body", int((places.value_ends - places.value_starts).max()), body_size_max)


# --- Batches for consumers ---


def begin_batch(size_max: int) -> DefaultRecordBatchBuilder:
    """Returns a builder of a batch without compression and without a producer, of at most `size_max` bytes."""
    # Imported here because it is not needed for topics that only Kafka clients write to.
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    return DefaultRecordBatchBuilder(
        magic=KAFKA_MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=size_max,
    )


def build(messages: Sequence[Message], leader_epoch: int | None = None) -> list[bytes | memoryview]:
    """Returns one batch of at least one message as buffers. Their numbers follow one another, and become offsets."""
    builder, first = begin_batch(BUILT_SIZE_MAX), messages[0].number
    for message in messages:
        value = None if NAME_OF["null_body"] in message.headers else message.body
        headers = _headers(message)
        builder.append(message.number - first, message.timestamp // US_PER_MS, message.key, value, headers)
    return list(numbered(memoryview(builder.build()), first, leader_epoch))


def _headers(message: Message) -> list[tuple[str, bytes]]:
    if not (message.headers or message.tag or message.id or message.corr_offset != NO_CORR_OFFSET):
        return []
    headers = {name: value for name, value in message.headers.items() if name != NAME_OF["null_body"]}
    if message.tag:
        headers[NAME_OF["tag"]] = message.tag.encode()
    if message.id:
        headers[NAME_OF["id"]] = message.id.encode()
    if message.corr_offset != NO_CORR_OFFSET:
        headers[NAME_OF["corr_offset"]] = b"%d" % message.corr_offset
    return list(headers.items())
