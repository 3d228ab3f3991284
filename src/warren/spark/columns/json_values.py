"""Values that are JSON objects, as columns: all values together, and one by one only if some do not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from warren.errors import BadColumn
from warren.spark.columns.text_values import Fits, RowNumbers, as_text, readable_rows, scattered

DOCUMENT: Final = "document"
OPENING: Final = pa.scalar('{"' + DOCUMENT + '":', pa.string())
CLOSING: Final = pa.scalar("}\n", pa.string())
NOTHING: Final = pa.scalar("", pa.string())


class JsonValues:
    """Fields of JSON objects. A missing field is null. Fields that the query does not name are ignored.

    A value does not fit if it is not a JSON object, or if a field has another type.
    """

    def __init__(self, fields: pa.Schema) -> None:
        for field in fields:
            check_readable(field.name, field.type)
        self._fields = fields
        # Dates are read as text, because JSON has them as strings.
        self._read_as = pa.struct([pa.field(field.name, _written(field.type)) for field in fields])
        self._kind = pa.struct(list(fields))

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]:
        texts, fits = as_text(values)
        rows = np.flatnonzero(fits)
        columns = self._read(_picked(texts, rows))
        if columns is None:
            likely = [row for row in rows.tolist() if self._is_likely(texts[row].as_py())]
            rows = readable_rows(np.array(likely, np.intp), lambda some: self._read(_picked(texts, some)) is not None)
            fits = np.zeros(len(values), np.bool_)
            fits[rows] = True
            columns = self._read(_picked(texts, rows))
            assert columns is not None, "every row can be read"
        return [scattered(array, fits) for array in columns], fits

    def _read(self, texts: pa.Array) -> list[pa.Array] | None:
        """Returns the fields of all texts; None if some of them do not fit."""
        if not len(texts):
            return [pa.array([], kind) for kind in self._fields.types]
        if not len(self._fields):
            return [] if all(self._is_likely(text) for text in texts.to_pylist()) else None
        # Each text is wrapped in an outer object, so that a truncated text, or two objects in one text, cannot shift
        # the rows.
        lines = pc.binary_join_element_wise(OPENING, texts, CLOSING, NOTHING).buffers()[2]
        try:
            table = arrow_json.read_json(
                pa.BufferReader(lines),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=lines.size + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=pa.schema([(DOCUMENT, self._read_as)]), unexpected_field_behavior="ignore"
                ),
            )
            documents = table.column(DOCUMENT).combine_chunks()
            if len(documents) != len(texts):
                return None
            return [
                array if array.type == kind else array.cast(kind)
                for array, kind in zip(documents.flatten(), self._fields.types, strict=True)
            ]
        except pa.ArrowInvalid:
            return None

    def _is_likely(self, text: str) -> bool:
        """Returns whether the text is JSON that probably fits. This is faster than parsing it alone with Arrow."""
        try:
            return _looks_like(json.loads(text), self._kind)
        except ValueError:
            return False


def _picked(texts: pa.Array, rows: RowNumbers) -> pa.Array:
    return texts if len(rows) == len(texts) else texts.take(pa.array(rows))


def check_readable(name: str, kind: pa.DataType) -> None:
    """Raises BadColumn for a type that a field of JSON cannot be read as."""
    types = pa.types
    if types.is_list(kind):
        check_readable(name, kind.value_type)
    elif types.is_struct(kind):
        for field in kind:
            check_readable(f"{name}.{field.name}", field.type)
    elif not is_plain(kind):
        raise BadColumn(
            name, f"a field of JSON cannot be read as {kind}; request it as string, or read the value itself"
        )


def is_plain(kind: pa.DataType) -> bool:
    """Returns whether a type has one value for each row that can be written as text."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    is_time = types.is_date32(kind) or types.is_timestamp(kind)
    return bool(is_number or is_time or types.is_boolean(kind) or kind == pa.string())


def _written(kind: pa.DataType) -> pa.DataType:
    """Returns the type as which the parser reads it from JSON."""
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _written(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _written(field.type)) for field in kind])
    return kind


def _looks_like(value: Any, kind: pa.DataType) -> bool:
    types = pa.types
    if value is None:
        return True
    if types.is_struct(kind):
        return isinstance(value, dict) and all(_looks_like(value.get(field.name), field.type) for field in kind)
    if types.is_list(kind):
        return isinstance(value, list) and all(_looks_like(each, kind.value_type) for each in value)
    if types.is_boolean(kind) or isinstance(value, bool):
        return types.is_boolean(kind) and isinstance(value, bool)
    if types.is_integer(kind):
        return isinstance(value, int)
    if types.is_floating(kind):
        return isinstance(value, int | float)
    return isinstance(value, str) or (types.is_decimal(kind) and isinstance(value, int | float))
