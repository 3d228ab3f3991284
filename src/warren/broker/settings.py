"""How a broker behaves, where people may choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from warren.config import TRANSACTIONAL_ID_S


class ShownKey(NamedTuple):
    """One key of the configuration as administrators are shown it, and where its value comes from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What was configured. A put to a missing topic makes it where `auto_create_topics` says so; a fetch never does.

    Transactional ids that are not used for `transactional_id_s` are forgotten.
    `deliver_at` says in which batches the header `warren.deliver-at` is looked for: "all", "plain" or "none".
    With `sasl` nobody is served who has not shown who they are, by one of the `mechanisms`; with `rights` everybody
    but the `super_users` needs a right to whatever they do. `quotas` are those of each user that has no
    others, by key. `shown` is what was configured, by key.
    """

    auto_create_topics: bool = True
    transactional_id_s: float = TRANSACTIONAL_ID_S
    deliver_at: str = "all"
    sasl: bool = False
    mechanisms: Sequence[str] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    rights: bool = False
    super_users: frozenset[str] = frozenset()
    quotas: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    shown: Mapping[str, ShownKey] = field(default_factory=lambda: MappingProxyType({}))
