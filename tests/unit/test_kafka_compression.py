"""What clients compress is unpacked up to a limit; what is no such thing, or not all of it, is told."""

from __future__ import annotations

import gzip

import cramjam
import pyarrow
import pytest

from warren.storage.kafka_batch import decompress

RAW = b"some words that come again: " * 40
SNAPPY = pyarrow.compress(RAW, codec="snappy", asbytes=True)
XERIAL = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + 2 * (len(SNAPPY).to_bytes(4, "big") + SNAPPY)
PACKED = {
    "gzip": (1, gzip.compress(RAW), RAW),
    "snappy": (2, SNAPPY, RAW),
    "snappy in pieces": (2, XERIAL, RAW * 2),
    "lz4": (3, bytes(cramjam.lz4.compress(RAW)), RAW),
    "zstd": (4, bytes(cramjam.zstd.compress(RAW)), RAW),
}
EVERY = pytest.mark.parametrize(("code", "packed", "raw"), PACKED.values(), ids=PACKED)


@EVERY
def test_what_was_packed_is_unpacked(code: int, packed: bytes, raw: bytes) -> None:
    assert decompress(memoryview(packed), code) == raw


def test_what_was_not_packed_stays_where_it_is() -> None:
    data = memoryview(RAW)

    assert decompress(data, 0) is data


@EVERY
def test_of_what_is_cut_a_beginning_is_unpacked_or_it_is_told(code: int, packed: bytes, raw: bytes) -> None:
    told = 0
    for end in range(len(packed)):
        try:
            found = bytes(decompress(memoryview(packed[:end]), code))
        except ValueError:
            told += 1
        else:
            # Whoever walks the records finds what is missing.
            assert raw.startswith(found)

    assert told > len(packed) / 2


@pytest.mark.parametrize("cut", [1, 8, 40])
def test_gzip_that_is_cut_is_told(cut: int) -> None:
    with pytest.raises(ValueError, match="too early"):
        decompress(memoryview(gzip.compress(RAW)[:-cut]), 1)


@EVERY
def test_what_unpacks_to_more_than_the_limit_is_refused(code: int, packed: bytes, raw: bytes) -> None:
    with pytest.raises(ValueError, match="unpacked"):
        decompress(memoryview(packed), code, len(raw) - 1)


@EVERY
def test_what_unpacks_to_the_limit_is_taken(code: int, packed: bytes, raw: bytes) -> None:
    assert decompress(memoryview(packed), code, len(raw)) == raw


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression_is_told(code: int) -> None:
    with pytest.raises(ValueError, match="unknown compression"):
        decompress(memoryview(RAW), code)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 9,
        XERIAL[:16] + b"\xff\xff\xff\xff",
        XERIAL[:16] + b"\x7f\xff\xff\xff" + SNAPPY,
        b"\xff\xff\xff\x7f" + SNAPPY,
        b"\x80\x80\x40" + b"x",
    ],
)
def test_sizes_that_lie_are_told(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decompress(memoryview(data), 2)
