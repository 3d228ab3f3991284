"""Entities that have quotas, and the quotas that they may have: those of Kafka, and some of Warren's own."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from warren.broker.security.users import USER_NAME_SIZE_MAX
from warren.errors import BadInput
from warren.settings import Number, unknown

QUOTA_VALUE_MAX: Final = 1 << 53
CLIENT_ID_NAMED_SIZE_MAX: Final = 1000
"""The longest client id that may have a quota."""

DEFAULT: Final = ""
"""The name of the entity that stands for all entities without an own quota."""
USER, CLIENT, ADDRESS = "user", "client-id", "ip"
"""Kafka's names for the parts of an entity."""
OF_CLIENTS: Final = frozenset({frozenset({USER}), frozenset({CLIENT}), frozenset({USER, CLIENT})})
OF_USERS: Final = frozenset({frozenset({USER})})
OF_ADDRESSES: Final = frozenset({frozenset({ADDRESS})})

PRODUCED, CONSUMED, TIME, MUTATIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
REQUESTS, CONNECTIONS, TOPICS, PARTITIONS = "request_rate", "connections_max", "topics_max", "partitions_max"
CREATIONS: Final = "connection_creation_rate"


class QuotaKey(NamedTuple):
    """A quota: its possible entities, its values, and what it limits."""

    entities: frozenset[frozenset[str]]
    kind: Number
    description: str


RATE: Final = Number(0, QUOTA_VALUE_MAX, is_above=True)
COUNT: Final = Number(0, QUOTA_VALUE_MAX)
KEYS: Final[Mapping[str, QuotaKey]] = MappingProxyType(
    {
        PRODUCED: QuotaKey(OF_CLIENTS, RATE, "bytes a second of requests that put messages"),
        CONSUMED: QuotaKey(OF_CLIENTS, RATE, "bytes a second of answers that hold messages"),
        TIME: QuotaKey(OF_CLIENTS, RATE, "percent of the time of the event loop"),
        REQUESTS: QuotaKey(OF_CLIENTS, RATE, "requests a second"),
        MUTATIONS: QuotaKey(OF_CLIENTS, RATE, "partitions that are created or deleted per second"),
        CONNECTIONS: QuotaKey(OF_USERS, COUNT, "connections of a user that has logged in"),
        TOPICS: QuotaKey(OF_USERS, COUNT, "topics that a user has made"),
        PARTITIONS: QuotaKey(OF_USERS, COUNT, "partitions of the topics that a user has made"),
        CREATIONS: QuotaKey(OF_ADDRESSES, RATE, "connections a second from an address"),
    }
)
RATES: Final = (PRODUCED, CONSUMED, TIME, REQUESTS, MUTATIONS)


class Entity(NamedTuple):
    """A user, a client id, both, or an address. A part that is None does not count; DEFAULT stands for all others."""

    user: str | None = None
    client: str | None = None
    address: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Returns the names of its parts, by Kafka's words for these."""
        names = {USER: self.user, CLIENT: self.client, ADDRESS: self.address}
        return {part: name for part, name in names.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{part} {name or '(default)'}" for part, name in self.parts.items())

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Self:
        """Returns the entity of these parts; None names the default one. Raises BadInput if there is no such entity."""
        if frozenset(parts) not in OF_CLIENTS | OF_ADDRESSES:
            names_of_parts = " and ".join(sorted(parts)) or "nothing"
            raise BadInput(f"a quota is for a user, a client-id, both of them, or an ip, not for {names_of_parts}")
        names = {part: DEFAULT if name is None else _checked_name(part, name) for part, name in parts.items()}
        return cls(names.get(USER), names.get(CLIENT), names.get(ADDRESS))


def _checked_name(part: str, name: str) -> str:
    if part == ADDRESS:
        try:
            return str(ipaddress.ip_address(name))
        except ValueError:
            raise BadInput(f"ip {name!r} is not an address") from None
    size_max = USER_NAME_SIZE_MAX if part == USER else CLIENT_ID_NAMED_SIZE_MAX
    if not name or len(name.encode(errors="replace")) > size_max or not name.isprintable():
        raise BadInput(f"{part} {name[:50]!r}: a name has 1 to {size_max} bytes and no control characters")
    return name


def checked_value(entity: Entity, key: str, value: Any) -> float:
    """Returns the value. Raises BadInput if there is no such quota, or if the entity cannot have it or this value."""
    quota = KEYS.get(key)
    if quota is None:
        raise BadInput(unknown("quota", key, KEYS))
    if frozenset(entity.parts) not in quota.entities:
        allowed = " or ".join(sorted(" with ".join(sorted(each)) for each in quota.entities))
        raise BadInput(f"{key} is a quota of {allowed}, not of {entity}")
    try:
        return quota.kind.check(value)
    except BadInput as error:
        raise BadInput(f"{key}: {error}") from error
