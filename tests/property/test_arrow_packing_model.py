"""Records that are packed from Arrow equal, byte for byte, those of the same messages as Python values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from warren.errors import BadInput
from warren.storage.arrow.arrays import HEADERS
from warren.storage.arrow.arrow_packing import pack_arrow, rows_of
from warren.storage.format.columns import Batch
from warren.storage.format.packing import pack_batch

text = st.text(st.characters(codec="utf-8"), max_size=12)
tag = st.sampled_from(["", "a", "eu.de", "ü"]) | text
headers = st.dictionaries(text, st.binary(max_size=20), max_size=3)
BODIES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, pa.RecordBatch]:
    """Messages, some of whose columns are missing, and the same in Arrow: as a slice, and of any fitting types."""
    count = draw(st.integers(0, 40))

    def column(values: st.SearchStrategy[Any]) -> list[Any] | None:
        here = st.lists(st.none() | values, min_size=count, max_size=count)
        return draw(st.none() | here)

    bodies = draw(st.lists(st.binary(max_size=60), min_size=count, max_size=count))
    tags, keys, ids = column(tag), column(st.binary(max_size=9)), column(text)
    maps, corr_offsets = column(headers), column(st.integers(-1, 2**63 - 1))
    kinds: dict[str, pa.DataType] = {
        "body": draw(st.sampled_from(BODIES)),
        "tag": draw(st.sampled_from(TEXTS)),
        "key": draw(st.sampled_from(BODIES)),
        "id": draw(st.sampled_from(TEXTS[:3])),
        "headers": HEADERS,
        "corr_offset": pa.int64(),
    }
    columns = {"body": bodies, "tag": tags, "key": keys, "id": ids, "headers": maps, "corr_offset": corr_offsets}
    before = draw(st.integers(0, 3))
    arrays = {
        name: _array([values[0] if values else b""] * before + values, kinds[name])[before:]
        for name, values in columns.items()
        if values is not None
    }
    rows = Batch(
        bodies,
        _unless_nothing([each or "" for each in tags or ()]),
        keys if keys is not None and any(key is not None for key in keys) else None,
        _unless_nothing([each or "" for each in ids or ()]),
        _unless_nothing([each or {} for each in maps or ()]),
        None
        if all(each in (None, -1) for each in corr_offsets or ())
        else [-1 if each is None else each for each in corr_offsets or ()],
    )
    return rows, pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == HEADERS:
        values = [list(each.items()) if isinstance(each, Mapping) else [] if each == b"" else each for each in values]
    elif kind not in BODIES:
        values = [None if each == b"" else each for each in values]
    if isinstance(kind, pa.DictionaryType):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def _unless_nothing(column: list[Any]) -> list[Any] | None:
    return column if any(column) else None


@given(
    both=batches(),
    record_size_max=st.sampled_from([300, 1000, 1 << 20]),
    marker=st.sampled_from([b"", b"m" * 20]),
    compression=st.sampled_from([0, 0, 1, 2]),
)
@settings(max_examples=examples(150), deadline=None)
def test_the_bytes_are_those_of_the_rows(
    both: tuple[Batch, pa.RecordBatch], record_size_max: int, marker: bytes, compression: int
) -> None:
    rows, arrow = both

    expected = _packed(lambda: list(pack_batch(rows, "", compression, record_size_max, marker)))
    packed = _packed(lambda: list(pack_arrow(arrow, compression, record_size_max, marker)))

    assert packed == expected


@given(both=batches())
@settings(deadline=None)
def test_the_rows_are_those_of_the_messages(both: tuple[Batch, pa.RecordBatch]) -> None:
    rows, arrow = both

    columns = rows_of(arrow)

    assert [_list(column) for column in columns] == [_list(column) for column in rows]


def _list(column: Any) -> Any:
    return None if column is None else list(column)


def _packed(pack: Any) -> Any:
    """Returns the packed records, or the error."""
    try:
        return pack()
    except BadInput as error:
        return type(error), str(error)


LONG = 65_535


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("tag", pa.string(), ["a", "b" * 129]),
        ("tag", pa.string(), ["a", "ü" * 65]),
        ("key", pa.binary(), [b"", bytes(LONG)]),
        ("id", pa.string(), ["x" * 40, "x" * 41]),
        ("headers", HEADERS, [[("a", b"")], [("n" * 256, b"")]]),
        ("headers", HEADERS, [[("a", b"")], [("n", bytes(LONG + 1))]]),
        ("headers", HEADERS, [[("a", bytes(LONG - 4))], [("a", bytes(LONG)), ("b", b"")]]),
        ("headers", HEADERS, [[(f"{n}", bytes(250)) for n in range(300)], []]),
        ("headers", HEADERS, [[("a", b"")], [("a", b"1"), ("b", b"2"), ("a", b"3")]]),
        ("headers", HEADERS, [[("a", b"")], [("a", None)]]),
        ("corr_offset", pa.int64(), [-1, -2]),
        ("corr_offset", pa.int64(), [0, -(2**63)]),
    ],
)
def test_columns_are_refused_with_the_errors_of_rows(name: str, kind: pa.DataType, values: list[Any]) -> None:
    column = f"{name}s" if name != "headers" else name
    plain: list[Any] = [dict(each) for each in values] if kind == HEADERS else values
    arrow = pa.RecordBatch.from_arrays([pa.array([b"1", b"2"]), pa.array(values, kind)], ["body", name])

    expected = _packed(lambda: list(pack_batch(Batch([b"1", b"2"], **{column: plain}), "", 0, 1 << 20)))
    packed = _packed(lambda: list(pack_arrow(arrow, 0, 1 << 20)))

    assert packed == expected


def test_large_headers_of_many_messages_are_packed_like_small_ones() -> None:
    maps = [[("a", bytes(300)), ("b", b"")], [], [("a", bytes(LONG - 4))]]
    arrow = pa.RecordBatch.from_arrays([pa.array([b""] * 3), pa.array(maps, HEADERS)], ["body", "headers"])
    rows = Batch([b""] * 3, headers=list(map(dict[str, bytes], maps)))

    assert list(pack_arrow(arrow, 0, 1 << 20)) == list(pack_batch(rows, "", 0, 1 << 20))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"body": pa.array([b"", None])}, "column body: expected bytes"),
        ({"body": pa.array([1, 2])}, "column body is int64"),
        ({"tag": pa.array(["a", "b"])}, "a body"),
        ({"body": pa.array([b"", b""]), "value": pa.array([1, 2])}, "there is no 'value'"),
        ({"body": pa.array([b"", b""]), "headers": pa.array(["a", "b"])}, "expected a map"),
        ({"body": pa.array([b"", b""]), "corr_offset": pa.array(["a", "b"])}, "column corr_offset is string"),
    ],
)
def test_a_table_that_is_no_batch_of_messages_is_refused(columns: dict[str, pa.Array], reason: str) -> None:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    with pytest.raises(BadInput, match=reason):
        list(pack_arrow(batch, 0, 1 << 20))


@pytest.mark.parametrize("name", ["tag", "id", "headers"])
def test_invalid_text_is_refused(name: str) -> None:
    broken = pa.array([b"\xff", b"\xfe"]).view(pa.string())
    column = broken
    if name == "headers":
        offsets = pa.array([0, 1, 2], pa.int32())
        column = pa.MapArray.from_arrays(offsets, broken, pa.array([b"", b""]))
    batch = pa.RecordBatch.from_arrays([pa.array([b"", b""]), column], ["body", name])

    with pytest.raises(BadInput, match="is not UTF-8"):
        list(pack_arrow(batch, 0, 1 << 20))


def test_bytes_after_a_null_are_ignored() -> None:
    present = pa.py_buffer(b"\x05")
    keys = pa.Array.from_buffers(
        pa.binary(), 3, [present, pa.py_buffer(pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]), pa.py_buffer(b"axxb")]
    )
    batch = pa.RecordBatch.from_arrays([pa.array([b"1", b"2", b"3"]), keys], ["body", "key"])

    packed = list(pack_arrow(batch, 0, 1 << 20))

    assert packed == list(pack_batch(Batch([b"1", b"2", b"3"], keys=[b"a", None, b"b"]), "", 0, 1 << 20))


def test_many_messages_are_cut_into_records_as_rows_are() -> None:
    bodies = [bytes(100)] * 100_000
    batch = pa.RecordBatch.from_arrays([pa.array(bodies), pa.array(list(repeat("t", 100_000)))], ["body", "tag"])

    packed = list(pack_arrow(batch, 0, 16 << 20))

    assert packed == list(pack_batch(Batch(bodies, tags=["t"] * 100_000), "", 0, 16 << 20))
    assert sum(each.message_count for each in packed) == 100_000
