"""The user's view of a delayed message: a handle to cancel it by, and an entry of a list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from warren.clock import EPOCH
from warren.errors import BadInput
from warren.message import NO_CORR_OFFSET, Message

HORIZONS: Final = ("minute", "hour", "day", "month", "later")
"""Parked messages are grouped by how long they wait, so that a long wait keeps only similar messages on disk."""
CORR_OFFSET_HEADER: Final = "warren.corr-offset"
PARTITION_HEADER: Final = "warren.partition"
RESERVED: Final = frozenset((CORR_OFFSET_HEADER, PARTITION_HEADER))
"""Headers in which a parked message keeps its own fields, because the parked log uses these fields itself."""


class Cancels(Protocol):
    """The place where a message is parked, embedded or remote."""

    def cancel(self, handle_id: str) -> bool: ...


class Delayed:
    """A parked message. `id` is text by which any process can cancel it."""

    __slots__ = ("_place", "due_us", "horizon", "number")

    def __init__(self, place: Cancels, horizon: str, number: int, due_us: int) -> None:
        self._place, self.horizon, self.number, self.due_us = place, horizon, number, due_us

    @property
    def id(self) -> str:
        return handle_id(self.horizon, self.number, self.due_us)

    @property
    def due(self) -> datetime:
        """When the message is due, as an aware datetime in UTC."""
        return due_time(self.due_us)

    def cancel(self) -> bool:
        """Cancels it.

        Returns True if it will never be delivered, False if it was delivered or cancelled before, or is about to be.
        """
        return self._place.cancel(self.id)

    def __repr__(self) -> str:
        return f"<Delayed {self.id}, due {self.due.isoformat()}>"


class Scheduled(NamedTuple):
    """One parked message. `cancel` takes its `id`. `partition` is None if the key decides."""

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
    """Returns the fields of a message at its delivery: its headers, its own `corr_offset`, and its partition if it
    names one.
    """
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
    # The due time is part of the id because, if the topic does not sync, a power cut may give the number to another
    # message.
    return f"{horizon}-{number}-{due_us}"


def parse_handle_id(id: Any) -> tuple[str, int, int]:
    words = id.split("-") if isinstance(id, str) else []
    if len(words) != 3 or words[0] not in HORIZONS or not all(w.isascii() and w.isdigit() for w in words[1:]):
        raise BadInput(f"{id!r} is not the id of a delayed message")
    return words[0], int(words[1]), int(words[2])
