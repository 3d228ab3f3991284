"""Data that clients compress is unpacked up to a limit; malformed or truncated data raises."""

from __future__ import annotations

import errno
import gzip
import mmap

import cramjam
import pyarrow
import pytest

from warren.storage.format import kafka_batch
from warren.storage.format.kafka_batch import UNPACKED_IN_PLACE_MIN, decompress
from warren.storage.format.layout import KAFKA_COMPRESSIONS

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
def test_compressed_data_is_unpacked(code: int, packed: bytes, raw: bytes) -> None:
    assert decompress(memoryview(packed), code) == raw


def test_uncompressed_data_is_not_copied() -> None:
    data = memoryview(RAW)

    assert decompress(data, 0) is data


@EVERY
def test_truncated_data_yields_a_prefix_or_raises(code: int, packed: bytes, raw: bytes) -> None:
    errors = 0
    for end in range(len(packed)):
        try:
            prefix = bytes(decompress(memoryview(packed[:end]), code))
        except ValueError:
            errors += 1
        else:
            # The walk over the records finds that some are missing.
            assert raw.startswith(prefix)

    assert errors > len(packed) / 2


@pytest.mark.parametrize("cut", [1, 8, 40])
def test_truncated_gzip_raises(cut: int) -> None:
    with pytest.raises(ValueError, match="too early"):
        decompress(memoryview(gzip.compress(RAW)[:-cut]), 1)


@EVERY
def test_data_that_unpacks_to_more_than_the_limit_is_refused(code: int, packed: bytes, raw: bytes) -> None:
    with pytest.raises(ValueError, match="unpacked"):
        decompress(memoryview(packed), code, len(raw) - 1)


@EVERY
def test_data_that_unpacks_to_the_limit_is_accepted(code: int, packed: bytes, raw: bytes) -> None:
    assert decompress(memoryview(packed), code, len(raw)) == raw


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression_raises(code: int) -> None:
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
def test_wrong_sizes_raise(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decompress(memoryview(data), 2)


@EVERY
def test_large_data_is_unpacked_piece_by_piece(
    code: int, packed: bytes, raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_batch, "UNPACKED_SIZE_FIRST", 10)
    monkeypatch.setattr(kafka_batch, "UNPACKED_RATIO", 0)
    monkeypatch.setattr(kafka_batch, "UNPACKED_STEP_MAX", 50)
    monkeypatch.setattr(kafka_batch, "UNPACKED_IN_PLACE_MIN", 200)

    assert decompress(memoryview(packed), code) == raw
    assert decompress(memoryview(packed), code, len(raw)) == raw
    with pytest.raises(ValueError, match="unpacked"):
        decompress(memoryview(packed), code, len(raw) - 1)


@pytest.mark.parametrize("code", [1, 3, 4])
def test_too_little_memory_is_not_reported_as_damage(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(_: int, size: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", no_memory)
    data = bytes(UNPACKED_IN_PLACE_MIN + 1)
    packed = gzip.compress(data, 1) if code == 1 else pyarrow.compress(data, codec=KAFKA_COMPRESSIONS[code])

    with pytest.raises(MemoryError):
        decompress(memoryview(packed), code)
