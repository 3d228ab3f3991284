"""One log of each version, byte for byte: a change of the format cannot pass unnoticed.

If a test fails here because the format was changed on purpose, add a new version, not new bytes.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.storage import Log
from warren.storage.format.compression import decompress

BLOCK_SIZE: Final = 4096


def _bytes(*parts: str | int | bytes) -> bytes:
    """Hexadecimal text, plain bytes, and numbers of zero bytes, one after the other."""
    return b"".join(
        bytes(part) if isinstance(part, int) else part if isinstance(part, bytes) else bytes.fromhex(part)
        for part in parts
    )


TIME_1_MS: Final = "0000018bcfe56800"
TIME_2_MS: Final = "0000018bcfe56801"
TIME_1: Final = "00401e18240a0600"
TIME_2: Final = "e8431e18240a0600"
TIME_3: Final = "d0471e18240a0600"

RECORD_V1: Final = _bytes(
    "0000000000000000",  # offset
    TIME_1_MS,
    "04",
    b"id-1",
    35,
    "0000000000000005",  # corr_offset
    "0000000000000000",  # number
    "05",
    b"eu.de",
    122,
    "00000004",  # length
    b"body",
)
RECORD_OF_BATCH_V1: Final = _bytes(
    "00000000000000d0", TIME_2_MS, 40, "ffffffffffffffff", "0000000000000001", "02", b"eu", 125, "00000001", b"a"
)
INDEX_HEAD_V1: Final = _bytes(
    "00000001",  # version
    "00000001",  # block_count
    "0000000000000000",  # block_start
    "01020304",  # flag
    "0000000000000003",  # message_count
    "050600",
    b"topicorders",
)
SLOT_V1: Final = _bytes("0000000000000000", "0000000000000269", TIME_1_MS, TIME_2_MS)
READER_V1: Final = _bytes("0000000000000000", "000000d0", "04", b"eu.*", 123)

HEADER: Final = _bytes(
    "8e000040",
    b"header: { format: 2, block: 0, base_offset: 0, base_number: 0, created: 1700000000000000, ",
    b"index_spacing: 64, index_count: 8, check: c403d960 }",
    6,
)
INDEX2INDEX: Final = _bytes("44000040", b"i2i\0", "e000000000000000", 56)
INDEX_MESSAGE: Final = _bytes("44000040", b"idx\0", "28010000", "00000000", 56)
SINGLE: Final = _bytes(
    "49000000",  # size word
    "54567b1b",  # checksum
    "2801000000000000",  # offset
    "0000000000000000",  # number
    TIME_1,
    "bb11c674",  # stamp checksum
    "01000000",  # count
    "0500000000000000",  # corr_offset
    "00040500",  # codec, id size, tag size, compression
    "03000500",  # key size, headers size
    b"id-1",
    b"eu.de",
    b"key",
    "010100",
    b"hv",
    b"body",
    3,
)
COLUMNS: Final = _bytes(
    "2c010000",  # size word
    "29dd7231",  # checksum
    "7801000000000000",  # offset
    "0100000000000000",  # number
    TIME_2,
    "7dad2ac7",  # stamp checksum
    "03000000",  # count
    "ffffffffffffffff",  # corr_offset
    "01000000",  # codec, id size, tag size, compression
    "ffff0000",  # key size, headers size
    "0c000000",  # section_count
    "00000000",
    "0100000010000000",  # body_ends
    "0200000003000000",  # bodies
    "0300000006000000",  # tag_codes
    "0400000004000000",  # tags
    "0500000010000000",  # key_ends
    "0600000001000000",  # keys
    "0700000003000000",  # key_present
    "0800000010000000",  # id_ends
    "0900000002000000",  # ids
    "0a00000010000000",  # headers_ends
    "0b00000005000000",  # headers
    "0c00000018000000",  # corr_offsets
    "00000000010000000100000003000000",
    b"abc\0\0\0\0\0",
    "0000010000000000",
    b"\1x\1y\0\0\0\0",
    "00000000010000000100000001000000",
    b"k\0\0\0\0\0\0\0",
    "0100010000000000",
    "00000000010000000100000002000000",
    b"13\0\0\0\0\0\0",
    "00000000050000000500000005000000",
    b"\1\1\0hv\0\0\0",
    "ffffffffffffffff05000000000000000600000000000000",
)
SHARED_TAG: Final = _bytes(
    "6c000000060642eca8020000000000000400000000000000",
    TIME_3,
    "6fb1cda102000000ffffffffffffffff01000200ffff0000",
    b"eu",
    6,  # columns start on a boundary
    "0200000000000000",
    "010000000c000000",
    "0200000002000000",
    "00000000010000000200000000000000",
    b"de",
    6,
)
INDEX_HEAD: Final = _bytes(
    "02000000",  # version
    "01000000",  # block_count
    "0000000000000000",  # block_start
    "04030201",  # flag
    "02000000",  # max_block_count
    "0600000000000000",  # message_count
    "050600",
    b"topicorders",
)
SLOT: Final = _bytes(
    "0000000000000000",  # base_offset
    "1803000000000000",  # end_offset
    TIME_1,  # created
    TIME_3,  # updated
    "0000000000000000",  # base_number
    "0600000000000000",  # end_number
    TIME_1,  # first_timestamp
    TIME_3,  # last_timestamp
)
READER: Final = _bytes(
    "000000000000000028010000000000000000000000000000",  # block, offset, number
    "0100000000000000b073719600000000",  # sequence, checksum
    24,
    "000000000000000078010000000000000100000000000000",
    "0200000000000000f183cdb400000000",
    24,
    "00000000a5dc77a50100000000000000",  # tag_size, checksum, sequence
    128,
    "04000000b34242510200000000000000",
    b"eu.*",
    124,
)


def _state(checksum: str, synced: int) -> bytes:
    return _bytes("0100000000000000", checksum, synced.to_bytes(8, "little"), 16, "01", 15, 8)


def _log(version: int) -> SimulatedFileSystem:
    """A disk with the golden log of that version, closed."""
    disk, clock = SimulatedFileSystem(), SimulatedClock()
    with Log.open(
        "/log", version=version, filesystem=disk, clock=clock, block_size=BLOCK_SIZE, max_block_count=2
    ) as log:
        log.flag, log.extension = 0x01020304, {"topic": "orders"}
        if version == 1:
            log.append(b"body", tag="eu.de", id="id-1", corr_offset=5)
            clock.pass_ns(1_000_000)
            log.append_many([b"a", b""], tag="eu")
        else:
            log.append(b"body", tag="eu.de", key=b"key", headers={"h": b"v"}, id="id-1", corr_offset=5)
            clock.pass_ns(1_000_000)
            log.append_many(
                [b"a", b"", b"bc"],
                tags=["x", "y", "x"],
                keys=[b"k", None, b""],
                ids=["1", "", "3"],
                headers=[{"h": b"v"}, None, None],
                corr_offsets=[-1, 5, 6],
            )
            clock.pass_ns(1_000_000)
            log.append_many([b"d", b"e"], tag="eu")
        reader = log.reader("billing", tag="eu.*")
        reader.read(limit=1)
        reader.commit()
    return disk


def _content(disk: SimulatedFileSystem, name: str) -> bytes:
    file = disk.open(f"/log/{name}", writable=False)
    return file.read(0, file.size())


def test_a_version_1_block_is_these_bytes() -> None:
    block = _content(_log(1), "00000000000000000000.zbus")

    assert block[:208] == RECORD_V1
    assert block[208:413] == RECORD_OF_BATCH_V1
    assert not any(block[617:])


def test_a_version_1_index_is_these_bytes() -> None:
    index = _content(_log(1), "index")

    assert index == (INDEX_HEAD_V1.ljust(960, b"\0") + _state("accf5c3000000000", 3) + SLOT_V1 + bytes(32))


def test_a_version_1_reader_is_these_bytes() -> None:
    assert _content(_log(1), "readers/billing.reader") == READER_V1.ljust(512, b"\0")


def test_a_version_2_block_is_these_bytes() -> None:
    block = _content(_log(2), "00000000000000000000.block")

    start = 0
    for part in (HEADER, INDEX2INDEX, INDEX_MESSAGE, SINGLE, COLUMNS, SHARED_TAG):
        assert block[start : start + len(part)] == part
        start += len(part)
    assert start == 0x318
    assert not any(block[start:])


def test_a_version_2_index_is_these_bytes() -> None:
    index = _content(_log(2), "index")

    assert index == INDEX_HEAD.ljust(960, b"\0") + _state("00719db200000000", 6) + SLOT + bytes(64)


def test_a_version_2_reader_is_these_bytes() -> None:
    assert _content(_log(2), "readers/billing.reader") == READER.ljust(512, b"\0")


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (1, "c800000028b52ffd20c84d00001061610100430a6001"),
        (2, "c800000004224d186040820b0000001f610100af50616161616100000000"),
    ],
)
def test_bytes_compressed_by_an_earlier_release_are_unpacked(code: int, data: str) -> None:
    assert decompress(bytes.fromhex(data), code) == b"a" * 200
