"""Which column of a query that writes is what of a message; rows made into batches, by topic and partition."""

from __future__ import annotations

import difflib
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
from warren.spark.json_bodies import json_objects
from warren.spark.sink_options import WriteOptions

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
"""What a column may be of a message, by its name, and its type."""
GIVEN_BY_LOG: Final = frozenset({"offset", "timestamp", "timestamptype", "corr_offset", "byte_offset"})
"""What a query reads from a topic and a topic gives anew: left out, so that what was read can be written."""
LEFT_TO_VALUES: Final = frozenset({"id", "value"})
"""What is a field of the JSON object unless `messageColumns` says otherwise: documents have an id."""
NO_PARTITION: Final = -1


class Rows(NamedTuple):
    """Messages for one topic, and one partition where the query says which. `due_us` where they are delayed."""

    topic: str
    partition: int | None
    batch: pa.RecordBatch
    due_us: list[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkColumns:
    """The place of each column that is something of a message, and of the fields of a JSON value.

    Known on the driver before a task runs: what cannot be written is refused there.
    """

    places: Mapping[str, int]
    fields: tuple[tuple[str, int], ...] | None
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, options: WriteOptions) -> SinkColumns:
        """The columns of a query; BadColumn or BadOption where they make no messages."""
        names = [name.lower() for name in schema.names]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise BadColumn(twice[0], "two columns have the same name, whatever their case; rename one")
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

    def split(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The rows by topic and partition, those that are delayed apart; BadRow for one that cannot be a message."""
        topics = self._topics(batch)
        bodies = self._bodies(batch)
        if bodies.null_count:
            row = int(np.argmax(bodies.is_null().to_numpy(zero_copy_only=False)))
            raise BadRow(_topic_at(topics, row), "its value is null; a message has a value, which may be empty")
        messages = self._messages(batch, bodies)
        for part in self._parts(batch, topics):
            rows = messages if part.rows is None else messages.take(pa.array(part.rows))
            yield Rows(part.topic, part.partition, rows, part.due_us)

    def _topics(self, batch: pa.RecordBatch) -> str | pa.Array:
        if self.topic is not None:
            return self.topic
        topics = batch.column(self.places["topic"]).cast(pa.string())
        if topics.null_count:
            raise BadRow(None, "its topic is null, and the option `topic` does not name one for all")
        return topics

    def _bodies(self, batch: pa.RecordBatch) -> pa.Array:
        if self.fields is None:
            return batch.column(self.places["value"])
        columns = [batch.column(place) for _, place in self.fields]
        return json_objects([name for name, _ in self.fields], columns, batch.num_rows)

    def _messages(self, batch: pa.RecordBatch, bodies: pa.Array) -> pa.RecordBatch:
        """The rows as storage takes them, without columns in which nothing stands."""
        columns = {"body": bodies}
        for name in ("key", "tag", "id", "headers"):
            if name in self.places:
                column = batch.column(self.places[name])
                if column.null_count < len(column):
                    columns[name] = _header_maps(column) if name == "headers" else column
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _parts(self, batch: pa.RecordBatch, topics: str | pa.Array) -> Iterator[Part]:
        names, codes = _coded(topics, batch.num_rows)
        partitions = self._partitions(batch)
        due = self._due(batch)
        if len(names) == 1 and partitions is None and due is None:
            yield Part(names[0], None, None, None)
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
            yield Part(names[code], partition, rows, due[rows].tolist() if delayed and due is not None else None)

    def _partitions(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
        if "partition" not in self.places:
            return None
        column = batch.column(self.places["partition"])
        if column.null_count == len(column):
            return None
        values: npt.NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), NO_PARTITION).to_numpy()
        # A number that no partition has is told so by the topic.
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


class Part(NamedTuple):
    """Rows of a batch, or all of them, that go one way."""

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
    """Headers in the shape of Kafka, a list of names and values, as maps, which storage takes."""
    if pa.types.is_map(column.type):
        return column
    entries = column.values
    names, values = entries.field(0), entries.field(1)
    offsets = column.offsets
    if column.null_count:
        # Offsets with nulls are how Arrow tells the rows that have no map at all.
        ends = pc.if_else(column.is_valid(), offsets[:-1], pa.scalar(None, offsets.type))
        offsets = pa.concat_arrays([ends, offsets[-1:]])
    return pa.MapArray.from_arrays(offsets.cast(pa.int32()), names, values)


# --- What columns are ---


def _is_role(field: StructField, options: WriteOptions, *, is_json: bool) -> bool:
    """Whether a column is something of the message. Where it must be, and is of another type: BadColumn."""
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
    """Where the value is, if not in a column of that name: in the one column of text or bytes that there is."""
    unknown = [(field, place) for field, place in others if field.name.lower() not in GIVEN_BY_LOG]
    if "value" not in places and len(unknown) == 1 and isinstance(unknown[0][0].dataType, StringType | BinaryType):
        return {"value": unknown[0][1]}
    if unknown:
        field = unknown[0][0]
        near = difflib.get_close_matches(field.name.lower(), ROLES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(ROLES)}."
        raise BadColumn(
            field.name, f"a message has none of that name; {hint} With valueFormat=json any columns make up the value"
        )
    if "value" not in places:
        raise BadColumn("value", "it is missing: give a column `value` of type string or binary, or valueFormat=json")
    return {}
