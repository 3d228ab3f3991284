"""Where a queue group gets messages that nobody had yet: by their numbers alone, or read ahead where it must look."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from warren.config import PARTITIONS_MAX
from warren.errors import CorruptRecord
from warren.message import Message
from warren.queue.key_order import key_hash
from warren.queue.leases import Leases
from warren.storage import Log
from warren.storage.read import ScanRoom
from warren.storage.tags import TagFilter

if TYPE_CHECKING:
    from warren.queue.topic import Topic

READ_AHEAD: Final = 256
READ_AHEAD_BYTES_MAX: Final = 4 << 20
PASSED_OVER_MAX: Final = 1000
"""How many messages may be passed over, because of the filter, before that is told to others."""
BEHIND_MAX: Final = 10_000
"""How many messages of an ordered group may wait for others of their key. At that many nothing new is looked at."""


class Offer(NamedTuple):
    """New messages of one partition to be handed out: in `spans` of a start and an end, and the `next` after them.

    In an ordered group those of `behind` have to wait, and `keys` are the hashes of keys by number. `messages` are
    those of the spans, where they had to be read to be chosen.
    """

    next: int
    spans: list[tuple[int, int]]
    behind: list[int]
    keys: list[tuple[int, int]]
    messages: list[Message]


class Supply(Protocol):
    """What offers new messages. `reach` is called before the ledger's lock is taken, the rest while it is held."""

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        """Be ready to offer `count` messages of each partition, as far as `room` allows to look for them."""
        ...

    def offer(self, leases: Leases, partition: int, room: int) -> Offer | None:
        """Up to `room` messages from the partition's `next` on; None where there is none."""
        ...

    def is_behind(self, leases: Leases) -> bool:
        """Whether others went on so far that it has to reach again before it can say what there is."""
        ...

    def ends(self, leases: Leases) -> list[tuple[Log, int]]:
        """The logs, each with the number whose coming may give something to offer."""
        ...


class Unread:
    """Every message is offered as it comes: nothing has to be read to know which."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        """Nothing is needed beforehand."""

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


class Ahead:
    """Messages of one partition that pass the filter: all there are from `start` up to `end`."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.messages: deque[Message] = deque()
        self.is_cut = False
        """Whether the room to look through was used up before all was found that was wanted."""

    def reach(self, log: Log, tag: TagFilter | None, number: int, count: int, room: ScanRoom) -> None:
        """Have `count` messages from `number` on, if there are so many and `room` suffices to find them."""
        if not self.start <= number <= self.end:
            self.start = self.end = number
            self.messages.clear()
        while self.messages and self.messages[0].number < number:
            self.messages.popleft()
        self.start, self.is_cut = number, False
        while len(self.messages) < count and self.end < log.end:
            if room.is_used_up:
                self.is_cut = True
                return
            position, limit = max(self.end, log.first), max(count, READ_AHEAD)
            # Without a filter a page ends with its messages: there is nothing to look through.
            scanned_max = None if tag is None else room.left
            try:
                page = log.page(position, tag, limit=limit, bytes_max=READ_AHEAD_BYTES_MAX, scanned_max=scanned_max)
            except CorruptRecord:
                # What stands before the damage is handed out, one by one; then it is told.
                if self.messages:
                    return
                page = log.page(position, tag, limit=1, scanned_max=scanned_max)
            room.use(page)
            self.messages += page.messages
            self.end = page.next_number


class Filtered:
    """Messages that pass a filter, or may have to wait for others of their key: read before they are offered.

    They are read without the lock, so that others need not wait while many are passed over. One thread at a time.
    """

    def __init__(self, topic: Topic, tag: str | None, *, ordered_by_key: bool) -> None:
        self._topic, self._is_ordered = topic, ordered_by_key
        self._tag = None if tag is None else TagFilter.parse(tag)
        self._ahead: dict[int, Ahead] = {}
        self._turn = itertools.count(random.randrange(PARTITIONS_MAX))
        """Each look begins with another partition, of a group that was opened for one look as well: one in which much
        is passed over must not use up the room of all the others, again and again."""

    def reach(self, nexts: Mapping[int, int], count: int, room: ScanRoom) -> None:
        logs, first = self._topic.logs, next(self._turn)
        for place in range(first, first + len(logs)):
            partition = place % len(logs)
            if partition in nexts:
                ahead = self._ahead.setdefault(partition, Ahead())
                ahead.reach(logs[partition], self._tag, nexts[partition], count, room)

    def offer(self, leases: Leases, partition: int, room: int) -> Offer | None:
        ahead, number = self._ahead.get(partition), leases.next[partition]
        if ahead is None or not ahead.start <= number <= ahead.end:
            return None
        messages = [message for message in ahead.messages if message.number >= number]
        offer = self._in_order(leases, partition, messages, room) if self._is_ordered else _all(messages, room)
        if offer.next < 0:
            offer = offer._replace(next=ahead.end)
        # What a look without enough room has passed over is told at once: the next look, by whatever process, goes on
        # behind it, and comes to the end of the log in the end.
        passed_over_max = 1 if ahead.is_cut else PASSED_OVER_MAX
        is_worth_telling = offer.spans or offer.behind or offer.next - number >= passed_over_max
        return offer if is_worth_telling else None

    def _in_order(self, leases: Leases, partition: int, messages: list[Message], room: int) -> Offer:
        known, mine = leases.keys[partition], set[int]()
        behind_room = BEHIND_MAX - leases.behind_count
        offer = Offer(-1, [], [], [], [])
        for message in messages:
            key = None if message.key is None else key_hash(message.key)
            is_free = key is None or not (known.has(key) or key in mine)
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


def _all(messages: list[Message], room: int) -> Offer:
    """The first of these messages, each of them free; `next` is -1 where that is all."""
    chosen = messages[:room]
    spans: list[tuple[int, int]] = []
    for message in chosen:
        number = message.number
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return Offer(messages[room].number if len(messages) > room else -1, spans, [], [], chosen)
