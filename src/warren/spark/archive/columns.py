"""The columns of archived messages: made from the columns of a scan, and turned back into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.message import NO_CORR_OFFSET
from warren.spark.columns.nulls import nulls_where_empty, nulls_where_equal
from warren.storage.arrow.arrays import HEADERS, SCHEMA

HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARCHIVE_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("id", pa.string()),
        ("tag", pa.string()),
        ("corr_offset", pa.int64()),
        ("byte_offset", pa.int64()),
        ("headers", pa.list_(pa.field("element", HEADER))),
    ]
)
"""The columns of format "warren", with null for missing values. The path of a file names the topic."""
CHECKED: Final = tuple(name for name in ARCHIVE_SCHEMA.names if name != "partition")
"""The columns that differ from message to message. They are the ones that have checksums."""


def shaped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch of a scan with the names and types of an archive."""
    arrays = [MAKERS[name](batch) for name in CHECKED]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(CHECKED))


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([ARCHIVE_SCHEMA.field(name) for name in columns])


def with_partition(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """Returns the same batch with the number of the partition as its first column."""
    column = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
    return pa.RecordBatch.from_arrays([column, *batch.columns], schema=ARCHIVE_SCHEMA)


def _header_lists(headers: pa.MapArray) -> pa.Array:
    """Returns maps as lists of pairs, over the same bytes; null for a map without entries."""
    kind = ARCHIVE_SCHEMA.field("headers").type
    pairs = pa.StructArray.from_arrays([headers.keys, headers.items], fields=list(HEADER))
    lists = pa.Array.from_buffers(kind, len(headers), headers.buffers()[:2], offset=headers.offset, children=[pairs])
    return nulls_where_empty(lists)


def _header_maps(lists: pa.ListArray) -> pa.Array:
    pairs = lists.flatten()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    edges = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    return pa.MapArray.from_arrays(edges, pairs.field("key"), pairs.field("value"), type=HEADERS)


MAKERS: Final[Mapping[str, Callable[[pa.RecordBatch], pa.Array]]] = {
    "offset": lambda batch: batch.column("number"),
    "timestamp": lambda batch: batch.column("timestamp"),
    "key": lambda batch: batch.column("key"),
    "value": lambda batch: batch.column("body"),
    "id": lambda batch: nulls_where_empty(batch.column("id")),
    "tag": lambda batch: nulls_where_empty(batch.column("tag")),
    "corr_offset": lambda batch: nulls_where_equal(batch.column("corr_offset"), NO_CORR_OFFSET),
    "byte_offset": lambda batch: batch.column("offset"),
    "headers": lambda batch: _header_lists(batch.column("headers")),
}

UNMAKERS: Final[Mapping[str, tuple[str, Callable[[pa.Array], pa.Array]]]] = {
    "number": ("offset", lambda array: array),
    "offset": ("byte_offset", lambda array: array),
    "timestamp": ("timestamp", lambda array: array),
    "id": ("id", lambda array: array.fill_null("")),
    "tag": ("tag", lambda array: array.fill_null("")),
    "key": ("key", lambda array: array),
    "headers": ("headers", _header_maps),
    "corr_offset": ("corr_offset", lambda array: array.fill_null(NO_CORR_OFFSET)),
    "body": ("value", lambda array: array),
}
"""For each column of a scan: the column of an archive that it is derived from, and the conversion."""


def archived_columns(scanned: Sequence[str]) -> list[str]:
    """Returns the columns of an archive from which these columns of a scan are derived."""
    return [UNMAKERS[name][0] for name in scanned]


def scanned(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns a batch of an archive with the columns of a scan."""
    arrays = [make(batch.column(name)) for name, make in map(UNMAKERS.__getitem__, columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in columns]))
