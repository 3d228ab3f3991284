"""What a broker takes at most, of everything."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from warren.config import (
    BROKER_CONNECTIONS_MAX,
    BROKER_CONNECTIONS_MAX_PER_ADDRESS,
    BROKER_MEMORY_SIZE_MAX,
    BROKER_PARTITIONS_MAX,
    BROKER_STALLED_S_MAX,
    BROKER_STOP_S_MAX,
    BROKER_TOPICS_MAX,
    BROKER_UNSENT_SIZE_MAX,
    BROKER_WAITING_SIZE_MAX,
    FETCH_SIZE_MAX,
    FETCH_WAIT_S_MAX,
    FRAME_SIZE_MAX,
    HTTP_CONNECTIONS_MAX_PER_ADDRESS,
)
from warren.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes, waits in seconds. `waiting` is what one connection sent and is not answered yet."""

    connections_max: int = BROKER_CONNECTIONS_MAX
    connections_max_per_address: int = BROKER_CONNECTIONS_MAX_PER_ADDRESS
    connections_max_of_address: tuple[str, ...] = ()
    http_connections_max_per_address: int = HTTP_CONNECTIONS_MAX_PER_ADDRESS
    frame_size_max: int = FRAME_SIZE_MAX
    memory_size_max: int = BROKER_MEMORY_SIZE_MAX
    waiting_size_max: int = BROKER_WAITING_SIZE_MAX
    unsent_size_max: int = BROKER_UNSENT_SIZE_MAX
    stalled_s_max: float = BROKER_STALLED_S_MAX
    fetch_size_max: int = FETCH_SIZE_MAX
    fetch_wait_s_max: float = FETCH_WAIT_S_MAX
    stop_s_max: float = BROKER_STOP_S_MAX
    topics_max: int = BROKER_TOPICS_MAX
    partitions_max: int = BROKER_PARTITIONS_MAX

    @property
    def of_address(self) -> dict[str, int]:
        """The limits of addresses that have one of their own; BadInput if a word is not `address=count`."""
        found = {}
        for word in self.connections_max_of_address:
            address, _, count = word.rpartition("=")
            try:
                found[str(ipaddress.ip_address(address))] = int(count)
            except ValueError:
                raise BadInput(f"expected an address and a count, as in 10.0.0.7=500, not {word!r}") from None
        return found
