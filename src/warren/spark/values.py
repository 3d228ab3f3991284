"""Values with a format: the fields of JSON, CSV or text as columns, beside those of the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from warren.errors import BadColumn, BadOption, MalformedValue
from warren.spark.columns import (
    MESSAGE_COLUMNS,
    Origin,
    checked_column,
    is_message_column,
    message_array,
    scanned_columns,
)
from warren.spark.csv_values import CsvValues
from warren.spark.json_values import JsonValues
from warren.spark.options import ReadOptions
from warren.spark.text_values import Fits, TextValues, text_of

LEFT_TO_FIELDS: Final = "id"
"""The column of the message that comes from the value's fields, unless a query says otherwise: documents have an id."""
LEFT_TO_TEXT: Final = "value"


class ValueFormat(Protocol):
    """What a value is made of. `parse` never fails for what the values hold."""

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]: ...


class TypedProjection:
    """Columns of the message and of its value.

    A field that has the name and the type of a column of the message comes from there; all others come from the value.
    `messageColumns` tells otherwise which names are the message's.
    """

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._mode, self._corrupt_column = options.mode, options.corrupt_column
        own = _message_fields(schema, options)
        self.from_message = frozenset(field.name.lower() for field in own)
        self._fields = [field for field in schema.fields if field not in own and field.name != options.corrupt_column]
        self._check_nullable(schema)
        self._names, self._schema = schema.names, to_arrow_schema(schema, timezone="UTC")
        self._format = self._format_of(options)
        self.scanned = list(dict.fromkeys(["number", "body", *scanned_columns(own)]))

    def _check_nullable(self, schema: StructType) -> None:
        for field in schema.fields:
            if field.name.lower() not in self.from_message and not field.nullable:
                raise BadColumn(field.name, "a value may lack it, or not be readable; leave out NOT NULL")
            if field.name == self._corrupt_column and field.dataType != StringType():
                raise BadColumn(field.name, "what cannot be read is given as a string")

    def _format_of(self, options: ReadOptions) -> ValueFormat:
        fields = to_arrow_schema(StructType(self._fields), timezone="UTC")
        if options.value_format == "json":
            return JsonValues(fields)
        if options.value_format == "csv":
            return CsvValues(fields, options.separator)
        if len(fields) > 1 or any(kind != pa.string() for kind in fields.types):
            named = ", ".join(field.name for field in self._fields)
            raise BadOption("valueFormat", f"text is one column of type string, and not {named}")
        return TextValues(len(fields))

    def batch(self, origin: Origin, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the query wants them, with what it wants to become of values that do not fit."""
        arrays, fits = self._format.parse(rows.column("body"))
        if not fits.all() and self._mode != "PERMISSIVE":
            if self._mode == "FAILFAST":
                raise self._malformed(origin, rows, int(np.flatnonzero(~fits)[0]))
            kept = pa.array(fits)
            rows, arrays, fits = rows.filter(kept), [array.filter(kept) for array in arrays], fits[fits]
        found = {field.name: array for field, array in zip(self._fields, arrays, strict=True)}
        columns = [
            self._column(name, kind, found, origin, rows, fits)
            for name, kind in zip(self._names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(
        self,
        name: str,
        kind: pa.DataType,
        found: dict[str, pa.Array],
        origin: Origin,
        rows: pa.RecordBatch,
        fits: Fits,
    ) -> pa.Array:
        if name in found:
            return found[name]
        if name == self._corrupt_column:
            return _corrupt_texts(rows.column("body"), fits)
        return message_array(name.lower(), kind, origin, rows)

    def _malformed(self, origin: Origin, rows: pa.RecordBatch, row: int) -> MalformedValue:
        text = text_of(rows.column("body")[row].as_py())
        reason = f"does not fit the schema: {text[:200]!r}; mode=PERMISSIVE gives nulls for it, DROPMALFORMED drops it"
        return MalformedValue(origin.topic, origin.partition, rows.column("number")[row].as_py(), reason)


def _message_fields(schema: StructType, options: ReadOptions) -> list[StructField]:
    """The fields that come from the message. Those that are named must be columns of it."""
    if options.message_columns is None:
        left = LEFT_TO_TEXT if options.value_format == "text" else LEFT_TO_FIELDS
        return [field for field in schema.fields if is_message_column(field) and field.name.lower() != left]
    names = [name.lower() for name in options.message_columns]
    unknown = [name for name in names if name not in MESSAGE_COLUMNS]
    if unknown:
        raise BadOption("messageColumns", f"a message has no {unknown[0]!r}, but {', '.join(MESSAGE_COLUMNS)}")
    fields = [field for field in schema.fields if field.name.lower() in names]
    for field in fields:
        checked_column(field)
    return fields


def _corrupt_texts(bodies: pa.Array, fits: Fits) -> pa.Array:
    """The values that do not fit, as text; null for those that do."""
    if fits.all():
        return pa.nulls(len(bodies), pa.string())
    texts: list[str | None] = [None] * len(bodies)
    for row in np.flatnonzero(~fits).tolist():
        texts[row] = text_of(bodies[row].as_py())
    return pa.array(texts, pa.string())
