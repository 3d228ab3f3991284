"""The values every layer speaks: a message as it was read, and the receipt of one that was put."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})
NO_CORR_OFFSET: Final = -1


class Message(NamedTuple):
    """One message as it lies in a log. `number` counts messages, `offset` bytes; `timestamp` is µs since the epoch.

    `offset` is that of the record that holds the message: messages put as one batch share it.
    `corr_offset` is the offset of the message that this one answers, −1 for none.
    """

    number: int
    offset: int
    partition: int
    topic: str
    timestamp: int
    id: str
    tag: str
    key: bytes | None
    headers: Mapping[str, bytes]
    corr_offset: int
    body: bytes
    attempt: int

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.timestamp / 1_000_000, UTC)


class Receipt(NamedTuple):
    """Where an appended message lies."""

    number: int
    offset: int
    timestamp: int
    id: str
