"""Arrow streams on the wire: a stranger's is used in place, or refused; ours are aligned, and not copied."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.fuzz.batches import wounded
from tests.support.message_values import encode_response
from warren.broker.native.read import stream_of
from warren.errors import BadInput
from warren.protocol.headers import Request, response_frame
from warren.protocol.native.arrow import ALIGNMENT, aligned_buffer, arrow_batches, scan_padding
from warren.protocol.native_schemas import NativeKey
from warren.protocol.primitives import INT32

NO_TAGS = b"\0"
BATCH = pa.record_batch(
    {"body": [b"x" * 100, b"y"] * 50, "tag": pa.array(["a", "b"] * 50).dictionary_encode(), "key": [b"k", None] * 50}
)


def stream(compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, BATCH.schema, options=options) as writer:
        writer.write_batch(BATCH)
    return bytes(sink.getvalue())


def test_batches_come_out_as_they_went_in() -> None:
    assert list(arrow_batches(stream())) == [BATCH]


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_they_take_memory(compression: str) -> None:
    with pytest.raises(BadInput, match="compressed"):
        list(arrow_batches(stream(compression)))


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_stream_yields_valid_batches_or_one_error(seed: int) -> None:
    data = wounded(stream(), random.Random(seed))

    try:
        batches = list(arrow_batches(data))
    except BadInput:
        return
    for batch in batches:
        assert len(batch.to_pylist()) == batch.num_rows


@pytest.mark.parametrize("size", [1, 7, 8, 126, 127, 16_382, 16_383, 2_097_150, 2_097_151])
def test_a_stream_is_aligned_in_the_answer_to_a_scan(size: int) -> None:
    arrow = b"\1" * size
    values = {"next": 5, "padding": scan_padding(size), "arrow": [arrow[:1], memoryview(arrow)[1:]]}
    request = Request(NativeKey.SCAN, 0, 77, None, memoryview(b""))

    sent = b"".join(response_frame(request, encode_response(NativeKey.SCAN, 0, values))[1])

    at = len(sent) - size - len(NO_TAGS)
    assert sent[at : at + size] == arrow
    assert (at - INT32.size) % ALIGNMENT == 0


def test_bytes_are_copied_only_if_they_are_not_aligned() -> None:
    whole = memoryview(np.zeros(64, np.uint8).data)

    assert aligned_buffer(whole).address == pa.py_buffer(whole).address
    assert aligned_buffer(whole[4:]).address % ALIGNMENT == 0
    assert aligned_buffer(whole[4:]).to_pybytes() == bytes(60)


def test_a_stream_is_written_without_copying_its_batches() -> None:
    bodies = pa.array([b"x" * 10_000] * 10)
    batch = pa.record_batch({"number": pa.array(range(10)), "body": bodies})

    pieces = stream_of([batch, batch])

    assert list(pa.ipc.open_stream(b"".join(pieces))) == [batch, batch]
    addresses = {pa.py_buffer(piece).address for piece in pieces}
    assert bodies.buffers()[2].address in addresses
    assert stream_of([]) == []
