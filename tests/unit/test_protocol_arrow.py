"""Arrow batches from a stranger: as they lie, or not at all."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.fuzz.batches import wounded
from warren.errors import BadInput
from warren.protocol.own_arrow import arrow_batches

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
def test_what_is_compressed_is_refused_before_it_takes_memory(compression: str) -> None:
    with pytest.raises(BadInput, match="compressed"):
        list(arrow_batches(stream(compression)))


@pytest.mark.parametrize("seed", range(200))
def test_what_was_tampered_with_is_batches_that_check_or_one_error(seed: int) -> None:
    data = wounded(stream(), random.Random(seed))

    try:
        found = list(arrow_batches(data))
    except BadInput:
        return
    for batch in found:
        batch.to_pylist()
