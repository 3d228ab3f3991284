"""What has a quota, and which quotas there are: Kafka's entities and keys, and some of our own."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from warren.config import CLIENT_ID_NAMED_SIZE_MAX, QUOTA_VALUE_MAX, USER_NAME_SIZE_MAX
from warren.errors import BadInput

DEFAULT: Final = ""
"""The name of an entity that stands for all that have no quota of their own."""
USER, CLIENT, ADDRESS = "user", "client-id", "ip"
"""What Kafka calls the parts of an entity."""
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
    """Which entities may have the quota, and what it limits."""

    entities: frozenset[frozenset[str]]
    what: str


KEYS: Final[Mapping[str, QuotaKey]] = MappingProxyType(
    {
        PRODUCED: QuotaKey(OF_CLIENTS, "bytes a second of requests that put messages"),
        CONSUMED: QuotaKey(OF_CLIENTS, "bytes a second of answers that hold messages"),
        TIME: QuotaKey(OF_CLIENTS, "percent of the time of the event loop"),
        REQUESTS: QuotaKey(OF_CLIENTS, "requests a second"),
        MUTATIONS: QuotaKey(OF_CLIENTS, "partitions a second that are made or deleted"),
        CONNECTIONS: QuotaKey(OF_USERS, "connections of a user that has logged in"),
        TOPICS: QuotaKey(OF_USERS, "topics that a user has made"),
        PARTITIONS: QuotaKey(OF_USERS, "partitions of the topics that a user has made"),
        CREATIONS: QuotaKey(OF_ADDRESSES, "connections a second from an address"),
    }
)
RATES: Final = (PRODUCED, CONSUMED, TIME, REQUESTS, MUTATIONS)


class Entity(NamedTuple):
    """Who has a quota: a user, a client id, both, or an address. None is not part of it, DEFAULT is every other one."""

    user: str | None = None
    client: str | None = None
    address: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Its names by what Kafka calls them."""
        names = {USER: self.user, CLIENT: self.client, ADDRESS: self.address}
        return {part: name for part, name in names.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{part} {name or '(default)'}" for part, name in self.parts.items())

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Self:
        """The entity of these parts, with None for the default one. Raises BadInput if there is no such entity."""
        if frozenset(parts) not in OF_CLIENTS | OF_ADDRESSES:
            given = " and ".join(sorted(parts)) or "nothing"
            raise BadInput(f"a quota is for a user, a client-id, both of them, or an ip, not for {given}")
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
    """Returns the value; BadInput if there is no such quota, the entity cannot have it, or the value cannot be."""
    known = KEYS.get(key)
    if known is None:
        raise BadInput(f"there is no quota {key[:50]!r}; there are {', '.join(KEYS)}")
    if frozenset(entity.parts) not in known.entities:
        allowed = " or ".join(sorted(" with ".join(sorted(each)) for each in known.entities))
        raise BadInput(f"{key} is a quota of {allowed}, not of {entity}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    least_is_zero = key in (CONNECTIONS, TOPICS, PARTITIONS)
    if not is_number or not 0 <= value <= QUOTA_VALUE_MAX or (value == 0 and not least_is_zero):
        least = "from 0" if least_is_zero else "above 0"
        raise BadInput(f"{key} {value!r}: expected a number {least} up to {QUOTA_VALUE_MAX}")
    return float(value)


def asked_parts(entry: Any) -> list[dict[str, Any]]:
    """Returns the entity of a request's entry as the answer to it names it."""
    return [{"entity_type": each.entity_type, "entity_name": each.entity_name} for each in entry.entity]
