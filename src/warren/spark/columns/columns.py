"""The columns of a message on Spark, and the projection that derives the columns of a query from those of a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from warren.errors import BadColumn, MalformedValue
from warren.message import NO_CORR_OFFSET
from warren.settings import hint
from warren.spark.columns.nulls import nulls_where_empty, nulls_where_equal
from warren.storage.arrow.arrays import SCHEMA

HEADER_FIELDS: Final = (StructField("key", StringType()), StructField("value", BinaryType()))


class MessageColumn(NamedTuple):
    """The type of a column, the column of a scan that it is derived from ("" for none), and whether it may be null."""

    kind: DataType
    scanned: str
    is_nullable: bool = False


MESSAGE_COLUMNS: Final[Mapping[str, MessageColumn]] = MappingProxyType(
    {
        "topic": MessageColumn(StringType(), ""),
        "partition": MessageColumn(IntegerType(), ""),
        "offset": MessageColumn(LongType(), "number"),
        "timestamp": MessageColumn(TimestampType(), "timestamp"),
        "key": MessageColumn(BinaryType(), "key", is_nullable=True),
        "value": MessageColumn(BinaryType(), "body"),
        "id": MessageColumn(StringType(), "id", is_nullable=True),
        "tag": MessageColumn(StringType(), "tag", is_nullable=True),
        "corr_offset": MessageColumn(LongType(), "corr_offset", is_nullable=True),
        "byte_offset": MessageColumn(LongType(), "offset"),
        "headers": MessageColumn(ArrayType(StructType(list(HEADER_FIELDS))), "headers", is_nullable=True),
    }
)
"""The columns that a query may name, in the order of a query without a schema."""
MADE_COLUMNS: Final = frozenset(("id", "tag", "corr_offset", "headers"))
"""Columns that a scan returns without nulls, while Spark expects nulls in them."""
BYTES_AS_TEXT: Final = ("key", "value")
"""Columns that a query may also request as strings, if their content is text."""


def message_schema(*, include_headers: bool, value_as_text: bool = False) -> StructType:
    """Returns the schema of a query without one. Every field may be null, because Spark compares nullability too."""
    kinds = {name: column.kind for name, column in MESSAGE_COLUMNS.items() if include_headers or name != "headers"}
    if value_as_text:
        kinds["value"] = StringType()
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def is_message_column(field: StructField) -> bool:
    """Returns whether a field has the name and a type of a column of the message."""
    column = MESSAGE_COLUMNS.get(field.name.lower())
    return column is not None and _fits(field, column)


def _fits(field: StructField, column: MessageColumn) -> bool:
    as_text = field.name.lower() in BYTES_AS_TEXT and field.dataType == StringType()
    return as_text or _nullable(field.dataType) == _nullable(column.kind)


def _nullable(kind: DataType) -> str:
    """Returns the type without its nullability, which users may write or omit."""
    return kind.simpleString()


def checked_column(field: StructField) -> str:
    """Returns the name of the message's column. Raises BadColumn if there is none, or if it has another type."""
    name = field.name.lower()
    column = MESSAGE_COLUMNS.get(name)
    if column is None:
        reason = f"a message has no such column; {hint(name, MESSAGE_COLUMNS)}; fields of the value need a valueFormat"
        raise BadColumn(field.name, reason)
    if not _fits(field, column):
        also = " or string" if name in BYTES_AS_TEXT else ""
        raise BadColumn(field.name, f"it is {column.kind.simpleString()}{also}, not {field.dataType.simpleString()}")
    if column.is_nullable and not field.nullable:
        raise BadColumn(field.name, "it is null in messages without it; omit NOT NULL")
    return name


class RowOrigin:
    """The topic and partition of rows, as two columns. They are made once, and sliced to the length of a batch."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._topics, self._partitions = pa.array([], pa.string()), pa.array([], pa.int32())

    def topics(self, count: int) -> pa.Array:
        if len(self._topics) < count:
            self._topics = pa.repeat(pa.scalar(self.topic, pa.string()), count)
        return self._topics.slice(0, count)

    def partitions(self, count: int) -> pa.Array:
        if len(self._partitions) < count:
            self._partitions = pa.repeat(pa.scalar(self.partition, pa.int32()), count)
        return self._partitions.slice(0, count)


class Projection(Protocol):
    """Derives the columns of a query. `scanned` are the columns of a scan that `batch` needs."""

    @property
    def scanned(self) -> Sequence[str]: ...
    def batch(self, origin: RowOrigin, rows: pa.RecordBatch) -> pa.RecordBatch: ...


class MessageProjection:
    """Columns of the message, any of them, in any order."""

    def __init__(self, schema: StructType) -> None:
        self._names = [checked_column(field) for field in schema.fields]
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._given_names, self._kinds = self._schema.names, self._schema.types
        self.scanned = scanned_columns(schema.fields)
        names = zip(self.scanned, self._given_names, strict=False)
        as_scanned = [SCHEMA.field(name).with_name(given_name) for name, given_name in names]
        self._is_renamed_only = pa.schema(as_scanned) == self._schema and MADE_COLUMNS.isdisjoint(self._names)

    def batch(self, origin: RowOrigin, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with the columns of the query."""
        if self._is_renamed_only:
            return rows.rename_columns(self._given_names)
        named = zip(self._names, self._kinds, strict=True)
        arrays = [message_array(name, kind, origin, rows) for name, kind in named]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def scanned_columns(fields: Sequence[StructField]) -> list[str]:
    """Returns the columns of a scan that these columns are derived from, each once, and at least one."""
    names = [field.name.lower() for field in fields]
    scanned = [MESSAGE_COLUMNS[name].scanned for name in names if MESSAGE_COLUMNS[name].scanned]
    is_text = any(
        name in BYTES_AS_TEXT and field.dataType == StringType() for name, field in zip(names, fields, strict=True)
    )
    # The number is needed for the error about bytes that are not text, and to count rows.
    return list(dict.fromkeys([*scanned, *(["number"] if is_text or not scanned else [])]))


def message_array(name: str, kind: pa.DataType, origin: RowOrigin, rows: pa.RecordBatch) -> pa.Array:
    """Returns one column of the message, for all rows."""
    if name == "topic":
        return origin.topics(len(rows))
    if name == "partition":
        return origin.partitions(len(rows))
    array = rows.column(MESSAGE_COLUMNS[name].scanned)
    if name in ("id", "tag"):
        return nulls_where_empty(array)
    if name == "corr_offset":
        return nulls_where_equal(array, NO_CORR_OFFSET)
    if name == "headers":
        return _listed_headers(array, kind)
    return array if array.type == kind else _text(array, kind, origin, rows, name)


def _listed_headers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns maps as lists of pairs, without copying; null for an empty map, as in Kafka."""
    pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=list(kind.value_type))
    lists = pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[pairs])
    return nulls_where_empty(lists)


def _text(array: pa.Array, kind: pa.DataType, origin: RowOrigin, rows: pa.RecordBatch, name: str) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(array)) if not _is_text(array[row].as_py()))
        number = rows.column("number")[row].as_py()
        reason = f"cannot be read as a string, because its {name} is not UTF-8; request it as binary"
        raise MalformedValue(origin.topic, origin.partition, number, reason) from None


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or bool(value.decode()) or True
    except UnicodeDecodeError:
        return False
