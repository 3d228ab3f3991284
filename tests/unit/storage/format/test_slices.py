"""Pieces that are cut out of an area are the same for every size and every way of copying."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from warren.storage.format import slices
from warren.storage.format.slices import COPIED_SIZE_MAX, ROWS_AT_ONCE, WINDOW_SIZE_MAX, Blobs

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, WINDOW_SIZE_MAX, WINDOW_SIZE_MAX + 1, COPIED_SIZE_MAX, COPIED_SIZE_MAX + 1])
@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
def test_pieces_equal_slices(size: int, is_even: bool) -> None:
    data = random.Random(size).randbytes(3 * size + 40)
    starts = np.array([3, size + 10, 2 * size + 20])
    ends = starts + size + (0 if is_even else np.array([0, 1, 2]))

    for area in (data, memoryview(data), memoryview(bytearray(data))):
        pieces = Blobs(area, starts, ends).to_list()

        assert pieces == [data[start:end] for start, end in zip(starts, ends, strict=True)]
        assert {type(piece) for piece in pieces} == {bytes}


@pytest.mark.parametrize("sizes", [[5] * 20, [0] * 20, list(range(20)), [3, 0, WINDOW_SIZE_MAX + 1, 2, 400_000, 1]])
def test_pieces_are_joined_in_portions(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "COPIED_SIZE_MAX", 16)
    monkeypatch.setattr(slices, "ROWS_AT_ONCE", 4)
    data = random.Random(len(sizes)).randbytes(sum(sizes) + 2 * len(sizes))
    starts = np.cumsum([0, *(size + 2 for size in sizes[:-1])])
    pieces = Blobs(data, starts, starts + np.array(sizes))

    joined = pieces.side_by_side()

    assert joined == b"".join(pieces.to_list())
    assert len(joined) == sum(sizes)


def test_the_portions_of_many_pieces_are_small() -> None:
    sizes = np.array([1000] * 5000 + [3 * COPIED_SIZE_MAX] + [1] * (2 * ROWS_AT_ONCE))
    ends = np.cumsum(sizes)
    pieces = Blobs(b"", ends - sizes, ends)

    portions = list(pieces._portions())

    assert [row for each in (portions[0], portions[-1]) for row in (each.start, each.stop)][::3] == [0, len(sizes)]
    assert all(one.stop == next_one.start for one, next_one in itertools.pairwise(portions))
    rows = [each.stop - each.start for each in portions]
    assert max(rows) == ROWS_AT_ONCE
    assert all(count == 1 or sizes[each].sum() <= COPIED_SIZE_MAX for each, count in zip(portions, rows, strict=True))
