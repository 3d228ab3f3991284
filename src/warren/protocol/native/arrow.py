"""Arrow streams on the wire. The bytes of a client are checked completely, and used in place, never unpacked.

Compressed data determines itself how much memory it takes, so the broker accepts none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from warren.errors import BadInput
from warren.protocol.primitives import (
    ARROW_BACK,
    ARROW_FIELD,
    ARROW_OFFSET,
    CORRELATION_ID,
    INT64,
    UNREADABLE,
    Buffer,
    compact_size,
)

if TYPE_CHECKING:
    import pyarrow

ALIGNMENT: Final = 8
SCAN_HEAD_SIZE: Final = CORRELATION_ID.size + INT64.size + 3
"""The size of the head of an answer to Scan, before the size of its stream: no tags, no error and the size of the
padding take a byte each.
"""
SIZES_SIZE: Final = 2 * ARROW_FIELD.size
"""The size of the data that precedes the fields in the list of a table."""
HEADER_TYPE, HEADER = 1, 2
DICTIONARY: Final = 2
DICTIONARY_DATA: Final = 1
RECORD_BATCH: Final = 3
COMPRESSION: Final = 3


def scan_padding(size: int) -> bytes:
    """Returns the bytes before an Arrow stream of `size` bytes in the answer to Scan, with padding that aligns it."""
    return bytes(-(SCAN_HEAD_SIZE + len(compact_size(size))) % ALIGNMENT)


def aligned_buffer(data: Buffer) -> pyarrow.Buffer:
    """Returns the bytes for PyArrow, copied if they are not aligned."""
    import pyarrow

    buffer = pyarrow.py_buffer(data)
    return buffer if buffer.address % ALIGNMENT == 0 else pyarrow.py_buffer(bytes(data))


def arrow_batches(data: Buffer) -> Iterator[pyarrow.RecordBatch]:
    """Returns the record batches of an Arrow stream. Raises BadInput if it is not one, or is compressed."""
    # Imported here because importing PyArrow takes longer than opening a log.
    import pyarrow

    buffer = pyarrow.py_buffer(data)
    try:
        _refuse_compressed(buffer)
        for batch in pyarrow.ipc.open_stream(buffer):
            batch.validate(full=True)
            yield batch
    except (pyarrow.ArrowException, OSError, *UNREADABLE) as error:
        raise BadInput(f"this is not a stream of Arrow batches: {error}") from error


def _refuse_compressed(buffer: pyarrow.Buffer) -> None:
    import pyarrow

    messages = pyarrow.ipc.MessageReader.open_stream(buffer)
    while (message := next(messages, None)) is not None:
        table = memoryview(message.metadata)
        root = _followed(table, 0)
        kind = table[_field(table, root, HEADER_TYPE)]
        header = _followed(table, _field(table, root, HEADER))
        if kind == DICTIONARY:
            header = _followed(table, _field(table, header, DICTIONARY_DATA))
        if kind in (DICTIONARY, RECORD_BATCH) and _field(table, header, COMPRESSION) != header:
            raise ValueError("its batches are compressed")


def _followed(table: memoryview, position: int) -> int:
    """Returns the position that the offset at this position points to."""
    return position + int(ARROW_OFFSET.unpack_from(table, position)[0])


def _field(table: memoryview, at: int, field: int) -> int:
    """Returns the position of a field of the table at `at`; `at` itself if the field is missing."""
    fields = at - int(ARROW_BACK.unpack_from(table, at)[0])
    place = SIZES_SIZE + field * ARROW_FIELD.size
    if place >= ARROW_FIELD.unpack_from(table, fields)[0]:
        return at
    return at + int(ARROW_FIELD.unpack_from(table, fields + place)[0])
