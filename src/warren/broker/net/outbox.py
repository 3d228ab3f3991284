"""Outbox: gives large answers to the transport in pieces, so that the bytes that a client has not read are known."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from warren.protocol.primitives import Buffer

OUTBOX_PIECE_SIZE: Final = 128 << 10
"""The transport gets about this many bytes at a time."""
TLS_UNSENT_SIZE_MAX: Final = 256 << 10
"""A TLS transport that holds more than this gets no more."""


class Outbox:
    """Answers that the transport did not accept yet. For the event loop's thread alone.

    A TLS transport hands all bytes that it has encrypted to the transport below it, and does not count them any more:
    an answer that it gets in one piece seems to be sent, although the client reads nothing. So a TLS transport gets
    pieces until it reports that it is full, and the rest stays here. A plain transport of Python 3.11 copies what it
    cannot send, so it gets large answers in pieces as well.

    Invariant: if there are bytes in the outbox, the transport is full, and will report when it is not.
    """

    def __init__(self, transport: asyncio.Transport, unsent_size_max: int) -> None:
        self._transport = transport
        self._buffers: deque[memoryview] = deque()
        self._is_full = self._is_closing = False
        self._size = 0
        is_tls = transport.get_extra_info("sslcontext") is not None
        transport.set_write_buffer_limits(high=min(unsent_size_max, TLS_UNSENT_SIZE_MAX) if is_tls else unsent_size_max)

    @property
    def size(self) -> int:
        """The bytes that the client has not received, as far as they are known."""
        return 0 if self._transport.is_closing() else self._size + self._transport.get_write_buffer_size()

    def write(self, buffers: Sequence[Buffer], size: int) -> None:
        """Sends the buffers, of `size` bytes, after all that was written before.

        While the transport is not full, a caller may give it answers of up to OUTBOX_PIECE_SIZE bytes directly.
        """
        self._buffers.extend(memoryview(buffer).cast("B") for buffer in buffers if len(buffer))
        self._size += size
        self._send()

    def pause(self) -> None:
        """Gives the transport nothing more, because it is full."""
        self._is_full = True

    def resume(self) -> bool:
        """Gives the transport more, because it is no longer full. Returns whether it has accepted everything."""
        self._is_full = False
        self._send()
        return not self._is_full

    def close(self) -> None:
        """Closes the transport when it has accepted everything."""
        self._is_closing = True
        if not self._buffers:
            self._transport.close()

    def clear(self) -> None:
        """Drops all bytes, because the connection has ended."""
        self._buffers.clear()
        self._size = 0

    def _send(self) -> None:
        while self._buffers and not self._is_full and not self._transport.is_closing():
            piece = self._next_piece()
            # The transport calls `pause` during this call if it is full.
            self._transport.writelines(piece)
        if self._is_closing and not self._buffers:
            self._transport.close()

    def _next_piece(self) -> list[memoryview]:
        """Takes the next buffers, up to OUTBOX_PIECE_SIZE bytes. A buffer that is larger is cut."""
        piece: list[memoryview] = []
        room = OUTBOX_PIECE_SIZE
        while room and self._buffers:
            buffer = self._buffers.popleft()
            if len(buffer) > room:
                self._buffers.appendleft(buffer[room:])
                buffer = buffer[:room]
            piece.append(buffer)
            room -= len(buffer)
        self._size -= OUTBOX_PIECE_SIZE - room
        return piece
