"""The messages that a transaction puts to one log. They are checked when they are put and kept as columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from uuid import uuid4

from warren.message import NO_CORR_OFFSET, Message
from warren.queue.state.settings import TopicSettings
from warren.storage.disk.block import record_size_max
from warren.storage.format.columns import Batch
from warren.storage.format.compression import compression_code
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.limits import BATCH_COUNT_MAX, BATCH_SIZE_TARGET, ID_SIZE_MAX, TAG_SIZE_MAX
from warren.storage.format.packing import pack_batch
from warren.storage.format.record import (
    Packed,
    check_bodies,
    check_body,
    check_corr_offset,
    check_size,
    key_bytes,
    pack_headers,
    record_size,
    text_bytes,
)
from warren.storage.format.versions import FORMATS, VERSION_DEFAULT, Format

if TYPE_CHECKING:
    import pyarrow

ROW_OVERHEAD: Final = 64
"""An upper bound of the bytes that a message takes in a batch in addition to its fields."""
RECORD_OVERHEAD: Final = 512
"""An upper bound of the bytes that a batch takes in addition to its messages: the head, the table of sections, the
marker.
"""


@functools.cache
def _record_size_max(version: int, block_size: int) -> int:
    return record_size_max(FORMATS[version], block_size)


PackWith = Callable[[bytes], list[Packed]]
"""Packs a batch as records that carry a marker."""
PARKED_FORMAT: Final = FORMATS[VERSION_DEFAULT]
PendingRow = tuple[bytes, str, bytes | None, str, Mapping[str, bytes] | None, int, int]
"""One checked message as a log of its format stores it: body, tag, key, id, headers, corr_offset; and its size.

Not a NamedTuple, because making one would cost more than all other work on it.
"""


class RecordLimits(NamedTuple):
    """The limits of a topic: its format, the sizes of a record and of a body, and the compression of records."""

    format: Format
    record_size: int
    body_size: int
    compression: int = 0

    @classmethod
    def of(cls, settings: TopicSettings) -> Self:
        size_max = _record_size_max(settings.version, settings.block_size)
        return cls(settings.format, size_max, settings.message_size_max, compression_code(settings.compression))

    def parked(self) -> Self:
        """Returns the limits of the log in which messages of the topic are parked."""
        return self._replace(format=PARKED_FORMAT)

    def pack(self, batch: Batch, marker: bytes) -> list[Packed]:
        """Packs checked rows into records for the journal and the log."""
        return list(pack_batch(batch, "", self.compression, self.record_size, marker))

    def pack_arrow(self, batch: pyarrow.RecordBatch, marker: bytes) -> list[Packed]:
        """Packs the messages of an Arrow batch into records for the journal and the log.

        Raises BadInput if the log does not accept one of them.
        """
        # Imported here, because importing PyArrow takes longer than a transaction.
        from warren.storage.arrow.arrow_packing import body_size_max, pack_arrow, rows_of

        if not self.format.keeps_markers:
            # Each message needs an id.
            return self.pack(batch_of(self.rows(Batch(*rows_of(batch)))), marker)
        check_size("body", body_size_max(batch), self.body_size)
        packed = list(pack_arrow(batch, self.compression, self.record_size, marker))
        for record in packed:
            check_size("message", record_size(record), self.record_size)
        return packed

    def pack_kafka(self, batch: bytes | memoryview, marker: bytes) -> list[Packed]:
        """Packs a Kafka batch into the record that the log stores. Raises TooLarge if it is over the limit."""
        self.format.check_batches("a Kafka batch")
        record = pack_kafka(batch, marker=marker)
        check_size("batch", record_size(record), self.record_size)
        return [record]

    def rows(self, batch: Batch) -> list[PendingRow]:
        """Returns the messages of a batch as rows. Raises BadInput if the topic does not accept one."""
        columns = [column if column is not None else [None] * len(batch.bodies) for column in batch]
        return [
            self.row(body, tag or "", key, id or "", headers, NO_CORR_OFFSET if corr_offset is None else corr_offset)
            for body, tag, key, id, headers, corr_offset in zip(*columns, strict=True)
        ]

    def row(
        self,
        body: bytes,
        tag: str = "",
        key: bytes | None = None,
        id: str = "",
        headers: Mapping[str, bytes] | None = None,
        corr_offset: int = NO_CORR_OFFSET,
    ) -> PendingRow:
        """Returns the message as a row. Raises BadInput if the topic does not accept it.

        If the log keeps no markers, a message without an id gets one, because it is found again by its id.
        """
        if type(body) is not bytes:
            check_body(body)
            body = bytes(body)
        check_size("body", len(body), self.body_size)
        size = len(body) + ROW_OVERHEAD
        if not self.format.keeps_markers:
            id = id or uuid4().hex
            self.format.pack_single(body, tag=tag, key=key, headers=headers, id=id, corr_offset=corr_offset)
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
        check_size("message", size + RECORD_OVERHEAD, self.record_size)
        return body, tag, key, id, headers, corr_offset, size

    def plain_rows(self, bodies: Sequence[bytes], tag: str) -> list[PendingRow]:
        """Returns rows that have only bodies and one tag for all: as `row` does, with fewer calls."""
        if not self.format.keeps_markers or not bodies or set(map(type, bodies)) != {bytes}:
            check_bodies(bodies)
            return [self.row(body, tag) for body in bodies]
        # If the largest one passes the check, all do.
        largest = self.row(max(bodies, key=len), tag)
        overhead = largest[-1] - len(largest[0])
        return [(body, tag, None, "", None, NO_CORR_OFFSET, len(body) + overhead) for body in bodies]


class PendingRows:
    """Messages for one log, in order. `size` is an upper bound of the bytes that they take there."""

    def __init__(self) -> None:
        self.rows: list[PendingRow] = []
        self.size = RECORD_OVERHEAD

    def add(self, row: PendingRow) -> None:
        self.rows.append(row)
        self.size += row[-1]

    def add_all(self, rows: Sequence[PendingRow]) -> int:
        """Adds rows, and returns how many bytes they take."""
        size = sum(row[-1] for row in rows)
        self.rows += rows
        self.size += size
        return size

    def batch(self) -> Batch:
        """Returns the messages as columns."""
        return batch_of(self.rows)

    def clear(self) -> None:
        """Drops the messages, which are stored elsewhere from now on."""
        self.rows, self.size = [], RECORD_OVERHEAD

    def is_one_record(self, limits: RecordLimits) -> bool:
        """Returns whether they certainly become one record, which is stored completely or not at all."""
        size_max = min(BATCH_SIZE_TARGET, limits.record_size // 2)
        return limits.format.has_batches and len(self.rows) <= BATCH_COUNT_MAX and self.size <= size_max


def batch_of(rows: Sequence[PendingRow]) -> Batch:
    """Returns messages as columns. A column without any value is omitted."""
    bodies, tags, keys, ids, headers, corr_offsets, _ = zip(*rows, strict=True)
    return Batch(
        bodies,
        tags if any(tags) else None,
        None if keys.count(None) == len(keys) else keys,
        ids if any(ids) else None,
        headers if any(headers) else None,
        None if corr_offsets.count(NO_CORR_OFFSET) == len(corr_offsets) else corr_offsets,
    )


def row_of(message: Message) -> PendingRow:
    """Returns a message that was read as a row to put."""
    return message.body, message.tag, message.key, message.id, message.headers, message.corr_offset, 0
