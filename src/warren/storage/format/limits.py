"""The sizes of records, batches and blocks in bytes: minima, maxima and defaults."""

from __future__ import annotations

from typing import Final

BLOCK_SIZE_DEFAULT: Final = 64 << 20
BLOCK_SIZE_MIN: Final = 4 << 10
BLOCK_SIZE_MAX: Final = 1 << 29
BODY_SIZE_MAX: Final = 128 << 20
KEY_SIZE_MAX: Final = 65_534
HEADERS_SIZE_MAX: Final = 65_535
ID_SIZE_MAX: Final = 40
TAG_SIZE_MAX: Final = 128
FILTER_SIZE_MAX: Final = 128
MARKER_SIZE_MAX: Final = 1024
BATCH_COUNT_MAX: Final = 65_536
BATCH_SIZE_TARGET: Final = 4 << 20
RAW_SIZE_MAX: Final = 256 << 20
"""The largest unpacked size of a compressed record, checked before memory is allocated."""
SCAN_ROWS_DEFAULT: Final = 65_536
SCAN_IN_PLACE_ROWS_MIN: Final = 512
"""A batch of this many rows becomes a record batch of its own, because copying its bodies would cost more.

A caller for which small record batches cost more passes another number to `Log.scan`.
"""
