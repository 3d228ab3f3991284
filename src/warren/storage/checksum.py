"""CRC-32C, from one place: the only checksum in Warren's files."""

from __future__ import annotations

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
