"""Frames: complete ones come out for any cut of the stream; a wrong size costs nothing."""

from __future__ import annotations

import tracemalloc

import pytest

from warren.errors import BadFrame
from warren.protocol.frames import OFFERED_AFTER_LARGE, FrameReader
from warren.protocol.limits import FRAME_BUFFER_SIZE
from warren.protocol.primitives import INT32


def framed(*bodies: bytes) -> bytes:
    return b"".join(INT32.pack(len(body)) + body for body in bodies)


BODIES = [b"", b"a", b"bc" * 20, bytes(range(256)) * 5, b"tail", bytes(range(256)) * 40, b"d" * 5000, b"end"]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 64, 1000, 100_000])
@pytest.mark.parametrize("buffer_size", [4, 16, 64, 4096])
def test_frames_come_out_whole_wherever_the_stream_is_cut(step: int, buffer_size: int) -> None:
    reader = FrameReader(buffer_size=buffer_size)
    stream = framed(*BODIES)

    frames = [frame for at in range(0, len(stream), step) for frame in reader.feed(stream[at : at + step])]

    assert [bytes(frame) for frame in frames] == BODIES
    assert [bytes(frame) for frame in reader.feed(framed(b"next"))] == [b"next"]


def test_a_returned_frame_does_not_change() -> None:
    reader = FrameReader(buffer_size=64)

    (first,) = reader.feed(framed(b"first"))
    reader.feed(framed(b"other"))

    assert bytes(first) == b"first"


def test_a_large_frame_is_received_into_its_final_buffer() -> None:
    reader = FrameReader(buffer_size=64)
    reader.feed(INT32.pack(1000) + b"x" * 10)

    buffer = reader.buffer()
    buffer[:] = b"y" * 990
    (frame,) = reader.received(990)

    assert (len(buffer), bytes(frame)) == (990, b"x" * 10 + b"y" * 990)
    buffer[0] = ord("z")
    assert frame[10] == ord("z")


def test_after_a_large_frame_little_is_received_before_the_next_has_its_buffer() -> None:
    reader = FrameReader()
    large = bytes(FRAME_BUFFER_SIZE)
    reader.feed(framed(large))
    assert len(reader.buffer()) == OFFERED_AFTER_LARGE

    reader.feed(framed(large)[:OFFERED_AFTER_LARGE])

    assert len(reader.buffer()) == INT32.size + len(large) - OFFERED_AFTER_LARGE
    reader.feed(framed(large)[OFFERED_AFTER_LARGE:])
    assert [bytes(frame) for frame in reader.feed(framed(b"a", b"b"))] == [b"a", b"b"]
    assert len(reader.buffer()) == FRAME_BUFFER_SIZE


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, (1 << 31) - 1])
def test_a_size_below_zero_or_over_the_limit_is_refused(size: int) -> None:
    reader = FrameReader(size_max=1000)

    with pytest.raises(BadFrame) as caught:
        reader.feed(INT32.pack(size))

    assert (caught.value.size, caught.value.size_max) == (size, 1000)


def test_a_frame_over_the_limit_takes_no_memory() -> None:
    reader = FrameReader(size_max=1 << 20)
    tracemalloc.start()

    with pytest.raises(BadFrame):
        reader.feed(INT32.pack(1 << 30))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 64 << 10


def test_the_size_of_a_frame_is_known_before_it_arrives() -> None:
    reader = FrameReader(buffer_size=64)

    reader.feed(INT32.pack(5000))

    assert reader.size == 5000
    reader.feed(bytes(5000))
    assert reader.size == 0


def test_a_large_frame_takes_no_memory_before_it_is_admitted() -> None:
    sizes: list[int] = []

    def admit(size: int) -> bool:
        sizes.append(size)
        return len(sizes) > 1

    reader = FrameReader(buffer_size=64, admit=admit)
    body = bytes(range(256)) * 4

    assert reader.feed(INT32.pack(3) + b"abc" + INT32.pack(len(body)) + body[:10]) == [b"abc"]
    assert (sizes, reader.size, reader.filled, reader.large_count) == ([len(body)], len(body), 0, 0)
    reader.begin()
    assert (reader.filled, reader.large_count) == (10, 1)
    frames = reader.feed(body[10:] + INT32.pack(len(body)) + body)

    assert frames == [body, body]
    assert (sizes, reader.size, reader.large_count) == ([len(body)] * 2, 0, 2)


def test_small_frames_are_admitted_without_asking() -> None:
    reader = FrameReader(buffer_size=64, admit=lambda size: False)

    assert reader.feed((INT32.pack(60) + bytes(60)) * 5) == [bytes(60)] * 5
