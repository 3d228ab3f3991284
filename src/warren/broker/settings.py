"""How a broker behaves, where people may choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What was configured. A put to a missing topic makes it where `auto_create_topics` says so; a fetch never does."""

    auto_create_topics: bool = True
