"""The values every layer speaks: a message as it was read, and the receipt of one that was put."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.errors import BadInput

NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})
NO_CORR_OFFSET: Final = -1


class Origin(str):
    """The name of a topic that knows the way back to it, for those who answer a message."""

    __slots__ = ("__weakref__", "answer")
    answer: Callable[[Message, bytes], TopicReceipt]

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """In another process it is a name and no more."""
        return str, (str(self),)


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

    def __reduce__(self) -> tuple[type[Message], tuple[object, ...]]:
        """For other processes: with headers that can be pickled."""
        return type(self), tuple(self._replace(headers=dict(self.headers)))

    def reply(self, body: bytes) -> TopicReceipt:
        """Answer a message that was sent with `request`; the receipt of the answer.

        BadInput where nobody waits for an answer, or the message did not come from an open store.
        """
        if not isinstance(self.topic, Origin):
            raise BadInput("only a message that was read from a topic of an open store can be answered")
        return self.topic.answer(self, body)


def named(topic: str, partition: int, number: int, attempt: int) -> Message:
    """A message without its content: as much as a group needs to know which one is meant."""
    return Message(number, 0, partition, topic, 0, "", "", None, NO_HEADERS, NO_CORR_OFFSET, b"", attempt)


class TopicReceipt(NamedTuple):
    """Where a message that was put to a topic lies."""

    topic: str
    partition: int
    number: int
    offset: int
    timestamp: int
    id: str


class Place(NamedTuple):
    """The partition and number of one message of a batch."""

    partition: int
    number: int


class Receipt(NamedTuple):
    """Where an appended message lies."""

    number: int
    offset: int
    timestamp: int
    id: str
