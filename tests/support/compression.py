"""The compressions of a log, as a type."""

from __future__ import annotations

from typing import Literal

Compression = Literal["none", "zstd", "lz4"]
