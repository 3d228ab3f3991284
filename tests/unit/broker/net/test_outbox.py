"""An outbox gives a transport no more than it accepts, in order, and counts the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from warren.broker.net.outbox import OUTBOX_PIECE_SIZE, TLS_UNSENT_SIZE_MAX, Outbox


class FakeTransport(asyncio.Transport):
    """Accepts bytes until it has more than its limit, and then informs its protocol."""

    def __init__(self, *, is_tls: bool = False) -> None:
        super().__init__({"sslcontext": object()} if is_tls else {})
        self.high, self.held, self.sent = 0, b"", b""
        self.is_closed = False
        self.on_full: Callable[[], None] = lambda: None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self.held)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.held += b"".join(list_of_data)
        if len(self.held) > self.high:
            self.on_full()

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def drain(self) -> None:
        self.sent, self.held = self.sent + self.held, b""


def made(unsent_size_max: int, *, is_tls: bool = False) -> tuple[FakeTransport, Outbox]:
    transport = FakeTransport(is_tls=is_tls)
    outbox = Outbox(transport, unsent_size_max)
    transport.on_full = outbox.pause
    return transport, outbox


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_all_bytes_are_sent_in_order_and_counted_until_then(count: int) -> None:
    transport, outbox = made(OUTBOX_PIECE_SIZE)
    whole = bytes(range(256)) * (8 * OUTBOX_PIECE_SIZE // 256)
    step = -(-len(whole) // count)
    buffers = [whole[at : at + step] for at in range(0, len(whole), step)]

    outbox.write([*buffers, b""], len(whole))
    outbox.write([b"the end"], 7)

    assert outbox.size == len(whole) + 7
    assert len(transport.held) <= 2 * OUTBOX_PIECE_SIZE
    while not outbox.resume():
        transport.drain()
    transport.drain()
    assert transport.sent == whole + b"the end"
    assert outbox.size == 0


def test_a_tls_transport_gets_little_because_it_does_not_count_what_it_has_encrypted() -> None:
    plain, _ = made(4 << 20)
    tls, _ = made(4 << 20, is_tls=True)

    assert (plain.high, tls.high) == (4 << 20, TLS_UNSENT_SIZE_MAX)


def test_a_close_waits_for_the_rest() -> None:
    transport, outbox = made(OUTBOX_PIECE_SIZE)
    outbox.write([bytes(4 * OUTBOX_PIECE_SIZE)], 4 * OUTBOX_PIECE_SIZE)

    outbox.close()

    assert not transport.is_closed
    while not transport.is_closed:
        transport.drain()
        outbox.resume()
    transport.drain()
    assert len(transport.sent) == 4 * OUTBOX_PIECE_SIZE


def test_cleared_bytes_are_neither_sent_nor_counted() -> None:
    transport, outbox = made(OUTBOX_PIECE_SIZE)
    outbox.write([bytes(4 * OUTBOX_PIECE_SIZE)], 4 * OUTBOX_PIECE_SIZE)
    transport.drain()
    sent = len(transport.sent)

    outbox.clear()
    outbox.resume()

    assert (outbox.size, len(transport.sent)) == (0, sent)
