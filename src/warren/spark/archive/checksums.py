"""Checksums of messages, column by column. They are the same for a log and for Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.archive.columns import CHECKED, HEADER
from warren.storage.format.checksum import crc32c

NULL_SIZE = -1


class ContentChecksum:
    """The CRC-32C of each column of the messages that were added, no matter how they were cut into batches.

    One thread. A column of numbers is checked as values of 8 bytes, little-endian; null is -1. A column of bytes or
    text has two checksums: one of the sizes, of 4 bytes each (null is -1), and one of all bytes back to back. Headers
    have a checksum of their counts, of 4 bytes each, and the checksums of the two columns of their names and values.
    """

    def __init__(self) -> None:
        self._crcs: dict[str, int] = {}
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the messages of a batch with the columns of `shaped`.

        They come after all messages that were added before.
        """
        self.count += batch.num_rows
        for name in CHECKED:
            self._add(name, batch.column(name))

    def columns(self) -> dict[str, str]:
        """Returns the checksums of each column in hexadecimal, by its name."""
        return {
            name: "".join(f"{crc:08x}" for part, crc in self._crcs.items() if part.partition("/")[0] == name)
            for name in CHECKED
        }

    def _add(self, name: str, array: pa.Array) -> None:
        if pa.types.is_list(array.type):
            self._add_lists(name, array)
        elif pa.types.is_binary(array.type) or pa.types.is_string(array.type):
            self._add_values(name, array)
        else:
            # A time is a number of µs, so this costs no copy.
            values = array.view(pa.int64()) if not array.null_count else array.cast(pa.int64()).fill_null(NULL_SIZE)
            self._update(name, values.to_numpy(zero_copy_only=False))

    def _add_values(self, name: str, array: pa.Array) -> None:
        if array.null_count == len(array):
            self._update(f"{name}/sizes", np.full(len(array), NULL_SIZE, np.int32))
            self._update(f"{name}/bytes", b"")
            return
        sizes = pc.binary_length(array).cast(pa.int32())
        if array.null_count:
            sizes, array = sizes.fill_null(NULL_SIZE), pc.fill_null(array, b"" if _is_binary(array) else "")
        self._update(f"{name}/sizes", sizes.to_numpy(zero_copy_only=False))
        self._update(f"{name}/bytes", _bytes_of(array))

    def _add_lists(self, name: str, array: pa.ListArray) -> None:
        counts = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
        self._update(f"{name}/counts", counts.to_numpy(zero_copy_only=False))
        entries = array.flatten()
        for field in HEADER:
            self._add_values(f"{name}/{field.name}", entries.field(field.name))

    def _update(self, part: str, data: Any) -> None:
        self._crcs[part] = crc32c(data, self._crcs.get(part))


def _is_binary(array: pa.Array) -> bool:
    return bool(pa.types.is_binary(array.type))


def _bytes_of(array: pa.Array) -> Any:
    """Returns the bytes of all values, back to back, without copying them."""
    _, ends, data = array.buffers()
    if data is None or not len(array):
        return b""
    edges = np.frombuffer(ends, np.int32)
    start, end = int(edges[array.offset]), int(edges[array.offset + len(array)])
    return data.slice(start, end - start)
