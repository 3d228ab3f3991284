"""Record batches as an Arrow stream that is sent as it lies: what they hold is not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warren.protocol.codec import Buffer

if TYPE_CHECKING:
    import pyarrow


class Pieces:
    """A file for PyArrow to write to: it keeps the buffers that it is given, and copies the few bytes between them."""

    closed = False

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def write(self, data: bytes | pyarrow.Buffer) -> int:
        if not isinstance(data, bytes):
            self.buffers.append(memoryview(data))
        elif self.buffers and isinstance(self.buffers[-1], bytearray):
            self.buffers[-1] += data
        else:
            self.buffers.append(bytearray(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""


def stream_of(batches: Sequence[pyarrow.RecordBatch]) -> list[Buffer]:
    """The stream, as buffers one behind the other; none where there is no batch."""
    # Imported here: PyArrow takes longer to import than a log to open.
    import pyarrow

    pieces = Pieces()
    if batches:
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(pieces, mode="w"), batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return pieces.buffers
