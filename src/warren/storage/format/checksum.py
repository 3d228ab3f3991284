"""CRC-32C, the only checksum in Warren's files. Every module gets it from here."""

from __future__ import annotations

from array import array
from functools import cache
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c", "crc32c_joined"]

POLYNOMIAL: Final = 0x82F63B78
BITS: Final = 32


class ChecksumChange(NamedTuple):
    """A linear change of a checksum, as a table for each of its four bytes."""

    low: array[int]
    middle: array[int]
    high: array[int]
    highest: array[int]

    def of(self, value: int) -> int:
        low, middle, high, highest = self
        return low[value & 0xFF] ^ middle[value >> 8 & 0xFF] ^ high[value >> 16 & 0xFF] ^ highest[value >> 24]


def crc32c_joined(first: int, second: int, second_size: int) -> int:
    """Returns the checksum of two adjacent pieces from the checksums of both, without reading their bytes."""
    doublings, left = 0, second_size
    while left:
        if left & 1:
            first = _zeros_behind(doublings).of(first)
        doublings, left = doublings + 1, left >> 1
    return first ^ second


@cache
def _zeros_behind(doublings: int) -> ChecksumChange:
    """Returns how a checksum changes when 2 ** `doublings` zero bytes follow its piece."""
    if doublings:
        half = _zeros_behind(doublings - 1)
        return _change([half.of(half.of(1 << bit)) for bit in range(BITS)])
    columns = []
    for bit in range(BITS):
        value = 1 << bit
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        columns.append(value)
    return _change(columns)


def _change(columns: list[int]) -> ChecksumChange:
    """Returns the tables of a change, given the value that each single bit becomes."""

    def table(start: int) -> array[int]:
        changed = array("I", [0])
        for column in columns[start : start + 8]:
            changed.extend([value ^ column for value in changed])
        return changed

    return ChecksumChange(table(0), table(8), table(16), table(24))
