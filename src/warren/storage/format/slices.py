"""Many pieces of one area of bytes, described by their starts and ends, and cut out together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import mmap
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Area = bytes | memoryview | mmap
Positions = npt.NDArray[np.int64]
RowSelection = slice | npt.NDArray[np.intp]
"""A selection of rows: a slice, or an array of places."""

SPARSE: Final = 4
"""If the pieces are less than 1 / SPARSE of the bytes around them, they are copied one by one."""
WINDOW_SIZE_MAX: Final = 16 << 10
"""Larger pieces are copied one by one, because NumPy takes twice as long for them and holds the interpreter during
that.
"""
COPIED_SIZE_MAX: Final = 1 << 20
"""Larger pieces are copied without holding the interpreter, so that other threads can run."""
ROWS_AT_ONCE: Final = 64 << 10
"""How many rows one call of NumPy handles. With a million rows, one call may hold the interpreter for 25 ms."""
FIELD_KINDS: Final[Mapping[str, str]] = {"I": "<u4", "Q": "<i8", "q": "<i8", "B": "u1", "H": "<u2"}


def fields_type(layout: Struct, names: Sequence[str]) -> np.dtype[Any]:
    """Returns a little-endian struct as a NumPy type, to read many together."""
    return np.dtype([(name, FIELD_KINDS[kind]) for name, kind in zip(names, layout.format[1:], strict=True)])


def copied(area: Area) -> bytes:
    """Returns the bytes of `area`. While a large one is copied, other threads can run."""
    if len(area) <= COPIED_SIZE_MAX or isinstance(area, bytes):
        return bytes(area)
    # Imported here because importing PyArrow takes longer than opening a log.
    import pyarrow

    # This is the only copy into a new bytes object that releases the interpreter. For 120 MB, `bytes` holds it for 100
    # ms.
    data: bytes = pyarrow.BufferReader(area).read(len(area))
    return data


def slices_of(count: int, size: int) -> Iterator[slice]:
    """Yields slices of up to `size` rows that together are the rows from 0 up to `count`."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def together(pieces: Iterable[Area], size: int) -> bytes | memoryview:
    """Returns the pieces, of `size` bytes, one behind the other. While many are copied, other threads can run."""
    if size <= COPIED_SIZE_MAX:
        return b"".join(pieces)
    # NumPy copies without holding the interpreter. `join` holds it: for 120 MB, 50 ms.
    out, at = np.empty(size, np.uint8), 0
    for piece in pieces:
        out[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    return out.data


class Blobs(NamedTuple):
    """Pieces of `area`, each from its start up to its end, in the order of their positions."""

    area: Area
    starts: Positions
    ends: Positions

    def picked(self, rows: RowSelection) -> Blobs:
        """Returns the pieces of these rows."""
        return Blobs(self.area, self.starts[rows], self.ends[rows])

    def size_of_all(self) -> int | None:
        """Returns the common size of all pieces, or None if they differ or there are none."""
        if not len(self.starts):
            return None
        sizes = self.ends - self.starts
        size = int(sizes[0])
        return size if (sizes == size).all() else None

    def windows(self, size: int) -> npt.NDArray[np.void]:
        """Returns copies of the pieces, which must all have this size, above 0."""
        count = len(self.area) - size + 1
        windows: npt.NDArray[np.void] = np.ndarray((count,), f"V{size}", self.area, 0, (1,))
        return windows[self.starts]

    def side_by_side(self) -> bytes | memoryview:
        """Returns copies of the pieces, one behind the other."""
        size, size_sum = self.size_of_all(), int((self.ends - self.starts).sum())
        if size is not None and 0 < size <= WINDOW_SIZE_MAX:
            return together((self.picked(rows).windows(size).tobytes() for rows in self._portions()), size_sum)
        if size_sum > WINDOW_SIZE_MAX * len(self.starts):
            view, pairs = memoryview(self.area), zip(self.starts.tolist(), self.ends.tolist(), strict=True)
            return together((view[start:end] for start, end in pairs), size_sum)
        return together((b"".join(self.picked(rows).to_list()) for rows in self._portions()), size_sum)

    def _portions(self) -> Iterator[slice]:
        """Yields slices of rows. Each has about COPIED_SIZE_MAX bytes, or one row."""
        sizes = np.cumsum(self.ends - self.starts)
        start = done = 0
        while start < len(sizes):
            end = max(start + 1, int(np.searchsorted(sizes, done + COPIED_SIZE_MAX, "right")))
            end = min(end, start + ROWS_AT_ONCE)
            yield slice(start, end)
            start, done = end, int(sizes[end - 1])

    def to_list(self) -> list[bytes]:
        """Returns the pieces as Python values."""
        size = self.size_of_all()
        if size is not None and size <= WINDOW_SIZE_MAX:
            # One call for all pieces takes a fifth of the time of a slice for each.
            pieces: list[bytes] = self.windows(size).tolist() if size else [b""] * len(self.starts)
            return pieces
        if not len(self.starts):
            return []
        area, starts, ends = self.area, self.starts, self.ends
        first, last = int(starts[0]), int(ends[-1])
        size_sum = int((ends - starts).sum())
        if last - first > SPARSE * size_sum or size_sum > WINDOW_SIZE_MAX * len(starts):
            view = memoryview(area)
            return [copied(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        near = bytes(area[first:last])
        pairs = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
        return [near[start:end] for start, end in pairs]
