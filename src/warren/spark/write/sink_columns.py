"""Maps the columns of a query to parts of a message, and rows to batches by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from warren.errors import BadColumn, BadOption, BadRow
from warren.settings import hint
from warren.spark.columns.json_writer import json_objects
from warren.spark.write.options import WriteOptions

ROLES: Final[Mapping[str, str]] = {
    "value": "string or binary",
    "topic": "string",
    "key": "string or binary",
    "tag": "string",
    "headers": "array<struct<key:string,value:binary>> or map<string,binary>",
    "id": "string",
    "partition": "int",
    "deliver_at": "timestamp",
}
"""The parts of a message that a column may become, by name, and their types."""
GIVEN_BY_LOG: Final = frozenset({"offset", "timestamp", "timestamptype", "corr_offset", "byte_offset"})
"""Columns that a topic assigns itself. They are ignored, so that rows that were read can be written unchanged."""
LEFT_TO_VALUES: Final = frozenset({"id", "value"})
"""Fields of the JSON object unless `messageColumns` names them, because documents have an id."""
NO_PARTITION: Final = -1


class SinkRows(NamedTuple):
    """Messages for one topic, and for one partition if the query names it. `due_us` is set if they are delayed."""

    topic: str
    partition: int | None
    batch: pa.RecordBatch
    due_us: list[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkColumns:
    """The place of each column that is a part of a message, and of the fields of a JSON value.

    The driver makes it before a task runs, so that it refuses columns that cannot be written.
    """

    places: Mapping[str, int]
    fields: tuple[tuple[str, int], ...] | None
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, options: WriteOptions) -> SinkColumns:
        """Returns the columns of a query. Raises BadColumn or BadOption if they cannot become messages."""
        names = [name.lower() for name in schema.names]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise BadColumn(twice[0], "two columns have the same name, ignoring case; rename one")
        is_json = options.value_format == "json"
        places = {
            field.name.lower(): place
            for place, field in enumerate(schema.fields)
            if _is_role(field, options, is_json=is_json)
        }
        others = [(field, place) for place, field in enumerate(schema.fields) if place not in places.values()]
        fields: tuple[tuple[str, int], ...] | None = None
        if is_json:
            fields = tuple((field.name, place) for field, place in others)
        else:
            places |= _value_place(places, others)
        if options.topic is None and "topic" not in places:
            raise BadOption("topic", "it is missing: name the topic by this option, or in a string column `topic`")
        return cls(places=places, fields=fields, topic=options.topic)

    # --- Rows ---

    def split(self, batch: pa.RecordBatch) -> Iterator[SinkRows]:
        """Returns the rows by topic and partition, with delayed ones separate.

        Raises BadRow if one cannot be a message.
        """
        topics = self._topics(batch)
        bodies = self._bodies(batch)
        if bodies.null_count:
            row = int(np.argmax(bodies.is_null().to_numpy(zero_copy_only=False)))
            raise BadRow(_topic_at(topics, row), "its value is null; a message needs a value, which may be empty")
        messages = self._messages(batch, bodies)
        for part in self._parts(batch, topics):
            rows = messages if part.rows is None else messages.take(pa.array(part.rows))
            yield SinkRows(part.topic, part.partition, rows, part.due_us)

    def _topics(self, batch: pa.RecordBatch) -> str | pa.Array:
        if self.topic is not None:
            return self.topic
        topics = batch.column(self.places["topic"]).cast(pa.string())
        if topics.null_count:
            raise BadRow(None, "its topic is null, and the option `topic` is not set")
        return topics

    def _bodies(self, batch: pa.RecordBatch) -> pa.Array:
        if self.fields is None:
            return batch.column(self.places["value"])
        columns = [batch.column(place) for _, place in self.fields]
        return json_objects([name for name, _ in self.fields], columns, batch.num_rows)

    def _messages(self, batch: pa.RecordBatch, bodies: pa.Array) -> pa.RecordBatch:
        """Returns the rows in the form of storage, without columns that are all null."""
        columns = {"body": bodies}
        for name in ("key", "tag", "id", "headers"):
            if name in self.places:
                column = batch.column(self.places[name])
                if column.null_count < len(column):
                    columns[name] = _header_maps(column) if name == "headers" else column
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _parts(self, batch: pa.RecordBatch, topics: str | pa.Array) -> Iterator[SinkPart]:
        names, codes = _coded(topics, batch.num_rows)
        partitions = self._partitions(batch)
        due = self._due(batch)
        if len(names) == 1 and partitions is None and due is None:
            yield SinkPart(names[0], None, None, None)
            return
        lanes = np.full(batch.num_rows, NO_PARTITION, np.int64) if partitions is None else partitions
        is_due = np.zeros(batch.num_rows, np.int64) if due is None else (due >= 0).astype(np.int64)
        keys = np.stack([codes, lanes, is_due])
        order = np.lexsort(keys[::-1])
        ordered = keys[:, order]
        starts = np.flatnonzero(np.any(np.diff(ordered, axis=1, prepend=ordered[:, :1] - 1), axis=0))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True):
            rows = order[start:end]
            code, lane, delayed = ordered[:, start].tolist()
            partition = None if lane == NO_PARTITION else lane
            yield SinkPart(names[code], partition, rows, due[rows].tolist() if delayed and due is not None else None)

    def _partitions(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
        if "partition" not in self.places:
            return None
        column = batch.column(self.places["partition"])
        if column.null_count == len(column):
            return None
        values: npt.NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), NO_PARTITION).to_numpy()
        # The topic raises an error for a number that is not one of its partitions.
        return np.where((values < 0) & column.is_valid().to_numpy(zero_copy_only=False), values - 1, values)

    def _due(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
        if "deliver_at" not in self.places:
            return None
        column = batch.column(self.places["deliver_at"])
        if column.null_count == len(column):
            return None
        times = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        due: npt.NDArray[np.int64] = pc.fill_null(pc.max_element_wise(times, 0, skip_nulls=False), -1).to_numpy()
        return due


class SinkPart(NamedTuple):
    """Rows of a batch, or all of them, with the same topic, partition and kind of delivery."""

    topic: str
    partition: int | None
    rows: npt.NDArray[np.intp] | None
    due_us: list[int] | None


def _coded(topics: str | pa.Array, count: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    if isinstance(topics, str):
        return [topics], np.zeros(count, np.int64)
    encoded = topics.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _topic_at(topics: str | pa.Array, row: int) -> str:
    return topics if isinstance(topics, str) else str(topics[row].as_py())


def _header_maps(column: pa.Array) -> pa.Array:
    """Returns headers as maps, the form of storage; Kafka has them as lists of names and values."""
    if pa.types.is_map(column.type):
        return column
    entries = column.values
    names, values = entries.field(0), entries.field(1)
    offsets = column.offsets
    if column.null_count:
        # In Arrow, a null among the offsets means that the row has no map.
        ends = pc.if_else(column.is_valid(), offsets[:-1], pa.scalar(None, offsets.type))
        offsets = pa.concat_arrays([ends, offsets[-1:]])
    return pa.MapArray.from_arrays(offsets.cast(pa.int32()), names, values)


# --- What columns are ---


def _is_role(field: StructField, options: WriteOptions, *, is_json: bool) -> bool:
    """Returns whether a column is a part of the message. Raises BadColumn if it must be one and has another type."""
    name = field.name.lower()
    if options.message_columns is not None and name in options.message_columns and name not in ROLES:
        raise BadOption("messageColumns", f"{field.name!r}: a message has {', '.join(ROLES)}")
    if name not in ROLES:
        return False
    if is_json:
        if options.message_columns is None:
            return name not in LEFT_TO_VALUES and _fits(name, field.dataType)
        if name not in options.message_columns:
            return False
    if not _fits(name, field.dataType):
        raise BadColumn(field.name, f"it is {field.dataType.simpleString()}; expected {ROLES[name]}")
    return True


def _fits(name: str, kind: DataType) -> bool:
    if name in ("value", "key"):
        return isinstance(kind, StringType | BinaryType)
    if name == "headers":
        return _are_headers(kind)
    if name == "partition":
        return isinstance(kind, IntegralType)
    return isinstance(kind, TimestampType if name == "deliver_at" else StringType)


def _are_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType | BinaryType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    kinds = [type(field.dataType) for field in fields]
    return len(fields) == 2 and kinds[0] is StringType and kinds[1] in (StringType, BinaryType)


def _value_place(places: Mapping[str, int], others: Sequence[tuple[StructField, int]]) -> dict[str, int]:
    """Returns the column of the value: the one named `value`, otherwise the only column of text or bytes."""
    unknown = [(field, place) for field, place in others if field.name.lower() not in GIVEN_BY_LOG]
    if "value" not in places and len(unknown) == 1 and isinstance(unknown[0][0].dataType, StringType | BinaryType):
        return {"value": unknown[0][1]}
    if unknown:
        field = unknown[0][0]
        reason = f"a message has no part of that name; {hint(field.name, ROLES)}; with valueFormat=json all can be used"
        raise BadColumn(field.name, reason)
    if "value" not in places:
        raise BadColumn(
            "value", "it is missing: add a column `value` of type string or binary, or set valueFormat=json"
        )
    return {}
