"""What a delayed message is to its user: a handle to cancel it by, an entry of a list, and itself when it is due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from warren.clock import EPOCH
from warren.errors import BadInput
from warren.message import NO_CORR_OFFSET, Message

HORIZONS: Final = ("minute", "hour", "day", "month", "later")
"""A message that waits for long keeps only those of a like horizon on disk, not all that came after it."""
CORR_OFFSET_HEADER: Final = "warren.corr-offset"
PARTITION_HEADER: Final = "warren.partition"
RESERVED: Final = frozenset((CORR_OFFSET_HEADER, PARTITION_HEADER))
"""Where a parked message keeps what its place in the parked log is needed for."""


class Cancels(Protocol):
    """Where a message is parked, here or behind a broker."""

    def cancel(self, handle_id: str) -> bool: ...


class Delayed:
    """A message that is parked. `id` is text by which any process can cancel it."""

    __slots__ = ("_place", "due_us", "horizon", "number")

    def __init__(self, place: Cancels, horizon: str, number: int, due_us: int) -> None:
        self._place, self.horizon, self.number, self.due_us = place, horizon, number, due_us

    @property
    def id(self) -> str:
        return handle_id(self.horizon, self.number, self.due_us)

    @property
    def due(self) -> datetime:
        """When it may be delivered, as an aware datetime in UTC."""
        return due_time(self.due_us)

    def cancel(self) -> bool:
        """True: it will never be delivered. False: it was delivered, or is about to be, or was cancelled before."""
        return self._place.cancel(self.id)

    def __repr__(self) -> str:
        return f"<Delayed {self.id}, due {self.due.isoformat()}>"


class Scheduled(NamedTuple):
    """One message that is parked. `id` is what `cancel` takes; `partition` is None where its key will decide."""

    id: str
    due: datetime
    key: bytes | None
    tag: str
    headers: Mapping[str, bytes]
    message_id: str
    corr_offset: int
    partition: int | None
    body: bytes


def delivered(message: Message) -> tuple[Mapping[str, bytes], int, int | None]:
    """What a parked message has when it is delivered: its headers, its own `corr_offset`, and an explicit partition."""
    headers = message.headers
    if RESERVED.isdisjoint(headers):
        return headers, NO_CORR_OFFSET, None
    partition = headers.get(PARTITION_HEADER)
    corr_offset = int(headers.get(CORR_OFFSET_HEADER, NO_CORR_OFFSET))
    own = {name: value for name, value in headers.items() if name not in RESERVED}
    return own, corr_offset, None if partition is None else int(partition)


def scheduled_entry(id: str, message: Message) -> Scheduled:
    headers, corr_offset, partition = delivered(message)
    return Scheduled(
        id,
        due_time(message.corr_offset),
        message.key,
        message.tag,
        headers,
        message.id,
        corr_offset,
        partition,
        message.body,
    )


def due_time(due_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=due_us)


def handle_id(horizon: str, number: int, due_us: int) -> str:
    # With the due time: after a power cut the number may be another message's, in a topic that does not sync.
    return f"{horizon}-{number}-{due_us}"


def parse_handle_id(id: Any) -> tuple[str, int, int]:
    words = id.split("-") if isinstance(id, str) else []
    if len(words) != 3 or words[0] not in HORIZONS or not all(w.isascii() and w.isdigit() for w in words[1:]):
        raise BadInput(f"{id!r} is not the id of a delayed message")
    return words[0], int(words[1]), int(words[2])
