"""Supplies a queue group with new messages: by number alone, or read ahead if a filter or key order needs it."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from warren.errors import CorruptRecord
from warren.limits import PARTITIONS_MAX
from warren.message import Message
from warren.queue.leases.key_order import key_hash
from warren.queue.leases.lease_state import Leases
from warren.queue.state.topic_view import TopicView
from warren.storage import Log
from warren.storage.format.allowance import together_size_max
from warren.storage.format.tags import TagFilter
from warren.storage.read.messages import ScanRoom

READ_AHEAD: Final = 256
READ_AHEAD_BYTES_MAX: Final = 4 << 20
MESSAGE_SIZE: Final = 400
"""About how many bytes a message takes in memory in addition to its body."""
PASSED_OVER_MAX: Final = 1000
"""How many messages the filter may skip before the ledger is updated for other processes."""
BEHIND_MAX: Final = 10_000
"""How many messages of an ordered group may wait for others of their key. At this limit no new ones are read."""


class Offer(NamedTuple):
    """New messages of one partition to hand out. `spans` are pairs of a start and an end; `next` is the number after
    them.

    In an ordered group the messages in `behind` have to wait, and `keys` holds the hashes of keys by number. `messages`
    are the messages of the spans, if they had to be read to be chosen.
    """

    next: int
    spans: list[tuple[int, int]]
    behind: list[int]
    keys: list[tuple[int, int]]
    messages: list[Message]


class Supply(Protocol):
    """A source of new messages.

    `reach` is called before the ledger's lock is taken, `offer`, `is_behind` and `ends` while it is held.
    """

    @property
    def size(self) -> int:
        """Returns about how many bytes of messages it has in memory. Any thread may ask."""
        ...

    def forget(self) -> None:
        """Drops these messages. They are read again when they are needed."""
        ...

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        """Prepares to offer `count` messages of each partition. The search for them uses at most `room`."""
        ...

    def offer(self, leases: Leases, partition: int, room: int) -> Offer | None:
        """Returns up to `room` messages from the partition's `next` on, or None if there are none."""
        ...

    def is_behind(self, leases: Leases) -> bool:
        """Returns whether other processes have moved further, so that `reach` has to be called again."""
        ...

    def ends(self, leases: Leases) -> list[tuple[Log, int]]:
        """Returns the logs, each with the number at which there may be new messages to offer."""
        ...


class UnreadSupply:
    """Offers every message. Only numbers are needed, so nothing is read."""

    def __init__(self, topic: TopicView) -> None:
        self._topic = topic

    @property
    def size(self) -> int:
        return 0

    def forget(self) -> None:
        """Does nothing: there are no messages."""

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        """Does nothing: no preparation is needed."""

    def offer(self, leases: Leases, partition: int, room: int) -> Offer | None:
        log = self._topic.logs[partition]
        start, end = leases.next[partition], log.end
        if start >= end:
            return None
        start = max(start, log.first)
        end = min(start + room, end)
        return Offer(end, [(start, end)], [], [], [])

    def is_behind(self, leases: Leases) -> bool:
        return False

    def ends(self, leases: Leases) -> list[tuple[Log, int]]:
        return [(log, leases.next[partition]) for partition, log in enumerate(self._topic.logs)]


class ReadAhead:
    """The messages of one partition from `start` up to `end` that pass the filter."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.messages: deque[Message] = deque()
        self.size = 0
        """About how many bytes the messages take in memory."""
        self.is_cut = False
        """Whether `room` was used up before enough messages were found."""

    def reach(
        self, log: Log, tag: TagFilter | None, number: int, count: int, room: ScanRoom, size_max: int | None = None
    ) -> None:
        """Reads until there are `count` messages from `number` on, the log ends, or `room` is used up.

        Stops before that when there is a message, and they take `size_max` bytes.
        """
        if not self.start <= number <= self.end:
            self.forget()
            self.end = number
        while self.messages and self.messages[0].number < number:
            self.size -= _size_of(self.messages.popleft())
        self.start, self.is_cut = number, False
        bytes_max = READ_AHEAD_BYTES_MAX if size_max is None else min(size_max, READ_AHEAD_BYTES_MAX)
        while len(self.messages) < count and self.end < log.end:
            if self.messages and size_max is not None and self.size >= size_max:
                return
            if room.is_used_up:
                self.is_cut = True
                return
            position, limit = max(self.end, log.first), max(count, READ_AHEAD)
            # Without a filter a page ends with its messages, so there is nothing to scan.
            scanned_max = None if tag is None else room.left
            try:
                page = log.page(position, tag, limit=limit, bytes_max=bytes_max, scanned_max=scanned_max)
            except CorruptRecord:
                # The messages before the damage are handed out one by one. Then the error is raised.
                if self.messages:
                    return
                page = log.page(position, tag, limit=1, scanned_max=scanned_max)
            room.use(page)
            self.messages += page.messages
            self.size += sum(map(_size_of, page.messages))
            self.end = page.next_number

    def forget(self) -> None:
        """Drops the messages, and keeps how many before the first of them the filter has skipped."""
        if self.messages:
            self.end = self.messages[0].number
            self.messages.clear()
        self.size = 0


class FilteredSupply:
    """Messages that pass a filter, or may have to wait for others of their key. They are read before they are offered.

    They are read without the ledger's lock, so that other workers need not wait while many messages are skipped. One
    thread at a time.
    """

    def __init__(self, topic: TopicView, tag: str | None, *, ordered_by_key: bool) -> None:
        self._topic, self._is_ordered = topic, ordered_by_key
        self._tag = None if tag is None else TagFilter.parse(tag)
        self._ahead: dict[int, ReadAhead] = {}
        self._turn = itertools.count(random.randrange(PARTITIONS_MAX))
        """Each call begins with another partition, also in a group object that is opened for a single call.

        Otherwise a partition in which the filter skips many messages would use up the room of all others every time.
        """

    @property
    def size(self) -> int:
        # A copy, because another thread may add a partition at the moment.
        return sum(ahead.size for ahead in list(self._ahead.values()))

    def forget(self) -> None:
        for ahead in self._ahead.values():
            ahead.forget()

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        logs, first = self._topic.logs, next(self._turn)
        together = together_size_max()
        # A broker bounds all partitions together. Each gets a part, so that none waits for the messages of another.
        size_max = None if together is None else together // len(logs)
        for place in range(first, first + len(logs)):
            partition = place % len(logs)
            if partition in nexts:
                ahead = self._ahead.setdefault(partition, ReadAhead())
                ahead.reach(logs[partition], self._tag, nexts[partition], count, room, size_max)

    def offer(self, leases: Leases, partition: int, room: int) -> Offer | None:
        ahead, number = self._ahead.get(partition), leases.next[partition]
        if ahead is None or not ahead.start <= number <= ahead.end:
            return None
        messages = [message for message in ahead.messages if message.number >= number]
        offer = self._in_order(leases, partition, messages, room) if self._is_ordered else _all(messages, room)
        if offer.next < 0:
            offer = offer._replace(next=ahead.end)
        # If `room` was used up, the skipped messages go to the ledger immediately. The next call, in any process, then
        # continues from there and reaches the end of the log in the end.
        passed_over_max = 1 if ahead.is_cut else PASSED_OVER_MAX
        is_worth_telling = offer.spans or offer.behind or offer.next - number >= passed_over_max
        return offer if is_worth_telling else None

    def _in_order(self, leases: Leases, partition: int, messages: list[Message], room: int) -> Offer:
        order, mine = leases.keys[partition], set[int]()
        behind_room = BEHIND_MAX - leases.behind_count
        offer = Offer(-1, [], [], [], [])
        for message in messages:
            key = None if message.key is None else key_hash(message.key)
            is_free = key is None or not (order.has(key) or key in mine)
            if len(offer.messages) == room or (not is_free and len(offer.behind) >= behind_room):
                return offer._replace(next=message.number)
            if key is not None:
                mine.add(key)
                offer.keys.append((message.number, key))
            if is_free:
                offer.spans.append((message.number, message.number + 1))
                offer.messages.append(message)
            else:
                offer.behind.append(message.number)
        return offer

    def is_behind(self, leases: Leases) -> bool:
        return any(
            (ahead := self._ahead.get(partition)) is None or not ahead.start <= number <= ahead.end
            for partition, number in leases.next.items()
        )

    def ends(self, leases: Leases) -> list[tuple[Log, int]]:
        if self._is_ordered and leases.behind_count >= BEHIND_MAX:
            return []
        return [(log, self._ahead[partition].end) for partition, log in enumerate(self._topic.logs)]


def _size_of(message: Message) -> int:
    return MESSAGE_SIZE + len(message.body)


def _all(messages: list[Message], room: int) -> Offer:
    """Returns the first of these messages, none of which has to wait. `next` is -1 if these are all."""
    chosen = messages[:room]
    spans: list[tuple[int, int]] = []
    for message in chosen:
        number = message.number
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return Offer(messages[room].number if len(messages) > room else -1, spans, [], [], chosen)
