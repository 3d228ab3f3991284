"""Logs made by hand: records with right checksums and any other fault."""

from __future__ import annotations

import struct
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
    """Returns a record with these fields in its head, followed by `content`; its checksum is right."""
    head = PAYLOAD_HEAD.pack(count, -1, codec, id_size, tag_size, compression, key_size, headers_size)
    return Packed(head + content, crc32c(head + content), count)


def columns(sections: Sections, *, count: int) -> Packed:
    """A batch of these sections."""
    return packed(area(sections), count=count, codec=1)


def area(sections: Sections) -> bytes:
    table = COLUMNS_HEAD.pack(len(sections), 0) + b"".join(SECTION.pack(kind, len(data)) for kind, data in sections)
    return table + b"".join(data.ljust(aligned(len(data)), b"\0") for _, data in sections)


def write_log(path: Path, records: Sequence[Packed], *, wrong_numbers: Mapping[int, int] = NO_NUMBERS) -> Path:
    """Writes a closed log of one block with these records. Returns its block file.

    `wrong_numbers` has the numbers that some records claim instead of the right ones.
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


BODY_ENDS = struct.pack("<3I", 0, 1, 3)
BODIES = [(1, BODY_ENDS), (2, b"abb")]
LARGE = struct.pack("<I", (256 << 20) + 1)

MALFORMED: dict[str, Packed] = {
    "no message": packed(b"body", count=0),
    "a codec that is kept for later": packed(b"body", codec=2),
    "an unknown codec": packed(b"body", codec=9),
    "an id longer than the record": packed(b"body", id_size=5),
    "a tag longer than the record": packed(b"body", tag_size=5),
    "a key longer than the record": packed(b"body", key_size=5),
    "headers longer than the record": packed(b"body", headers_size=5),
    "an id that is no text": packed(b"\xffbody", id_size=1),
    "a tag that is no text": packed(b"\xffbody", tag_size=1),
    "a header that passes the end of the headers": packed(b"\1\5\0nv" + b"body", headers_size=5),
    "headers with less than sizes at the end": packed(b"\1\1\0nv\1" + b"body", headers_size=6),
    "a header name that is no text": packed(b"\1\1\0\xffv", headers_size=5),
    "an unknown compression": packed(struct.pack("<I", 4) + b"body", compression=3),
    "a compressed body without its size": packed(b"bo", compression=1),
    "a compressed body that is none": packed(struct.pack("<I", 4) + b"not zstd", compression=1),
    "a compressed body that is none, of lz4": packed(struct.pack("<I", 4) + b"not lz4 at all", compression=2),
    "a compressed body over the limit": packed(LARGE + b"body", compression=1),
    "no table of sections": packed(b"tab", codec=1, count=2),
    "a table longer than the record": packed(struct.pack("<II", 9, 0), codec=1, count=2),
    "a table of too many sections": packed(struct.pack("<II", 17, 0) + bytes(17 * 8 + 800), codec=1, count=2),
    "a section that passes the end": packed(
        struct.pack("<IIIIII", 2, 0, 1, 12, 2, 99) + BODY_ENDS + bytes(12), codec=1, count=2
    ),
    "no bodies": columns([(1, BODY_ENDS)], count=2),
    "no ends": columns([(2, b"abb")], count=2),
    "ends for another count": columns(BODIES, count=3),
    "ends that do not start at 0": columns([(1, struct.pack("<3I", 1, 1, 3)), (2, b"abb")], count=2),
    "ends that go back": columns([(1, struct.pack("<3I", 0, 4, 3)), (2, b"abb")], count=2),
    "ends short of the bodies": columns([(1, struct.pack("<3I", 0, 1, 2)), (2, b"abb")], count=2),
    "a tag that is not in the dictionary": columns([*BODIES, (3, b"\0\0\2\0"), (4, b"\1x\1y")], count=2),
    "tags without a dictionary": columns([*BODIES, (3, b"\0\0\0\0")], count=2),
    "a dictionary that passes its end": columns([*BODIES, (3, b"\0\0\1\0"), (4, b"\1x\2y")], count=2),
    "a tag of the dictionary that is no text": columns([*BODIES, (3, b"\0\0\1\0"), (4, b"\1x\1\xff")], count=2),
    "codes for another count": columns([*BODIES, (3, b"\0\0"), (4, b"\1x")], count=2),
    "keys for another count": columns([*BODIES, (5, struct.pack("<2I", 0, 1)), (6, b"k")], count=2),
    "ends of keys without keys": columns([*BODIES, (5, struct.pack("<3I", 0, 1, 1))], count=2),
    "presence for another count": columns([*BODIES, (5, struct.pack("<3I", 0, 0, 1)), (6, b"k"), (7, b"\1")], count=2),
    "an id of a batch that is no text": columns([*BODIES, (8, struct.pack("<3I", 0, 1, 2)), (9, b"\xffi")], count=2),
    "headers of a batch that do not end": columns(
        [*BODIES, (10, struct.pack("<3I", 0, 0, 4)), (11, b"\1\1\0n")], count=2
    ),
    "corr_offsets for another count": columns([*BODIES, (12, bytes(8))], count=2),
    "a compressed batch that is none": packed(struct.pack("<I", 200) + b"not zstd", codec=1, compression=1, count=2),
}
"""Records with right checksums and impossible content, by their fault."""
