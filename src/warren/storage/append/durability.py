"""Durability: when a put returns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from warren.errors import BadInput

INTERVAL_S_MAX: Final = 60.0

Replication = Literal["as synced", "sync", "async"]
"""What waits for the other replicas of a replicated store; without one it means nothing.

`as synced`: an append with durability `commit`. `sync`: every append. `async`: no append. `Log.sync` always waits.
"""


@dataclass(frozen=True, slots=True)
class Durability:
    """When a put returns: `commit` after its sync, `interval` at most `interval_s` before its sync, `os` without any
    sync.
    """

    mode: Literal["commit", "interval", "os"]
    interval_s: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Durability:
        """Parses `commit`, `os`, or `interval:50ms` (also `interval:2s`)."""
        if text in ("commit", "os"):
            return cls("commit" if text == "commit" else "os")
        match = re.fullmatch(r"interval:(\d+(?:\.\d+)?)(ms|s)", text)
        if match is None:
            raise BadInput(f"durability {text!r}: expected 'commit', 'os' or 'interval:50ms'")
        interval_s = float(match[1]) / (1000 if match[2] == "ms" else 1)
        if not 0 < interval_s <= INTERVAL_S_MAX:
            raise BadInput(f"durability {text!r}: the interval must be above 0 and at most {INTERVAL_S_MAX:g} s")
        return cls("interval", interval_s)
