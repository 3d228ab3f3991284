"""Pieces that are cut out of an area are the same, however large they are and however they are copied."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warren.storage.format.slices import COPIED_SIZE_MAX, WINDOW_SIZE_MAX, Blobs

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, WINDOW_SIZE_MAX, WINDOW_SIZE_MAX + 1, COPIED_SIZE_MAX, COPIED_SIZE_MAX + 1])
@pytest.mark.parametrize("is_even", [True, False], ids=["even", "uneven"])
def test_pieces_are_what_slices_would_be(size: int, is_even: bool) -> None:
    data = random.Random(size).randbytes(3 * size + 40)
    starts = np.array([3, size + 10, 2 * size + 20])
    ends = starts + size + (0 if is_even else np.array([0, 1, 2]))

    for area in (data, memoryview(data), memoryview(bytearray(data))):
        pieces = Blobs(area, starts, ends).to_list()

        assert pieces == [data[start:end] for start, end in zip(starts, ends, strict=True)]
        assert {type(piece) for piece in pieces} == {bytes}
