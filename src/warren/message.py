"""The values that every layer uses: a message as it was read, and the receipt of one that was put."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from warren.errors import BadInput

NO_HEADERS: Final[Mapping[str, bytes]] = MappingProxyType({})
NO_CORR_OFFSET: Final = -1


class Origin(str):
    """The name of a topic, with a reference to the topic for `Message.reply`."""

    __slots__ = ("__weakref__", "answer")
    answer: Callable[[Message, bytes], TopicReceipt]

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickles as a plain name, because the topic is not open in another process."""
        return str, (str(self),)


class Message(NamedTuple):
    """One message as it is in a log. `number` counts messages, `offset` bytes; `timestamp` is µs since the epoch.

    `offset` is that of the record that holds the message: messages that were put as one batch share it. `corr_offset`
    is the offset of the message that this one answers, −1 for none. `attempt` counts how often a queue group has handed
    the message out; 0 if it was read in another way.
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
        """Pickles the headers as a plain dict, because the original mapping cannot be pickled."""
        return type(self), tuple(self._replace(headers=dict(self.headers)))

    def reply(self, body: bytes) -> TopicReceipt:
        """Answers a message that was sent with `request`, and returns the receipt of the answer.

        Raises BadInput if the message expects no answer, or did not come from an open store.
        """
        if not isinstance(self.topic, Origin):
            raise BadInput("only a message that was read from a topic of an open store can be answered")
        return self.topic.answer(self, body)


def named(topic: str, partition: int, number: int, attempt: int) -> Message:
    """Returns a message without its content. Its place is enough for a group to identify it."""
    return Message(number, 0, partition, topic, 0, "", "", None, NO_HEADERS, NO_CORR_OFFSET, b"", attempt)


class TopicReceipt(NamedTuple):
    """The place of a message that was put to a topic."""

    topic: str
    partition: int
    number: int
    offset: int
    timestamp: int
    id: str


class Edge(enum.Enum):
    """An end of a partition, for a reader that has no number: the first message, or the end after the last one."""

    START = "start"
    END = "end"


START: Final = Edge.START
END: Final = Edge.END


class Place(NamedTuple):
    """The partition and number of one message of a batch."""

    partition: int
    number: int


class Receipt(NamedTuple):
    """The place of an appended message."""

    number: int
    offset: int
    timestamp: int
    id: str
