"""Limits of Warren's own calls that more than one module checks. Sizes are in bytes."""

from __future__ import annotations

from typing import Final

NATIVE_ANSWER_SIZE_TARGET: Final = 8 << 20
"""About how many bytes of messages one answer of Warren's own calls carries."""
NATIVE_LOOK_S: Final = 0.5
"""How often a waiting request polls for what no log announces: expired leases, partitions that change owner."""
