"""Many pieces of one area of bytes, given by their starts and ends, and cut out all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""If the pieces are less than 1 / SPARSE of the bytes they lie in, they are copied one by one."""
WINDOW_SIZE_MAX: Final = 16 << 10
"""Larger pieces are copied one by one: NumPy takes twice as long for them, and holds the interpreter meanwhile."""
COPIED_SIZE_MAX: Final = 1 << 20
"""Larger pieces are copied without holding the interpreter, so that other threads can go on."""
FIELD_KINDS: Final[Mapping[str, str]] = {"I": "<u4", "Q": "<i8", "q": "<i8", "B": "u1", "H": "<u2"}


def fields_type(layout: Struct, names: Sequence[str]) -> np.dtype[Any]:
    """Returns a little-endian struct as a NumPy type, to read many at once."""
    return np.dtype([(name, FIELD_KINDS[kind]) for name, kind in zip(names, layout.format[1:], strict=True)])


def copied(area: Area) -> bytes:
    """Returns the bytes of `area`. While a large one is copied, other threads can run."""
    if len(area) <= COPIED_SIZE_MAX or isinstance(area, bytes):
        return bytes(area)
    # Imported here, because importing PyArrow takes longer than opening a log.
    import pyarrow

    # It is the one copy into a new bytes object that releases the interpreter. For 120 MB, `bytes` holds it for 100 ms.
    data: bytes = pyarrow.BufferReader(area).read(len(area))
    return data


class Blobs(NamedTuple):
    """Pieces of `area`, each from its start up to its end, in the order in which they stand there."""

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

    def to_list(self) -> list[bytes]:
        """Returns the pieces as Python values."""
        size = self.size_of_all()
        if size is not None and size <= WINDOW_SIZE_MAX:
            # One call for all of them takes a fifth of the time of a slice for each.
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
