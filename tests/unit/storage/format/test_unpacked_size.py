"""An upper bound of a batch's unpacked size, known without unpacking it, and the batches refused because of it."""

from __future__ import annotations

import random
import tracemalloc

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kafka_batches import batch_of
from warren.errors import TooLarge
from warren.protocol.kafka import record_batch
from warren.protocol.kafka.record_batch import check_records, is_checked_quickly, may_unpack_to_more, split
from warren.storage.format.kafka_batch import ZSTD_BLOCKS_MAX, decompress, unpacked_size_bound
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_COMPRESSIONS

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
CODES = (GZIP, SNAPPY, LZ4, ZSTD)


def packed(code: int, data: bytes) -> memoryview:
    """Returns `data` as a client packs it."""
    if code == GZIP:
        import gzip

        return memoryview(gzip.compress(data))
    codec = pyarrow.Codec(KAFKA_COMPRESSIONS[code])
    return memoryview(codec.compress(data, asbytes=True))


@given(code=st.sampled_from(CODES), size=st.integers(0, 600_000), seed=st.integers(0, 3))
def test_nothing_unpacks_to_more_than_the_bound(code: int, size: int, seed: int) -> None:
    data = bytes(size) if not seed else random.Random(seed).randbytes(size)

    bound = unpacked_size_bound(packed(code, data), code)

    assert bound is not None
    assert bound >= len(data)


def test_the_bound_of_zstd_is_near_the_real_size() -> None:
    bound = unpacked_size_bound(packed(ZSTD, bytes(1 << 20)), ZSTD)

    assert bound is not None
    assert 1 << 20 <= bound <= (1 << 20) + (128 << 10)


@given(st.binary(max_size=200), st.integers(0, 255))
def test_bytes_that_are_no_whole_frame_of_zstd_have_no_bound(data: bytes, flipped: int) -> None:
    whole = bytes(packed(ZSTD, b"some text, some text " * 10))

    for cut in (len(whole) - 1, 4, 0):
        assert unpacked_size_bound(memoryview(whole[:cut]), ZSTD) is None
    assert unpacked_size_bound(memoryview(whole + data), ZSTD) is None or not data
    unpacked_size_bound(memoryview(bytes((flipped,)) + whole[1:5] + data), ZSTD)


def test_a_frame_of_endless_blocks_is_not_walked_to_its_end() -> None:
    empty_block = b"\0\0\0"
    head = bytes(packed(ZSTD, b""))[:6]

    assert unpacked_size_bound(memoryview(head + empty_block * (ZSTD_BLOCKS_MAX + 1) + b"\1\0\0"), ZSTD) is None


@pytest.mark.parametrize("code", CODES)
def test_a_batch_is_refused_if_a_body_in_it_unpacks_to_more_than_the_limit(code: int) -> None:
    (batch,) = split(memoryview(batch_of([(None, b"small", []), (None, bytes(100_000), [])], compression=code)))

    assert may_unpack_to_more(batch, 90_000)
    for check in (check_records, is_checked_quickly):
        with pytest.raises(TooLarge, match="100000"):
            check(batch, 90_000)
        check(batch, 100_000)


def test_uncompressed_data_needs_no_bound() -> None:
    (batch,) = split(memoryview(batch_of([(None, bytes(1000), [])])))

    assert not may_unpack_to_more(batch, 0)


def test_a_batch_that_no_reader_would_unpack_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    (batch,) = split(memoryview(batch_of([(None, bytes(1000), [])] * 100, compression=ZSTD)))
    monkeypatch.setattr(record_batch, "RAW_SIZE_MAX", 50_000)

    with pytest.raises(TooLarge, match="unpacked batch"):
        check_records(batch)
    assert len(batch.data) < KAFKA_BATCH_HEAD.size + 1000


@pytest.mark.parametrize("code", CODES)
def test_unpacking_takes_hardly_more_memory_than_its_result(code: int) -> None:
    size = 48 << 20
    data = packed(code, bytes(size))
    tracemalloc.start()

    raw = decompress(data, code)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(raw) == size
    assert peak < 1.4 * size
