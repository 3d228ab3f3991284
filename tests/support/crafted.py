"""Logs made by hand: records whose checksums are right, whatever else is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.simulated_clock import START_NS
from warren.storage.disk.block import BlockHeader, first_bytes
from warren.storage.disk.index import Blocks, index_bytes
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import COLUMNS_HEAD, NO_KEY, PAYLOAD_HEAD, SECTION, Slot, aligned
from warren.storage.format.record import Packed, stamp

NOW_US = START_NS // 1000
NO_NUMBERS: Mapping[int, int] = {}
Sections = Sequence[tuple[int, bytes]]


def packed(
    content: bytes,
    *,
    count: int = 1,
    codec: int = 0,
    id_size: int = 0,
    tag_size: int = 0,
    compression: int = 0,
    key_size: int = NO_KEY,
    headers_size: int = 0,
) -> Packed:
    """A record with these fields in its head, and `content` behind it; its checksum is right."""
    head = PAYLOAD_HEAD.pack(count, -1, codec, id_size, tag_size, compression, key_size, headers_size)
    return Packed(head + content, crc32c(head + content), count)


def columns(sections: Sections, *, count: int) -> Packed:
    """A batch of these sections."""
    return packed(area(sections), count=count, codec=1)


def area(sections: Sections) -> bytes:
    table = COLUMNS_HEAD.pack(len(sections), 0) + b"".join(SECTION.pack(kind, len(data)) for kind, data in sections)
    return table + b"".join(data.ljust(aligned(len(data)), b"\0") for _, data in sections)


def write_log(path: Path, records: Sequence[Packed], *, wrong_numbers: Mapping[int, int] = NO_NUMBERS) -> Path:
    """A closed log of one block that holds these records; its block file.

    `wrong_numbers` has what some records say instead of the number that follows.
    """
    data = bytearray(first_bytes(BlockHeader(2, 0, 0, 0, NOW_US, 64, 8)))
    number = 0
    for record in records:
        data += stamp(record, len(data), wrong_numbers.get(number, number), NOW_US)
        data += bytes(-len(data) % 8)
        number += max(1, record.message_count)
    slot = Slot(0, len(data), NOW_US, NOW_US, 0, number, NOW_US, NOW_US)
    index = index_bytes(
        version=2,
        max_block_count=1,
        blocks=Blocks(start=0, slots=[slot]),
        message_count=number,
        extension={},
        synced=number,
        boot_id=bytes(16),
        state=1,
    )
    block = path / f"{0:020d}.block"
    block.write_bytes(data + bytes(4096))
    (path / "index").write_bytes(index)
    return block
