"""The messages that a transaction puts to one log, checked when they are put and kept as columns."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from uuid import uuid4

from warren.config import BATCH_COUNT_MAX, BATCH_SIZE_TARGET, ID_SIZE_MAX, TAG_SIZE_MAX
from warren.errors import TooLarge, UnsupportedByVersion
from warren.message import NO_CORR_OFFSET, Message
from warren.storage.block import record_size_max
from warren.storage.columns import Batch
from warren.storage.compression import compression_code
from warren.storage.format import FORMATS
from warren.storage.kafka_batch import pack_kafka
from warren.storage.packing import pack_batch
from warren.storage.record import (
    Packed,
    check_bodies,
    check_body,
    check_corr_offset,
    key_bytes,
    pack_headers,
    record_size,
    text_bytes,
)

if TYPE_CHECKING:
    import pyarrow

ROW_OVERHEAD: Final = 64
"""More than a message takes up in a batch besides what it says."""
RECORD_OVERHEAD: Final = 512
"""More than a batch takes up besides its messages: the head, the table of sections, the marker."""


@functools.cache
def _record_size_max(version: int, block_size: int) -> int:
    return record_size_max(FORMATS[version], block_size)


Row = tuple[bytes, str, bytes | None, str, Mapping[str, bytes] | None, int, int]
"""One message, checked, as a log of its version takes it: body, tag, key, id, headers, corr_offset; and its size.

Not a NamedTuple: making one would cost more than all else that is done with it.
"""


class Limits(NamedTuple):
    """What a topic takes: its format version, the sizes of a record and of a body, and how records are compressed."""

    version: int
    record_size: int
    body_size: int
    compression: int = 0

    @classmethod
    def of(cls, version: int, block_size: int, body_size: int, compression: str = "none") -> Self:
        return cls(version, _record_size_max(version, block_size), body_size, compression_code(compression))

    def parked(self) -> Self:
        """What the log takes in which messages of the topic are parked."""
        return self if self.version == 2 else self._replace(version=2)

    def pack(self, batch: Batch, marker: bytes) -> list[Packed]:
        """Rows that were checked, as the records that the log takes."""
        return list(pack_batch(batch, "", self.compression, self.record_size, marker))

    def pack_arrow(self, batch: pyarrow.RecordBatch, marker: bytes) -> list[Packed]:
        """The messages of an Arrow batch as the records that the log takes; BadInput where it takes one of them not."""
        # Imported here: PyArrow takes longer to import than a transaction.
        from warren.storage.arrow_packing import body_size_max, pack_arrow

        largest = body_size_max(batch)
        if largest > self.body_size:
            raise TooLarge("body", largest, self.body_size)
        packed = list(pack_arrow(batch, self.compression, self.record_size, marker))
        for record in packed:
            if record_size(record) > self.record_size:
                raise TooLarge("message", record_size(record), self.record_size)
        return packed

    def pack_kafka(self, batch: bytes | memoryview, marker: bytes) -> list[Packed]:
        """A Kafka batch as the record that the log takes; TooLarge where it takes it not."""
        if self.version == 1:
            raise UnsupportedByVersion("a Kafka batch", 1)
        record = pack_kafka(batch, marker=marker)
        if record_size(record) > self.record_size:
            raise TooLarge("batch", record_size(record), self.record_size)
        return [record]

    def row_of(self, batch: Batch) -> Row:
        """The one message of a batch."""
        (message,) = zip(*(column if column is not None else [None] for column in batch), strict=True)
        body, tag, key, id, headers, corr_offset = message
        return self.row(body, tag or "", key, id or "", headers, NO_CORR_OFFSET if corr_offset is None else corr_offset)

    def row(
        self,
        body: bytes,
        tag: str = "",
        key: bytes | None = None,
        id: str = "",
        headers: Mapping[str, bytes] | None = None,
        corr_offset: int = NO_CORR_OFFSET,
    ) -> Row:
        """The message; BadInput where the topic takes no such message.

        In version 1 it gets an id of its own where it has none: by that it is found again.
        """
        if type(body) is not bytes:
            check_body(body)
            body = bytes(body)
        if len(body) > self.body_size:
            raise TooLarge("body", len(body), self.body_size)
        size = len(body) + ROW_OVERHEAD
        if self.version == 1:
            id = id or uuid4().hex
            FORMATS[1].pack_single(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)
            size += ID_SIZE_MAX + TAG_SIZE_MAX
        else:
            if tag != "":
                size += len(text_bytes("tag", tag, TAG_SIZE_MAX))
            if key is not None:
                key = key_bytes(key)
                size += len(key)
            if id != "":
                size += len(text_bytes("id", id, ID_SIZE_MAX))
            if headers:
                size += len(pack_headers(headers))
                headers = dict(headers)
            if corr_offset != NO_CORR_OFFSET:
                check_corr_offset(corr_offset)
        if size + RECORD_OVERHEAD > self.record_size:
            raise TooLarge("message", size + RECORD_OVERHEAD, self.record_size)
        return body, tag, key, id, headers, corr_offset, size

    def plain_rows(self, bodies: Sequence[bytes], tag: str) -> list[Row]:
        """Messages that are nothing but bodies with one tag for all: as `row` gives them, with fewer calls."""
        if self.version == 1 or not bodies or set(map(type, bodies)) != {bytes}:
            check_bodies(bodies)
            return [self.row(body, tag) for body in bodies]
        # The largest is checked for all.
        largest = self.row(max(bodies, key=len), tag)
        beside = largest[-1] - len(largest[0])
        return [(body, tag, None, "", None, NO_CORR_OFFSET, len(body) + beside) for body in bodies]


class Rows:
    """Messages for one log, in order. `size` is no less than what they take up there."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.size = RECORD_OVERHEAD

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.size += row[-1]

    def add_all(self, rows: Sequence[Row]) -> int:
        """Add rows; what they take up."""
        size = sum(row[-1] for row in rows)
        self.rows += rows
        self.size += size
        return size

    def batch(self) -> Batch:
        """The messages as columns."""
        return batch_of(self.rows)

    def clear(self) -> None:
        """They are kept elsewhere from now on."""
        self.rows, self.size = [], RECORD_OVERHEAD

    def is_one_record(self, limits: Limits) -> bool:
        """Whether they are sure to be laid as one record, and so to be there wholly or not at all."""
        size_max = min(BATCH_SIZE_TARGET, limits.record_size // 2)
        return limits.version != 1 and len(self.rows) <= BATCH_COUNT_MAX and self.size <= size_max


def batch_of(rows: Sequence[Row]) -> Batch:
    """Messages as columns, without those in which nothing stands."""
    bodies, tags, keys, ids, headers, corr_offsets, _ = zip(*rows, strict=True)
    return Batch(
        bodies,
        tags if any(tags) else None,
        None if keys.count(None) == len(keys) else keys,
        ids if any(ids) else None,
        headers if any(headers) else None,
        None if corr_offsets.count(NO_CORR_OFFSET) == len(corr_offsets) else corr_offsets,
    )


def row_of(message: Message) -> Row:
    """A message that was read, to be put."""
    return message.body, message.tag, message.key, message.id, message.headers, message.corr_offset, 0
