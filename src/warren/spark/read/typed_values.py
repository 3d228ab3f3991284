"""Values with a format: a query gets the fields of JSON, CSV or text as columns, next to those of the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from warren.errors import BadColumn, BadOption, MalformedValue
from warren.spark.columns.columns import (
    MESSAGE_COLUMNS,
    MessageProjection,
    Projection,
    RowOrigin,
    checked_column,
    is_message_column,
    message_array,
    scanned_columns,
)
from warren.spark.columns.text_values import Fits, TextValues, text_of
from warren.spark.read.options import ReadOptions

LEFT_TO_FIELDS: Final = "id"
"""With JSON and CSV, a column of this name is by default a field of the value, because documents have an id."""
LEFT_TO_TEXT: Final = "value"


def projection_for(schema: StructType, options: ReadOptions) -> tuple[Projection, frozenset[str]]:
    """Returns the projection for a query, and the names, in lower case, of its columns that come from the message."""
    if options.value_format == "binary":
        return MessageProjection(schema), frozenset(name.lower() for name in schema.fieldNames())
    typed = TypedProjection(schema, options)
    return typed, typed.from_message


class ValueFormat(Protocol):
    """A format of values. `parse` returns a column for each field, and which rows fit.

    It never raises because of a value.
    """

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]: ...


class TypedProjection:
    """Columns of the message and of its value.

    A field that has the name and the type of a column of the message comes from the message, all others from the value.
    The option `messageColumns` names the message's columns instead.
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
                raise BadColumn(field.name, "a value may lack it, or may be unreadable; omit NOT NULL")
            if field.name == self._corrupt_column and field.dataType != StringType():
                raise BadColumn(field.name, "unreadable values are returned as text; declare the column as string")

    def _format_of(self, options: ReadOptions) -> ValueFormat:
        fields = to_arrow_schema(StructType(self._fields), timezone="UTC")
        # Imported here because few queries need them and each worker would pay for the import.
        if options.value_format == "json":
            from warren.spark.columns.json_values import JsonValues

            return JsonValues(fields)
        if options.value_format == "csv":
            from warren.spark.columns.csv_values import CsvValues

            return CsvValues(fields, options.separator)
        if len(fields) > 1 or any(kind != pa.string() for kind in fields.types):
            named = ", ".join(field.name for field in self._fields)
            raise BadOption("valueFormat", f"text is one column of type string, not {named}")
        return TextValues(len(fields))

    def batch(self, origin: RowOrigin, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with the columns of the query.

        Values that do not fit become nulls or are dropped, or MalformedValue is raised: the option `mode` decides.
        """
        arrays, fits = self._format.parse(rows.column("body"))
        if not fits.all() and self._mode != "PERMISSIVE":
            if self._mode == "FAILFAST":
                raise self._malformed(origin, rows, int(np.flatnonzero(~fits)[0]))
            mask = pa.array(fits)
            rows, arrays, fits = rows.filter(mask), [array.filter(mask) for array in arrays], fits[fits]
        values = {field.name: array for field, array in zip(self._fields, arrays, strict=True)}
        columns = [
            self._column(name, kind, values, origin, rows, fits)
            for name, kind in zip(self._names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(
        self,
        name: str,
        kind: pa.DataType,
        values: dict[str, pa.Array],
        origin: RowOrigin,
        rows: pa.RecordBatch,
        fits: Fits,
    ) -> pa.Array:
        if name in values:
            return values[name]
        if name == self._corrupt_column:
            return _corrupt_texts(rows.column("body"), fits)
        return message_array(name.lower(), kind, origin, rows)

    def _malformed(self, origin: RowOrigin, rows: pa.RecordBatch, row: int) -> MalformedValue:
        text = text_of(rows.column("body")[row].as_py())
        reason = (
            f"does not fit the schema: {text[:200]!r}; mode=PERMISSIVE returns nulls for it, DROPMALFORMED drops it"
        )
        return MalformedValue(origin.topic, origin.partition, rows.column("number")[row].as_py(), reason)


def _message_fields(schema: StructType, options: ReadOptions) -> list[StructField]:
    """Returns the fields that come from the message. Raises BadOption if `messageColumns` names another column."""
    if options.message_columns is None:
        left = LEFT_TO_TEXT if options.value_format == "text" else LEFT_TO_FIELDS
        return [field for field in schema.fields if is_message_column(field) and field.name.lower() != left]
    names = [name.lower() for name in options.message_columns]
    unknown = [name for name in names if name not in MESSAGE_COLUMNS]
    if unknown:
        raise BadOption(
            "messageColumns", f"a message has no column {unknown[0]!r}; it has {', '.join(MESSAGE_COLUMNS)}"
        )
    fields = [field for field in schema.fields if field.name.lower() in names]
    for field in fields:
        checked_column(field)
    return fields


def _corrupt_texts(bodies: pa.Array, fits: Fits) -> pa.Array:
    """Returns the values that do not fit as text, and null for the others."""
    if fits.all():
        return pa.nulls(len(bodies), pa.string())
    texts: list[str | None] = [None] * len(bodies)
    for row in np.flatnonzero(~fits).tolist():
        texts[row] = text_of(bodies[row].as_py())
    return pa.array(texts, pa.string())
