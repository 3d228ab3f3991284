"""The settings of a broker: its behaviour and its limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.protocol.limits import FRAME_SIZE_MAX
from warren.queue.state.settings import DELIVER_AT_CHOICES
from warren.settings import Count, Flag, ListOf, OneOf, Parsed, Seconds, Size, Table, Text, refused, setting

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TRANSACTIONAL_ID_S: Final = 7 * 86_400
"""How long an unused transactional id is remembered: as long as by Kafka."""
BROKER_CONNECTIONS_MAX: Final = 10_000
BROKER_CONNECTIONS_MAX_PER_ADDRESS: Final = 5_000
"""No other machine can take all places. This one can, because clients behind a proxy all come from its address."""
BROKER_WAITING_SIZE_MAX: Final = 8 << 20
"""The requests of one connection that were received and are not answered."""
BROKER_MEMORY_SIZE_MAX: Final = 256 << 20
"""The memory that all clients together may make a broker hold."""
BROKER_STALLED_S_MAX: Final = 60.0
"""After this time a connection is closed whose request makes too little progress, or whose answers are not read."""
BROKER_TOPICS_MAX: Final = 20_000
BROKER_PARTITIONS_MAX: Final = 100_000
"""How many topics and partitions the store of a broker may have."""
BROKER_UNSENT_SIZE_MAX: Final = 4 << 20
"""The unread answers of a client above which the broker handles no more of its requests."""
BROKER_STOP_S_MAX: Final = 10.0
HTTP_CONNECTIONS_MAX_PER_ADDRESS: Final = 128
FETCH_SIZE_MAX: Final = 64 << 20
FETCH_WAIT_S_MAX: Final = 60.0

LIMIT_COUNT: Final = Count(1, 1 << 40)
LIMIT_SIZE: Final = Size(1, 1 << 40)
LIMIT_SECONDS: Final = Seconds(0, 86_400, is_above=True)


class ShownKey(NamedTuple):
    """One key of the configuration as administrators see it, with the source of its value."""

    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The configured behaviour. A put to a missing topic creates it if `auto_create_topics` is set; a fetch never does.

    Transactional ids that are not used for `transactional_id_s` are forgotten. `deliver_at` is the setting of that name
    of topics that have none: "none", "plain" or "all". With `sasl` a client has to log in, by one of the `mechanisms`,
    before it is served. With `rights` every user except the `super_users` needs a right to each operation. `quotas` are
    those of each user that has no others, by key. `key_values` is the configuration as administrators see it, by key.
    """

    auto_create_topics: bool = setting(
        Flag(), "whether a put to a missing topic creates it", True, name="broker.auto_create_topics"
    )
    transactional_id_s: float = setting(
        Seconds(60, 1 << 31),
        "seconds after which a transactional id is forgotten that is not used",
        TRANSACTIONAL_ID_S,
        name="broker.transactional_id_s",
    )
    deliver_at: str = setting(
        OneOf(DELIVER_AT_CHOICES),
        "in which batches of Kafka clients the header `warren.deliver-at` delays records, in topics that have no "
        "`deliver_at` of their own: `none`, `plain` (batches that are not compressed) or `all`",
        "none",
        name="broker.deliver_at",
    )
    sasl: bool = setting(Flag(), "whether clients have to log in", False, name="security.sasl")
    mechanisms: Sequence[str] = setting(
        ListOf(OneOf(MECHANISMS), f"some of {', '.join(MECHANISMS)}", least=1),
        "how clients may log in",
        MECHANISMS,
        name="security.mechanisms",
    )
    rights: bool = setting(Flag(), "whether users may do only what they have a right to", False, name="security.rights")
    super_users: Collection[str] = setting(
        ListOf(Text(), "a list of text"), "users that may do everything", (), name="security.super_users"
    )
    quotas: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    key_values: Mapping[str, ShownKey] = field(default_factory=lambda: MappingProxyType({}))


BROKER_SETTINGS: Final = Table.of("key", BrokerSettings)
"""The keys of the configuration that say how the broker behaves."""


def address_limit(text: str) -> tuple[str, int]:
    """Returns the address and the count of `address=count`. Raises BadInput for any other text."""
    address, _, count = text.rpartition("=")
    try:
        return str(ipaddress.ip_address(address)), Count().parse(count)
    except ValueError:
        raise refused(ADDRESS_LIMIT, text) from None


def _address_limit_text(text: str) -> str:
    address_limit(text)
    return text


ADDRESS_LIMIT: Final = "an address and a count, as in 10.0.0.7=500"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The limits of a broker. Sizes in bytes, waits in seconds.

    `waiting` is what one connection has sent and is not answered yet.
    """

    connections_max: int = setting(
        LIMIT_COUNT,
        "connections at a time; if there are more, the oldest one that has not logged in, or has sent nothing, makes "
        "room",
        BROKER_CONNECTIONS_MAX,
    )
    connections_max_per_address: int = setting(
        LIMIT_COUNT, "connections from one other machine; more are refused", BROKER_CONNECTIONS_MAX_PER_ADDRESS
    )
    connections_max_of_address: Sequence[str] = setting(
        ListOf(Parsed(ADDRESS_LIMIT, _address_limit_text), "a list of text"),
        "the same for single addresses, of HTTP too: `address=count`",
        (),
    )
    http_connections_max_per_address: int = setting(
        LIMIT_COUNT,
        "connections over HTTP from one other machine; more are answered for their health only",
        HTTP_CONNECTIONS_MAX_PER_ADDRESS,
    )
    frame_size_max: int = setting(LIMIT_SIZE, "bytes of one request", FRAME_SIZE_MAX)
    memory_size_max: int = setting(
        LIMIT_SIZE,
        "bytes that clients may make the broker hold in memory, all together; see [Memory](#memory)",
        BROKER_MEMORY_SIZE_MAX,
    )
    waiting_size_max: int = setting(
        LIMIT_SIZE, "bytes of requests of one connection that wait for an answer", BROKER_WAITING_SIZE_MAX
    )
    unsent_size_max: int = setting(
        LIMIT_SIZE,
        "bytes of answers that a client has not read, before it has to wait",
        BROKER_UNSENT_SIZE_MAX,
    )
    stalled_s_max: float = setting(
        LIMIT_SECONDS,
        "seconds until a request that does not come on, or an unread answer, ends its connection",
        BROKER_STALLED_S_MAX,
    )
    fetch_size_max: int = setting(LIMIT_SIZE, "bytes that a fetch answers with", FETCH_SIZE_MAX)
    fetch_wait_s_max: float = setting(LIMIT_SECONDS, "seconds that a fetch waits for messages", FETCH_WAIT_S_MAX)
    stop_s_max: float = setting(
        LIMIT_SECONDS, "seconds that a stop may take to answer what was accepted", BROKER_STOP_S_MAX
    )
    topics_max: int = setting(
        LIMIT_COUNT, "topics of the store; a client that would make more is refused", BROKER_TOPICS_MAX
    )
    partitions_max: int = setting(
        LIMIT_COUNT, "partitions of all topics; a client that would make more is refused", BROKER_PARTITIONS_MAX
    )

    @property
    def of_address(self) -> dict[str, int]:
        """Returns the limits of addresses that have their own."""
        return dict(map(address_limit, self.connections_max_of_address))


BROKER_LIMITS: Final = Table.of("key", BrokerLimits)
"""The keys of the section `limits` of the configuration."""
