"""HeldStream: a member of a stream group that a client has open at the broker."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.broker.native.sessions import HeldObject
from warren.broker.security.broker_view import HandleNames
from warren.errors import MessageTooLarge, NoSuchHandle
from warren.message import Message, named
from warren.protocol.native.records import carried
from warren.protocol.native_messages import WireMessages
from warren.queue.stream.stream_group import StreamGroup
from warren.storage.read.messages import ScanRoom

READS_REMEMBERED: Final = 16
"""How many reads of a member are remembered, so that a repeated one returns the same messages."""
ATTEMPTS_MAX: Final = 1024
"""How many reads of a member may be open at the same time. The oldest ones are ended."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt of a read. The client numbers its attempts."""

    number: int = 0


class HeldStream(HeldObject):
    """A member of a stream group that a client has open. Any thread may use it.

    Invariant: the messages of a read are remembered for a while by its serial. A repeated read returns the same
    messages, and ends an earlier attempt that still waits. An earlier attempt that comes later, from a connection that
    was cut, reads nothing. So no message is skipped that the client never received.
    """

    def __init__(self, group: StreamGroup) -> None:
        self.group = group
        self._reads: OrderedDict[int, list[Message]] = OrderedDict()
        """The first message of each partition that a read returned, without its body, by the serial of the read."""
        self._attempts: OrderedDict[int, Attempt] = OrderedDict()
        """The latest attempt of each read that the client may send again, by serial."""
        self._open_from = 0
        """The client sends no read before this serial again."""
        self._named: dict[int, int] = {}
        """The number of the message for which the client got MessageTooLarge, by partition."""
        self._mutex = threading.Lock()

    @property
    def names(self) -> HandleNames:
        return HandleNames(str(self.group.topic.name), self.group.name)

    def begin(self, serial: int, attempt: Attempt, open_from: int) -> None:
        """Makes this the only attempt of the read `serial` that may read.

        Raises NoSuchHandle if the client has sent a later attempt, or has ended the read.
        """
        with self._mutex:
            self._open_from = max(self._open_from, open_from)
            latest = self._attempts.get(serial, attempt)
            if serial < self._open_from or attempt.number < latest.number:
                raise NoSuchHandle(0)
            self._attempts[serial] = attempt
            for over in [each for each in self._attempts if each < self._open_from]:
                del self._attempts[over]
            while len(self._attempts) > ATTEMPTS_MAX:
                self._open_from = max(self._open_from, self._attempts.popitem(last=False)[0] + 1)
            messages_before = self._reads.pop(serial, None)
            if messages_before:
                # The answer was lost on its way.
                self.group.unread(messages_before)

    def read(self, serial: int, attempt: Attempt, limit: int, size_max: int, room: ScanRoom) -> WireMessages | None:
        """Returns messages of about `size_max` bytes, without a wait; None if the scan reached the end and found none.

        Raises NoSuchHandle if another attempt has replaced this one, and MessageTooLarge if the next message fits into
        no answer. An error moves no position: messages of an answer that cannot be built are read again.
        """
        with self._mutex:
            if self._attempts.get(serial) is not attempt:
                raise NoSuchHandle(0)
            messages = self.group.read_within(limit, size_max, room)
            try:
                sent, answered = self._carried(messages, size_max)
            except BaseException:
                self.group.unread(messages)
                raise
            if len(answered) < len(messages):
                places = {(message.partition, message.number) for message in answered}
                self.group.unread([each for each in messages if (each.partition, each.number) not in places])
            if answered:
                first = {message.partition: message.number for message in reversed(answered)}
                self._reads[serial] = [named(str(self.group.topic.name), *place, 0) for place in first.items()]
                while len(self._reads) > READS_REMEMBERED:
                    self._reads.popitem(last=False)
            return sent if answered else None

    def _carried(self, messages: Sequence[Message], size_max: int) -> tuple[WireMessages, list[Message]]:
        """Returns the messages that fit into the answer, encoded and as objects."""
        try:
            sent, count = carried(messages[: count_within(messages, size_max)])
            return sent, list(messages[:count])
        except MessageTooLarge as error:
            others = [message for message in messages if message.partition != error.partition]
            if not others or self._named.get(error.partition) != error.number:
                self._named[error.partition] = error.number
                raise
        # The client has received this error already, and has not moved on. The other partitions are still read.
        return self._carried(others, size_max)

    def close(self) -> None:
        self.group.close()


def count_within(messages: Sequence[Message], size_max: int) -> int:
    """Returns how many of the messages fit into `size_max` bytes together; at least the first one."""
    size = 0
    for count, message in enumerate(messages):
        size += len(message.body)
        if size > size_max and count:
            return count
    return len(messages)
