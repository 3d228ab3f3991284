"""Record batches of Kafka, version 2: checked as they come from a producer, and made of messages for a consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from warren.config import BODY_SIZE_MAX, KAFKA_BATCH_COUNT_MAX, PRODUCE_BATCHES_MAX, QUICK_SIZE_MAX, RAW_SIZE_MAX
from warren.errors import BadBatch, TooLarge
from warren.message import NO_CORR_OFFSET, Message
from warren.protocol.codec import CONTROL_KEY, CONTROL_VALUE
from warren.protocol.searching import PIECE_SIZE, check_and_search
from warren.storage.checksum import crc32c
from warren.storage.kafka_batch import UnpacksToMore, numbered, records_of, unpacked_size_bound
from warren.storage.kafka_columns import (
    CORR_OFFSET_HEADER,
    ID_HEADER,
    NULL_BODY_HEADER,
    TAG_HEADER,
)
from warren.storage.kafka_records import find_places
from warren.storage.layout import (
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

NO_PRODUCER: Final = -1
RECORD_SIZE_MIN: Final = 7
"""What a record takes at least: its length, attributes, two deltas, key and value that are null, and no header."""
US_PER_MS: Final = 1000
BUILT_SIZE_MAX: Final = (1 << 31) - 1
NAME_OF: Final[Mapping[str, str]] = {
    "tag": TAG_HEADER.decode(),
    "id": ID_HEADER.decode(),
    "corr_offset": CORR_OFFSET_HEADER.decode(),
    "null_body": NULL_BODY_HEADER.decode(),
}
"""The headers in which a Kafka consumer finds what else a message of Warren has."""


class Batch(NamedTuple):
    """One batch as it came, and what its head says."""

    head: KafkaBatchHead
    data: memoryview
    is_named: bool | None = None
    """Whether the name that was looked for together with its checksum stands in it; None where it was not."""

    @property
    def compression(self) -> str:
        return KAFKA_COMPRESSIONS[self.head.attributes & KAFKA_COMPRESSION]

    @property
    def is_transactional(self) -> bool:
        return bool(self.head.attributes & KAFKA_TRANSACTIONAL)

    @property
    def is_idempotent(self) -> bool:
        """Whether a producer numbers its batches, so that one that comes twice is known."""
        return self.head.producer_id != NO_PRODUCER


def split(records: memoryview, wanted: bytes = b"") -> list[Batch]:
    """The batches that a producer sent for one partition, each of them checked but for what its records say.

    BadBatch where one does not check. Whoever will look for a name in it says so: large ones are searched now.
    """
    batches: list[Batch] = []
    position = 0
    while position < len(records):
        if len(batches) == PRODUCE_BATCHES_MAX:
            raise BadBatch(f"more than {PRODUCE_BATCHES_MAX} batches for one partition")
        batch = _cut(records[position:], None, wanted)
        batches.append(batch)
        position += len(batch.data)
    if not batches:
        raise BadBatch("there is none")
    return batches


def only_batch(records: memoryview, head: KafkaBatchHead | None = None, wanted: bytes = b"") -> Batch | None:
    """The only batch that a producer sent for one partition, checked as `split` does; None where there are more.

    `head` is that of the batch, where it is at hand.
    """
    batch = _cut(records, head, wanted)
    return batch if len(batch.data) == len(records) else None


def _cut(records: memoryview, head: KafkaBatchHead | None, wanted: bytes) -> Batch:
    if head is None:
        if len(records) < KAFKA_BATCH_HEAD.size:
            raise BadBatch(f"{len(records)} bytes are less than a head")
        head = tuple.__new__(KafkaBatchHead, KAFKA_BATCH_HEAD.unpack_from(records))
    _, length, _, magic, checksum, attributes, last, _, _, _, _, _, count = head
    end, compression = KAFKA_LENGTH_END + length, attributes & KAFKA_COMPRESSION
    if magic != KAFKA_MAGIC:
        raise BadBatch(f"format {magic}; only format {KAFKA_MAGIC} is taken")
    if not KAFKA_BATCH_HEAD.size < end <= len(records):
        raise BadBatch(f"a length of {length} where {len(records)} bytes are left")
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
    if wanted and end > PIECE_SIZE and not compression:
        found, is_named = check_and_search(data[KAFKA_CHECKED_AT:], wanted)
    else:
        found = crc32c(data[KAFKA_CHECKED_AT:])
    if found != checksum:
        raise BadBatch("it does not match its checksum")
    return tuple.__new__(Batch, (head, data, is_named))


def may_unpack_to_more(batch: Batch, size_max: int) -> bool:
    """Whether a batch is compressed so far that its records may take more than `size_max` bytes when unpacked."""
    code = batch.head.attributes & KAFKA_COMPRESSION
    if not code:
        return False
    bound = unpacked_size_bound(batch.data[KAFKA_BATCH_HEAD.size :], code)
    return bound is None or bound > size_max


def check_records(batch: Batch, body_size_max: int = BODY_SIZE_MAX, size_max: int | None = None) -> None:
    """Unpacks what is compressed, and raises BadBatch if the records are not as many, or not such, as the head says.

    Raises TooLarge if a body is over `body_size_max`, or all of them are more than any reader unpacks. Raises
    UnpacksToMore instead if they are more than `size_max` bytes, if that is given and less.
    """
    try:
        _check_records(batch, RAW_SIZE_MAX if size_max is None else size_max, body_size_max)
    except UnpacksToMore as error:
        if size_max is not None and size_max < RAW_SIZE_MAX:
            raise
        raise TooLarge("unpacked batch", RAW_SIZE_MAX + 1, RAW_SIZE_MAX) from error


def is_checked_quickly(batch: Batch, body_size_max: int = BODY_SIZE_MAX) -> bool:
    """The same if there is little to unpack. False if there is much, which takes a thread's time."""
    try:
        _check_records(batch, QUICK_SIZE_MAX, body_size_max)
    except UnpacksToMore:
        return False
    return True


def _check_records(batch: Batch, size_max: int, body_size_max: int) -> None:
    count = batch.head.record_count
    try:
        area = records_of(batch.data, count, size_max)
        places = find_places(area, count)
    except UnpacksToMore:
        raise
    except ValueError as error:
        raise BadBatch(str(error)) from error
    if len(area) > body_size_max:
        size = int((places.value_ends - places.value_starts).max())
        if size > body_size_max:
            raise TooLarge("body", size, body_size_max)


# --- Batches for consumers ---


def build(messages: Sequence[Message]) -> list[bytes | memoryview]:
    """One batch of messages that follow one another, at least one, as buffers: numbers are offsets."""
    # Imported here: of a topic that Kafka's clients alone write to no batch is ever built.
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=KAFKA_MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BUILT_SIZE_MAX,
    )
    first = messages[0].number
    for message in messages:
        value = None if NAME_OF["null_body"] in message.headers else message.body
        headers = _headers(message)
        builder.append(message.number - first, message.timestamp // US_PER_MS, message.key, value, headers)
    return list(numbered(memoryview(builder.build()), first))


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


def build_control(head: KafkaBatchHead, *, is_commit: bool, coordinator_epoch: int = 0) -> bytes:
    """The control batch that ends the transaction of the producer in `head`, whose offset and times it has."""
    key, value = CONTROL_KEY.pack(0, is_commit), CONTROL_VALUE.pack(0, coordinator_epoch)
    record = b"".join((b"\0\0\0", _varint(len(key)), key, _varint(len(value)), value, b"\0"))
    records = _varint(len(record)) + record
    head = head._replace(
        batch_length=KAFKA_BATCH_HEAD.size - KAFKA_LENGTH_END + len(records),
        magic=KAFKA_MAGIC,
        attributes=KAFKA_TRANSACTIONAL | KAFKA_CONTROL,
        last_offset_delta=0,
        base_sequence=-1,
        record_count=1,
    )
    data = KAFKA_BATCH_HEAD.pack(*head) + records
    return KAFKA_BATCH_HEAD.pack(*head._replace(checksum=crc32c(data[KAFKA_CHECKED_AT:]))) + records


def _varint(size: int) -> bytes:
    """A signed varint of a small number that is not negative."""
    return bytes((size << 1,))
