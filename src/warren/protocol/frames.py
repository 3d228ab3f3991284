"""Frames: a size of 4 bytes, then that many bytes. They are received piece by piece and returned whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from warren.errors import BadFrame
from warren.protocol.limits import FRAME_BUFFER_SIZE, FRAME_SIZE_MAX
from warren.protocol.primitives import INT32

OFFERED_AFTER_LARGE: Final = 4 << 10
"""After a large frame, this many bytes are received before the size of the next frame is known."""


class FrameReader:
    """Cuts a stream into frames. For one connection and one thread.

    Invariant: less than one frame is received and not yet returned. A frame that is too large for the buffer touches no
    more memory than was received; a frame over `size_max` is refused by its size alone.

    `admit` is called with the size of such a large frame before memory is allocated for it. If it returns False, the
    caller must not receive more bytes before it has called `begin`.
    """

    def __init__(
        self,
        size_max: int = FRAME_SIZE_MAX,
        buffer_size: int = FRAME_BUFFER_SIZE,
        admit: Callable[[int], bool] | None = None,
    ) -> None:
        self.size_max, self._admit = size_max, admit
        self.large_count = 0
        """How many frames were too large for the buffer, including the one that is being received."""
        self._pending_size = 0
        """The size of a frame that has begun and was not admitted yet."""
        self._small = self._offered = memoryview(bytearray(max(buffer_size, INT32.size)))
        """The buffer for small frames, and the part of it that is offered for the next bytes."""
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    @property
    def size(self) -> int:
        """Returns the size of the frame that is being received, if it is too large for the buffer."""
        return self._pending_size if self._large is None else len(self._large)

    @property
    def filled(self) -> int:
        """Returns how many bytes of such a frame have arrived."""
        return 0 if self._large is None else self._filled

    def begin(self) -> None:
        """Starts to receive the frame that was not admitted at first."""
        beginning, self._pending_size = self._small[INT32.size : self._end], 0
        (size,) = INT32.unpack_from(self._small)
        self._receive_large(size, beginning)

    def close(self) -> None:
        """Drops the incomplete frame and the callback, because no more bytes will come."""
        self._admit, self._large = None, None

    def buffer(self, sizehint: int = -1) -> memoryview:
        """Returns the buffer for the next bytes, never an empty one. `received` has to be called with their number."""
        if self._large is not None:
            return self._large[self._filled :]
        if self._pending_size:
            # Only a transport that ignores a pause gets here. Its bytes must be stored somewhere.
            self.begin()
            return self.buffer(sizehint)
        return self._small[self._end :] if self._end else self._offered

    def received(self, size: int) -> list[memoryview]:
        """Returns the frames that are complete after `size` more bytes. The caller may keep them."""
        if self._large is None:
            end = self._end = self._end + size
            if end >= INT32.size and INT32.unpack_from(self._small)[0] == end - INT32.size <= self.size_max:
                # Nearly always there is exactly one whole frame.
                self._end = 0
                return [memoryview(bytes(self._small[INT32.size : end]))]
            return self._cut()
        self._filled += size
        if self._filled < len(self._large):
            return []
        frame, self._large = self._large, None
        # The next frame is probably as large. Its bytes that arrive before it has its own buffer must be copied.
        self._offered = self._small[:OFFERED_AFTER_LARGE]
        return [frame]

    def feed(self, data: bytes | memoryview) -> list[memoryview]:
        """Does the same for bytes that were received elsewhere."""
        view, frames = memoryview(data), []
        while len(view):
            buffer = self.buffer()
            size = min(len(view), len(buffer))
            buffer[:size] = view[:size]
            frames += self.received(size)
            view = view[size:]
        return frames

    def _cut(self) -> list[memoryview]:
        small, position, end = self._small, 0, self._end
        self._offered = small
        frames = []
        while end - position >= INT32.size:
            (size,) = INT32.unpack_from(small, position)
            if not 0 <= size <= self.size_max:
                raise BadFrame(size, self.size_max)
            frame_at = position + INT32.size
            if frame_at + size > end:
                break
            # Copied, because the buffer is about to be filled again.
            frames.append(memoryview(bytes(small[frame_at : frame_at + size])))
            position = frame_at + size
        if position == end:
            self._end = 0
        else:
            self._keep(small[position:end])
        return frames

    def _keep(self, rest: memoryview) -> None:
        """Copies the beginning of a frame into the buffer that receives the rest of it."""
        self._end = len(rest)
        if len(rest) >= INT32.size:
            (size,) = INT32.unpack_from(rest)
            if INT32.size + size > len(self._small):
                if self._admit is None or self._admit(size):
                    self._receive_large(size, rest[INT32.size :])
                    return
                self._pending_size = size
        self._small[: len(rest)] = bytes(rest)

    def _receive_large(self, size: int, beginning: memoryview) -> None:
        # Pages that are never written take no memory, so a false size costs nothing.
        self._large, self._end = np.empty(size, np.uint8).data, 0
        self._filled = len(beginning)
        self._large[: self._filled] = beginning
        self.large_count += 1
