"""Chooses the messages that a take of a queue group hands out: first those that were handed out
before, then new ones.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Final, NamedTuple

from warren.clock import steady_us
from warren.errors import CorruptRecord, NumberRetired
from warren.message import Message
from warren.queue.leases.dead_letters import BURIAL_COUNT_MAX, Failure
from warren.queue.leases.lease_state import FREED, LEASED, WAITING, Leases, spans_of
from warren.queue.leases.unread import FilteredSupply, Offer, Supply, UnreadSupply
from warren.queue.state.group_settings import GroupSettings, start_number
from warren.queue.state.ledger import Ledger, LedgerEvent
from warren.queue.state.topic_view import TopicView
from warren.storage import Log
from warren.storage.format.allowance import check_together, is_limited, returned_if_refused, together_size_max
from warren.storage.read.messages import ScanRoom

IN_FLIGHT_MAX: Final = 100_000
"""How many messages of a group may be outstanding.

At this limit `take` returns only messages that were handed out before.
"""
REASONS: Final = {LEASED: "its lease ran out", FREED: "its process died", WAITING: "it was given back"}
"""Why a message failed for the last time, if the worker gave no reason."""

LeasedRange = tuple[int, int, int, int]
"""A partition, a start and an end, and the attempt."""


class Choice(NamedTuple):
    """The result of one take: numbers that are yet to be read, and messages that were read already.

    If `is_over`, there is nothing to take until one of the logs reaches the number that is listed with it, or until
    `earliest_us`.
    """

    taken: list[LeasedRange]
    messages: list[Message]
    failed: list[Failure]
    is_over: bool
    ends: list[tuple[Log, int]]
    earliest_us: int | None


class MessageChooser:
    """Chooses messages and leases them to this session, with one event of the ledger. Any thread may call."""

    def __init__(self, topic: TopicView, name: str, settings: GroupSettings, ledger: Ledger, leases: Leases) -> None:
        self._topic, self._name, self._settings = topic, name, settings
        self._ledger, self._leases = ledger, leases
        self._lease_us = round(settings.lease_s * 1_000_000)
        self.supply: Supply = UnreadSupply(topic)
        if settings.tag is not None or settings.ordered_by_key:
            self.supply = FilteredSupply(topic, settings.tag, ordered_by_key=settings.ordered_by_key)
        self._mutex = threading.Lock()
        self._turn = itertools.count()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    # --- Where the group stands ---

    def begin(self) -> bool:
        """Gives the group a position and a reader in every partition. The reader protects unread messages from
        retention.

        Called within `changing`. Returns whether a partition had no position.
        """
        leases, start = self._leases, self._settings.start
        if len(leases.next) > self._topic.partition_count:
            # Another process may have added partitions, and messages of these may be given back.
            self._topic.see_partitions()
        logs = {number: log for number, log in enumerate(self._topic.logs) if number not in leases.next}
        if not logs:
            return False
        if leases.next and start == "end":
            # A partition that was added after the group began is read from its first message on.
            start = "start"
        numbers = [(number, start_number(log, start)) for number, log in logs.items()]
        for number, first in numbers:
            reader = logs[number].reader(self._name)
            reader.seek(first)
            reader.commit()
        self._ledger.add("begin", {"next": numbers})
        return True

    def look_for_restart(self) -> None:
        """Adds an event to the ledger if the machine was restarted: the leases then use another steady clock."""
        leases, boot, clock = self._leases, self._topic.filesystem.boot_id().hex(), self._topic.clock
        if boot != leases.boot or not leases.gap_us:
            event = {"boot": boot, "ends": [], "at": clock.now_ns() // 1000, "steady": steady_us(clock)}
            self._ledger.add("boot", event)

    def look_for_loss(self) -> None:
        """Adds an event to the ledger if a crash may have lost messages that were handed out.

        New messages then get the numbers of the lost ones. Each log records when it was last recovered. If that was
        after the group's last check, messages may be lost. No message later than the last take was handed out. With
        durability `commit` nothing is ever lost.
        """
        leases, logs = self._leases, self._topic.logs
        recovered = " ".join(str(log.recovered_us) for log in logs)
        if self._topic.store.is_replicated:
            # Another master may have a shorter log, in which nothing was recovered.
            recovered = f"{recovered} {self._topic.store.life}"
        if recovered == leases.recovered:
            return
        ends: list[tuple[int, int]] = []
        if leases.taken_us and not self._topic.loses_nothing:
            time_ends = [(partition, log.find_time(leases.taken_us + 1)) for partition, log in enumerate(logs)]
            ends = [(partition, end) for partition, end in time_ends if end < leases.next[partition]]
        self._ledger.add("recovered", {"recovered": recovered, "ends": ends})

    # --- Choosing ---

    def choose(self, count: int, room: ScanRoom) -> Choice:
        """Leases up to `count` messages.

        Searches for new ones no further than `room` allows.
        """
        with self._mutex:
            self.supply.reach(dict(self._leases.next), count, room)
            try:
                with self._ledger.changing():
                    return self._choose(count, steady_us(self._topic.clock))
            except BaseException:
                # Messages that were removed from the order were not handed out.
                self._leases.reorder()
                raise

    def _choose(self, count: int, now_us: int) -> Choice:
        """Does what `choose` says, under the ledger's lock: first messages that come back, then new ones."""
        leases, partition_count = self._leases, self._topic.partition_count
        if len(leases.next) != partition_count:
            self.begin()
        again: list[LeasedRange] = []
        failed: list[Failure] = []
        left, attempts_max = count, self._settings.attempts_max
        # Messages that come back. Those that have failed too often become dead letters instead.
        while len(failed) < BURIAL_COUNT_MAX and left > 0 and (runs := leases.pop_due(now_us, left)):
            for _, partition, start, end, lease in runs:
                if 0 < attempts_max <= lease.attempt:
                    reason = REASONS[lease.kind]
                    failed += [Failure(partition, number, lease, reason) for number in range(start, end)]
                else:
                    again.append((partition, start, end, lease.attempt + 1))
                    left -= end - start
        room = min(left, IN_FLIGHT_MAX - leases.count)
        offers: list[tuple[int, Offer]] = []
        # New messages from one partition after the other. Each take begins with another partition.
        first = next(self._turn)
        for place in range(first, first + partition_count):
            if room <= 0:
                break
            partition = place % partition_count
            offer = self.supply.offer(leases, partition, room)
            if offer is not None:
                offers.append((partition, offer))
                room -= sum(end - start for start, end in offer.spans)
        if again or offers:
            self._ledger.add("take", self._event(now_us, again, offers))
            new = [(partition, *span, 1) for partition, offer in offers if not offer.messages for span in offer.spans]
            messages = [message for _, offer in offers for message in offer.messages]
            return Choice(again + new, with_attempt(messages, 1) if messages else [], failed, False, [], None)
        is_over = not failed and not self.supply.is_behind(leases)
        has_room = leases.count < IN_FLIGHT_MAX
        ends = self.supply.ends(leases) if is_over and has_room else []
        return Choice(
            [], [], failed, is_over, [*ends, (self._ledger.log, self._ledger.next_number)], leases.earliest_us()
        )

    def _event(self, now_us: int, again: list[LeasedRange], offers: list[tuple[int, Offer]]) -> LedgerEvent:
        event: LedgerEvent = {
            "owner": self._topic.store.session.id,
            "at": self._topic.clock.now_ns() // 1000,
            "steady": now_us,
            "until": now_us + self._lease_us,
            "new": [(partition, offer.next, offer.spans) for partition, offer in offers],
            "again": again,
        }
        keys = [(partition, *pair) for partition, offer in offers for pair in offer.keys]
        if keys:
            event["keys"] = keys
            event["behind"] = [(partition, number) for partition, offer in offers for number in offer.behind]
        return event

    def forget_ahead(self) -> None:
        """Drops the messages that were read before they are taken. Waits for a running choice."""
        with self._mutex:
            self.supply.forget()

    # --- Reading what was chosen ---

    def read(self, chosen: Choice) -> list[Message]:
        """Reads the messages. Messages that were retired in the meantime are done, and omitted."""
        messages: list[Message] = []
        size, is_counted = 0, is_limited()
        with returned_if_refused():
            for partition, start, end, attempt in chosen.taken:
                try:
                    for page in self._pages(partition, start, end):
                        messages += with_attempt(page, attempt)
                        if is_counted:
                            # They may be much larger than those before, by which the caller estimated their number.
                            size += sum(len(message.body) for message in page)
                            check_together(size, len(messages))
                except CorruptRecord:
                    # The caller gets the messages that can be read. A later take meets the damage again and raises the
                    # error.
                    if not messages and not chosen.messages:
                        raise
        return messages + chosen.messages if chosen.messages else messages

    def _pages(self, partition: int, start: int, end: int) -> Iterator[list[Message]]:
        """Yields the messages from `start` up to `end`, as many at a time as the thread may read."""
        log, is_first = self._topic.logs[partition], True
        while start < end:
            page: list[Message] = []
            try:
                page, stop, following = _page(log, start, end)
            except NumberRetired as error:
                stop = following = min(error.first, end)
            except CorruptRecord:
                readable = _readable(log, start, end)
                if is_first and not readable:
                    raise
                yield readable
                return
            if page:
                is_first = False
                yield page
            if len(page) < stop - start:
                # Retired, or in a batch that cannot be read. They are done, so that no worker waits for them.
                gone = set(range(start, stop)).difference(message.number for message in page)
                with self._ledger.changing():
                    self._ledger.add("done", {"spans": spans_of((partition, number) for number in gone)})
                    self._pass_over(partition, stop, following)
            start = stop

    def _pass_over(self, partition: int, start: int, end: int) -> None:
        """Skips the numbers from `start` up to `end`, which cannot be read, in one step. A batch may have a million."""
        if start <= self._leases.next[partition] < end:
            now_us = steady_us(self._topic.clock)
            self._ledger.add("take", self._event(now_us, [], [(partition, Offer(end, [], [], [], []))]))


def _page(log: Log, start: int, end: int) -> tuple[list[Message], int, int]:
    """Returns messages from `start` up to `end`, the number to continue from, and the next number that can be read.

    Missing numbers before the number to continue from cannot be read.
    """
    if end - start == 1 and (message := log.at(start)) is not None:
        return [message], end, end
    page = log.page(start, None, limit=end - start, bytes_max=together_size_max())
    if page.next_number <= start:
        # A power cut may lose messages that were handed out.
        return [], end, end
    if page.next_number <= end:
        return page.messages, page.next_number, page.next_number
    inside = [message for message in page.messages if message.number < end]
    behind = page.messages[len(inside) :]
    return inside, end, behind[0].number if behind else page.next_number


def _readable(log: Log, start: int, end: int) -> list[Message]:
    """Returns the messages from `start` up to `end` that are not damaged."""
    messages: list[Message] = []
    for number in range(start, end):
        with suppress(CorruptRecord, NumberRetired):
            message = log.at(number)
            messages += [] if message is None else [message]
    return messages


def with_attempt(messages: Sequence[Message], attempt: int) -> list[Message]:
    """Returns the messages with this attempt."""
    # By columns, because `_replace` takes ten times as long, and every message that is taken passes through here.
    columns = list(zip(*messages, strict=True))[:-1]
    return list(map(tuple.__new__, repeat(Message), zip(*columns, repeat(attempt, len(messages)), strict=True)))
