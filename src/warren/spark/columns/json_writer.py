"""Writes rows as JSON objects, column by column: Python loops over rows only for types that Arrow cannot write."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEXT: Final = pa.string()
NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
"""Arrow writes the seconds with their fraction."""


def json_objects(names: Sequence[str], columns: Sequence[pa.Array], count: int) -> pa.Array:
    """Returns one JSON object for each row. As in Spark's `to_json`, null fields are omitted."""
    if not names:
        return pa.repeat(pa.scalar("{}", TEXT), count)
    # Each field starts with its comma. If the first field may be omitted, the first comma is cut off at the end.
    is_first_there = not columns[0].null_count
    pieces: list[pa.Array | pa.Scalar] = []
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        comma = "" if is_first_there and place == 0 else ","
        start, texts = pa.scalar(comma + json.dumps(name, ensure_ascii=False) + ":", TEXT), json_texts(column)
        if texts.null_count:
            pieces.append(pc.fill_null(pc.binary_join_element_wise(start, texts, ""), ""))
        else:
            pieces += (start, texts)
    if is_first_there:
        return pc.binary_join_element_wise("{", *pieces, "}", "")
    together = pc.binary_join_element_wise(*pieces, "")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(together, 1), "}", "")


def json_texts(column: pa.Array) -> pa.Array:
    """Returns each value as JSON; null for null."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(TEXT)
    if pa.types.is_floating(kind):
        return _float_texts(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _escaped(column.cast(TEXT))
    if pa.types.is_date(kind):
        return _quoted(column.cast(TEXT))
    if pa.types.is_timestamp(kind):
        return _quoted(pc.strftime(column, TIME_FORMAT if kind.tz else TIME_FORMAT.removesuffix("Z")))
    if pa.types.is_struct(kind):
        objects = json_objects([field.name for field in kind], column.flatten(), len(column))
        return pc.if_else(column.is_valid(), objects, pa.scalar(None, TEXT))
    if pa.types.is_null(kind):
        return column.cast(TEXT)
    return _written_by_python(column)


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"', TEXT)
    return pc.binary_join_element_wise(quote, texts, quote, "")


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, NEEDS_ESCAPE)).as_py():
        return _quoted(texts)
    encode = json.encoder.encode_basestring
    return pa.array([None if text is None else encode(text) for text in texts.to_pylist()], TEXT)


def _float_texts(column: pa.Array) -> pa.Array:
    """Returns floats as JSON numbers; NaN and the infinities as strings, as Spark writes them."""
    texts = column.cast(TEXT)
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    if np.isfinite(values).all():
        return texts
    names = np.where(np.isnan(values), '"NaN"', np.where(values > 0, '"Infinity"', '"-Infinity"'))
    return pc.if_else(pa.array(np.isfinite(values)), texts, pa.array(names.tolist(), TEXT))


def _written_by_python(column: pa.Array) -> pa.Array:
    return pa.array([None if value is None else _dump(value, column.type) for value in column.to_pylist()], TEXT)


def _dump(value: Any, kind: pa.DataType) -> str:
    return json.dumps(_plain(value, kind), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Returns the value as a type that `json.dumps` writes."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_name(key): _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind if value[field.name] is not None}
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, bool | int | float | str) else _text(value)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(_plain_key(key))


def _plain_key(key: Any) -> Any:
    return key if isinstance(key, bool | int | float) else _text(key)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        text = value.isoformat(timespec="microseconds")
        return text.replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)
