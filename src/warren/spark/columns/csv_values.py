"""Values that are one line of CSV, as columns. Arrow splits all of them together; Python splits those with quotes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warren.errors import BadColumn, BadOption
from warren.spark.columns.json_values import is_plain
from warren.spark.columns.text_values import Fits, as_text, readable_rows, scattered

NEEDS_CARE: Final = '["\\r\\n]'
WITH_ZONE: Final = r":\d{2}(\.\d+)?(Z|[+-]\d{2}(:?\d{2})?)$"
DAY_ONLY: Final = r"^\d{4}-\d{2}-\d{2}$"


class CsvValues:
    """As many fields as columns, in the same order; an empty field is null.

    A value does not fit if it has more or fewer fields, or a field that cannot be read as its type.
    """

    def __init__(self, fields: pa.Schema, separator: str) -> None:
        if len(separator) != 1:
            raise BadOption("sep", f"{separator!r}: expected one character")
        for field in fields:
            if not is_plain(field.type):
                raise BadColumn(field.name, f"a field of CSV cannot be read as {field.type}")
        self._fields, self._separator = fields, separator

    def parse(self, values: pa.Array) -> tuple[Sequence[pa.Array], Fits]:
        texts, fits = as_text(values)
        columns, fits = self._cut(texts, fits)
        arrays = []
        for column, kind in zip(columns, self._fields.types, strict=True):
            array, is_readable = _read_as(column, kind)
            arrays.append(array)
            fits = fits & is_readable
        return [_nulled(array, fits) for array in arrays], fits

    def _cut(self, texts: pa.Array, fits: Fits) -> tuple[list[pa.Array], Fits]:
        """Returns the fields as text, with null for values that do not fit."""
        parts = pc.split_pattern(texts, self._separator)
        parts = self._cut_with_care(texts, parts)
        counts = pc.list_value_length(parts).fill_null(0).to_numpy(zero_copy_only=False)
        fits = fits & (counts == len(self._fields))
        good = parts.filter(pa.array(fits)).flatten()
        rows = np.arange(int(fits.sum())) * len(self._fields)
        columns = [good.take(pa.array(rows + column)) for column in range(len(self._fields))]
        return [scattered(column, fits) for column in columns], fits

    def _cut_with_care(self, texts: pa.Array, parts: pa.Array) -> pa.Array:
        careful = pc.match_substring_regex(texts, NEEDS_CARE).fill_null(False)
        if not pc.any(careful).as_py():
            return parts
        lists = parts.to_pylist()
        for row in np.flatnonzero(careful.to_numpy(zero_copy_only=False)).tolist():
            lists[row] = self._fields_of(texts[row].as_py())
        return pa.array(lists, pa.list_(pa.string()))

    def _fields_of(self, text: str) -> list[str]:
        """Returns the fields of one line; an empty list if it is not one line of CSV."""
        try:
            lines = list(csv.reader([text], delimiter=self._separator, strict=True))
        except csv.Error:
            return []
        return lines[0] if len(lines) == 1 else []


def _read_as(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Fits]:
    """Returns texts as values of a type, with null for an empty text, and which ones could be read."""
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = _with_zone(column)
    rows = readable_rows(np.arange(len(column)), lambda some: _is_castable(column.take(pa.array(some)), kind))
    if len(rows) == len(column):
        return column.cast(kind), np.ones(len(column), np.bool_)
    fits = np.zeros(len(column), np.bool_)
    fits[rows] = True
    return scattered(column.take(pa.array(rows)).cast(kind), fits), fits


def _is_castable(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _with_zone(column: pa.Array) -> pa.Array:
    """Parses times; without a zone they are UTC."""
    whole = pc.if_else(
        pc.match_substring_regex(column, DAY_ONLY), pc.binary_join_element_wise(column, "00:00:00", "T"), column
    )
    return pc.if_else(pc.match_substring_regex(whole, WITH_ZONE), whole, pc.binary_join_element_wise(whole, "Z", ""))


def _nulled(array: pa.Array, fits: Fits) -> pa.Array:
    return array if fits.all() else pc.if_else(pa.array(fits), array, pa.scalar(None, array.type))
