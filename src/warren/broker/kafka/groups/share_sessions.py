"""The session of a share-group member: the partitions that it fetches, the messages that it has taken, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from warren.broker.kafka.errors import Code, code_of
from warren.broker.kafka.groups.limits import SHARE_TAKEN_FIRST, SHARE_TAKEN_MAX
from warren.errors import LeaseLost, NeedsMemory, WarrenError
from warren.message import Message
from warren.queue.leases.lease_check import Settlement
from warren.queue.leases.queue_group import QueueGroup
from warren.storage.read.messages import ScanRoom


class Acknowledge(IntEnum):
    """The verdict of a member on a message that it took, by Kafka's numbers."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class TakenPlace(NamedTuple):
    """The place of a message that a member took."""

    topic: str
    partition: int
    number: int


class Verdicts(NamedTuple):
    """Acknowledgements of messages of one partition; an error if the member has not taken them."""

    topic: str
    topic_id: bytes
    partition: int
    acknowledgements: Sequence[tuple[Message, Acknowledge]]
    error: Code


class LeasedMessage(NamedTuple):
    """A message without its body, which an acknowledgement does not need, and the time at which its lease ends."""

    message: Message
    until_s: float


@dataclass(slots=True, eq=False)
class ShareSession:
    """One session. For the event loop's thread alone. `epoch` is the epoch that the next request must have."""

    taken: dict[TakenPlace, LeasedMessage] = field(default_factory=dict)
    epoch: int = 0
    deadline_s: float = 0.0
    partitions: dict[bytes, set[int]] = field(default_factory=dict)
    """The partitions that are fetched, by topic id."""

    @property
    def messages(self) -> list[Message]:
        """Returns the messages that the member has."""
        return [lease.message for lease in self.taken.values()]

    def room(self, now_s: float) -> int:
        """Returns how many more messages the member may have. Forgets messages with expired leases."""
        if len(self.taken) > SHARE_TAKEN_MAX // 2:
            self.taken = {place: lease for place, lease in self.taken.items() if lease.until_s > now_s}
        return SHARE_TAKEN_MAX - len(self.taken)

    def change(self, added: Iterable[tuple[bytes, int]], forgotten: Iterable[tuple[bytes, int]]) -> None:
        """Adds and removes partitions to fetch from."""
        for topic_id, partition in added:
            self.partitions.setdefault(topic_id, set()).add(partition)
        for topic_id, partition in forgotten:
            self.partitions.get(topic_id, set()).discard(partition)

    def take(self, messages: Iterable[Message], until_s: float) -> None:
        """Records that the member has these messages until `until_s`."""
        for message in messages:
            place = TakenPlace(message.topic, message.partition, message.number)
            self.taken[place] = LeasedMessage(message._replace(body=b"", headers={}), until_s)

    def give_back(
        self, topic: str, partition: int, numbers: Iterable[tuple[int, int]]
    ) -> tuple[list[tuple[Message, Acknowledge]], Code]:
        """Returns the acknowledgements, and drops their messages; an error if the member did not have all of them."""
        acknowledgements, error = [], Code.NONE
        for number, kind in numbers:
            lease = self.taken.pop(TakenPlace(topic, partition, number), None)
            if kind not in Acknowledge.__members__.values():
                error = Code.INVALID_REQUEST
            elif lease is None:
                error = Code.INVALID_RECORD_STATE if kind != Acknowledge.GAP else error
            else:
                acknowledgements.append((lease.message, Acknowledge(kind)))
        return acknowledgements, error


# --- On a thread: it waits for the disk ---


class Settling:
    """The acknowledgements of members, while they are applied. If `run` raises NeedsMemory, another call continues."""

    def __init__(self, queues: Mapping[str, QueueGroup], verdicts: Sequence[Verdicts]) -> None:
        self._queues = queues
        self._verdicts = [(verdict, Settlement(verdict.acknowledgements)) for verdict in verdicts]
        self._codes: list[Code] = []

    def run(self) -> list[Code]:
        """Applies them. Returns one code for each partition."""
        for verdict, one_by_one in self._verdicts[len(self._codes) :]:
            self._codes.append(self._code_of(verdict, one_by_one))
        return self._codes

    def _code_of(self, verdict: Verdicts, one_by_one: Settlement[tuple[Message, Acknowledge]]) -> Code:
        queue = self._queues.get(verdict.topic)
        if queue is not None and verdict.acknowledgements:
            try:
                _settle(queue, verdict.acknowledgements, one_by_one)
            except NeedsMemory:
                raise
            except LeaseLost:
                return Code.INVALID_RECORD_STATE
            except WarrenError as failure:
                return code_of(failure)
        return verdict.error


def _settle(
    queue: QueueGroup,
    acknowledgements: Sequence[tuple[Message, Acknowledge]],
    one_by_one: Settlement[tuple[Message, Acknowledge]],
) -> None:
    def settle(acknowledgement: tuple[Message, Acknowledge]) -> None:
        message, kind = acknowledgement
        if kind is Acknowledge.RELEASE:
            queue.nack(message, delay=0)
        elif kind is Acknowledge.REJECT:
            queue.reject(message, "a consumer rejected it")

    finished = [message for message, kind in acknowledgements if kind in (Acknowledge.ACCEPT, Acknowledge.GAP)]
    lost: LeaseLost | None = None
    try:
        one_by_one.settle_rest(settle)
    except LeaseLost as error:
        lost = error
    if finished:
        queue.ack_many(finished)
    if lost is not None:
        raise lost


def release(queues: Mapping[str, QueueGroup], messages: Iterable[Message]) -> None:
    """Gives messages back, so that they can be taken again."""
    for message in messages:
        queue = queues.get(message.topic)
        if queue is not None:
            # Messages whose lease has expired are handed out again anyway.
            with suppress(WarrenError):
                queue.nack(message, delay=0)


def take(queue: QueueGroup, partitions: Set[int], count_max: int, size_max: int, room: ScanRoom) -> list[Message]:
    """Takes messages of these partitions, up to the count and size of the request, as far as `room` allows."""
    result: list[Message] = []
    size, count = 0, SHARE_TAKEN_FIRST
    while len(result) < count_max and size < size_max:
        count = min(count, count_max - len(result))
        try:
            messages = queue.take_within(count, room)
        except NeedsMemory:
            if count == 1 and not result:
                raise
            if result:
                break
            # They are large, and are taken one by one.
            count = 1
            continue
        if not messages:
            break
        for message in messages:
            if message.partition in partitions:
                result.append(message)
                size += len(message.body)
            else:
                queue.nack(message, delay=0)
        if not result:
            break
        # Takes no more messages than fit into the rest of the room, estimated by the size of those before.
        count = max(1, (size_max - size) * len(result) // max(1, size))
    return result
