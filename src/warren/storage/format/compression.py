"""Compresses and decompresses bodies. The unpacked size of a body is checked before memory is allocated."""

from __future__ import annotations

from warren.errors import BadInput
from warren.storage.format.allowance import UNASKED_SIZE_MAX, use_allowance
from warren.storage.format.layout import COMPRESSIONS, RAW_SIZE
from warren.storage.format.limits import RAW_SIZE_MAX


def compression_code(name: str) -> int:
    """Returns the number that stands for `name` in a record."""
    if name not in COMPRESSIONS:
        raise BadInput(f"compression {name!r}: expected one of {', '.join(COMPRESSIONS)}")
    return COMPRESSIONS.index(name)


def compress(data: bytes, code: int) -> bytes | None:
    """Returns the raw size and the compressed bytes, or None if that would not be smaller."""
    # Imported here because most logs are not compressed, and importing PyArrow takes longer than opening a log.
    import pyarrow

    packed: bytes = pyarrow.compress(data, codec=COMPRESSIONS[code], asbytes=True)
    if RAW_SIZE.size + len(packed) >= len(data):
        return None
    return RAW_SIZE.pack(len(data)) + packed


def decompress(data: bytes | memoryview, code: int) -> bytes:
    """Returns the decompressed bytes. Raises ValueError if `compress` cannot have made `data`.

    Raises NeedsMemory if the thread may not read that many bytes.
    """
    import pyarrow

    if code >= len(COMPRESSIONS) or len(data) < RAW_SIZE.size:
        raise ValueError(f"unknown compression {code}, or no size before the compressed bytes")
    (raw_size,) = RAW_SIZE.unpack_from(data)
    if raw_size > RAW_SIZE_MAX:
        raise ValueError(f"{raw_size} bytes when unpacked, over the limit of {RAW_SIZE_MAX}")
    if raw_size > UNASKED_SIZE_MAX:
        use_allowance(raw_size)
    try:
        stream = pyarrow.CompressedInputStream(pyarrow.BufferReader(data[RAW_SIZE.size :]), COMPRESSIONS[code])
        # Reads one byte more than the record says, to detect a size that is too small.
        raw: bytes = stream.read(raw_size + 1)
    except OSError as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    if len(raw) != raw_size:
        raise ValueError(f"{len(raw)} bytes when unpacked, but expected {raw_size}")
    return raw
