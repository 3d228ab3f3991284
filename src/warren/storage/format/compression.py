"""Bodies made smaller and large again. What a compressed body unpacks to is bounded before memory is taken."""

from __future__ import annotations

from warren.errors import BadInput
from warren.storage.format.layout import COMPRESSIONS, RAW_SIZE
from warren.storage.format.limits import RAW_SIZE_MAX


def compression_code(name: str) -> int:
    """The number that stands for `name` in a record."""
    if name not in COMPRESSIONS:
        raise BadInput(f"compression {name!r}: expected one of {', '.join(COMPRESSIONS)}")
    return COMPRESSIONS.index(name)


def compress(data: bytes, code: int) -> bytes | None:
    """The raw size and the compressed bytes; None if that would not be smaller."""
    # Imported here: most logs are not compressed, and PyArrow takes longer to import than a log to open.
    import pyarrow

    packed: bytes = pyarrow.compress(data, codec=COMPRESSIONS[code], asbytes=True)
    if RAW_SIZE.size + len(packed) >= len(data):
        return None
    return RAW_SIZE.pack(len(data)) + packed


def decompress(data: bytes | memoryview, code: int) -> bytes:
    """What was compressed. Raises ValueError if the bytes are not what `compress` makes."""
    import pyarrow

    if code >= len(COMPRESSIONS) or len(data) < RAW_SIZE.size:
        raise ValueError(f"unknown compression {code}, or no size before the compressed bytes")
    (raw_size,) = RAW_SIZE.unpack_from(data)
    if raw_size > RAW_SIZE_MAX:
        raise ValueError(f"{raw_size} bytes when unpacked, over the limit of {RAW_SIZE_MAX}")
    try:
        stream = pyarrow.CompressedInputStream(pyarrow.BufferReader(data[RAW_SIZE.size :]), COMPRESSIONS[code])
        # One byte more than promised: the packer may have promised too little, or too much.
        raw: bytes = stream.read(raw_size + 1)
    except OSError as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    if len(raw) != raw_size:
        raise ValueError(f"{len(raw)} bytes when unpacked, but {raw_size} were promised")
    return raw
