"""What a take of a queue group hands out: first what comes back, then what nobody had yet."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.clock import steady_us
from warren.errors import CorruptRecord, NumberRetired
from warren.message import Message
from warren.queue.dead_letter import BURIAL_COUNT_MAX, Failed
from warren.queue.group_settings import GroupSettings
from warren.queue.lease_order import Run
from warren.queue.leases import FREED, LEASED, WAITING, Leases
from warren.queue.ledger import Event, Ledger
from warren.queue.spans import spans_of
from warren.queue.supply import Filtered, Offer, Supply, Unread
from warren.storage import Log
from warren.storage.read import ScanRoom

if TYPE_CHECKING:
    from warren.queue.topic import Topic

IN_FLIGHT_MAX: Final = 100_000
"""How many messages of a group may be outstanding. At that many `take` gives only what comes back."""
REASONS: Final = {LEASED: "its lease ran out", FREED: "its process died", WAITING: "it was given back"}
"""Why a message failed for the last time, if nobody said more."""

Taken = tuple[int, int, int, int]
"""A partition, a start and an end, and which attempt it is."""


class Chosen(NamedTuple):
    """What one take hands out: numbers that are yet to be read, and messages that are read already.

    Where it `is_over`, there is nothing to be had until one of the logs has the number beside it, or `earliest_us`.
    """

    taken: list[Taken]
    messages: list[Message]
    failed: list[Failed]
    is_over: bool
    ends: list[tuple[Log, int]]
    earliest_us: int | None


class Taking:
    """Chooses messages and leases them to this session, with one event of the ledger. Any thread may call."""

    def __init__(self, topic: Topic, name: str, settings: GroupSettings, ledger: Ledger, leases: Leases) -> None:
        self._topic, self._name, self._settings = topic, name, settings
        self._ledger, self._leases = ledger, leases
        self._lease_us = round(settings.lease_s * 1_000_000)
        self._supply: Supply = Unread(topic)
        if settings.tag is not None or settings.ordered_by_key:
            self._supply = Filtered(topic, settings.tag, ordered_by_key=settings.ordered_by_key)
        self._mutex = threading.Lock()
        self._turn = itertools.count()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    # --- Where the group stands ---

    def begin(self) -> bool:
        """Stand somewhere in every partition, with a reader that keeps what is not consumed from being retired.

        Within `changing`. Whether there was a partition without.
        """
        leases, start = self._leases, self._settings.start
        if len(leases.next) > self._topic.partition_count:
            # Another process has added some, and what it handed out of them may come back to us.
            self._topic.see_partitions()
        logs = {number: log for number, log in enumerate(self._topic.logs) if number not in leases.next}
        if not logs:
            return False
        if leases.next and start == "end":
            # A partition that was added since the group began is read from its first message on.
            start = "start"
        numbers = [(number, _start_number(log, start)) for number, log in logs.items()]
        for number, first in numbers:
            reader = logs[number].reader(self._name)
            reader.seek(first)
            reader.commit()
        self._ledger.add("begin", {"next": numbers})
        return True

    def look_for_restart(self) -> None:
        """Tells the ledger if the machine was started anew since the group was used: its leases go by another clock."""
        leases, boot, clock = self._leases, self._topic.filesystem.boot_id().hex(), self._topic.clock
        if boot != leases.boot or not leases.gap_us:
            event = {"boot": boot, "ends": [], "at": clock.now_ns() // 1000, "steady": steady_us(clock)}
            self._ledger.add("boot", event)

    def look_for_loss(self) -> None:
        """A topic may lose, in a crash, messages that were handed out already: what takes their place is new.

        Each log tells when it was last recovered; if one was since the group looked, messages may be lost. Whatever
        came later than the last take was not handed out. With durability `commit` nothing is ever lost.
        """
        leases, logs = self._leases, self._topic.logs
        recovered = " ".join(str(log.recovered_us) for log in logs)
        if recovered == leases.recovered:
            return
        ends: list[tuple[int, int]] = []
        if leases.taken_us and self._topic.settings.durability != "commit":
            found = [(partition, log.find_time(leases.taken_us + 1)) for partition, log in enumerate(logs)]
            ends = [(partition, end) for partition, end in found if end < leases.next[partition]]
        self._ledger.add("recovered", {"recovered": recovered, "ends": ends})

    # --- Choosing ---

    def choose(self, count: int, room: ScanRoom) -> Chosen:
        """Lease up to `count` messages; they are on their way to the caller alone.

        Looks for new ones no further than `room` allows.
        """
        with self._mutex:
            self._supply.reach(dict(self._leases.next), count, room)
            try:
                with self._ledger.changing():
                    return self._choose(count, steady_us(self._topic.clock))
            except BaseException:
                # What was taken out of the order to be handed out was not.
                self._leases.reorder()
                raise

    def _choose(self, count: int, now_us: int) -> Chosen:
        leases = self._leases
        self.begin()
        runs, failed = self._due(now_us, count)
        again = [(run.partition, run.start, run.end, run.lease.attempt + 1) for run in runs]
        room = count - sum(end - start for _, start, end, _ in again)
        offers = self._offers(min(room, IN_FLIGHT_MAX - leases.count))
        if again or offers:
            self._ledger.add("take", self._event(now_us, again, offers))
            new = [(partition, *span, 1) for partition, offer in offers if not offer.messages for span in offer.spans]
            messages = [message for _, offer in offers for message in offer.messages]
            return Chosen(again + new, with_attempt(messages, 1), failed, False, [], None)
        is_over = not failed and not self._supply.is_behind(leases)
        has_room = leases.count < IN_FLIGHT_MAX
        ends = self._supply.ends(leases) if is_over and has_room else []
        return Chosen([], [], failed, is_over, [*ends, (self._ledger.log, self._ledger.seen)], leases.earliest_us())

    def _due(self, now_us: int, count: int) -> tuple[list[Run], list[Failed]]:
        """What is to be handed out again, and what has failed too often for that."""
        attempts_max = self._settings.attempts_max
        runs: list[Run] = []
        failed: list[Failed] = []
        while len(failed) < BURIAL_COUNT_MAX and count > 0 and (found := self._leases.pop_due(now_us, count)):
            for run in found:
                if 0 < attempts_max <= run.lease.attempt:
                    reason = REASONS[run.lease.kind]
                    failed += [Failed(run.partition, number, run.lease, reason) for number in range(run.start, run.end)]
                else:
                    runs.append(run)
                    count -= run.end - run.start
        return runs, failed

    def _offers(self, room: int) -> list[tuple[int, Offer]]:
        """New messages, from one partition after the other; each take begins with another one."""
        offers: list[tuple[int, Offer]] = []
        partition_count = self._topic.partition_count
        first = next(self._turn)
        for place in range(first, first + partition_count):
            if room <= 0:
                break
            partition = place % partition_count
            offer = self._supply.offer(self._leases, partition, room)
            if offer is not None:
                offers.append((partition, offer))
                room -= sum(end - start for start, end in offer.spans)
        return offers

    def _event(self, now_us: int, again: list[Taken], offers: list[tuple[int, Offer]]) -> Event:
        event: Event = {
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

    # --- Reading what was chosen ---

    def read(self, chosen: Chosen) -> list[Message]:
        """The messages. Those that were retired meanwhile are done with, and left out."""
        messages: list[Message] = []
        for partition, start, end, attempt in chosen.taken:
            try:
                messages += with_attempt(self._read_span(partition, start, end), attempt)
            except CorruptRecord:
                # What can be read is not kept from whoever took it; the damage is told when it is met again.
                if not messages and not chosen.messages:
                    raise
        return messages + chosen.messages if chosen.messages else messages

    def _read_span(self, partition: int, start: int, end: int) -> list[Message]:
        log = self._topic.logs[partition]
        messages: list[Message] = []
        while start < end:
            found: list[Message] = []
            try:
                found, stop, following = _page(log, start, end)
            except NumberRetired as error:
                stop = following = min(error.first, end)
            except CorruptRecord:
                messages += _readable(log, start, end)
                if messages:
                    return messages
                raise
            messages += found
            if len(found) < stop - start:
                # Retired, or in a batch that cannot be read: no worker is to wait for them.
                gone = set(range(start, stop)).difference(message.number for message in found)
                with self._ledger.changing():
                    self._ledger.add("done", {"spans": spans_of((partition, number) for number in gone)})
                    self._pass_over(partition, stop, following)
            start = stop
        return messages

    def _pass_over(self, partition: int, start: int, end: int) -> None:
        """Offer none of the numbers from `start` up to `end`, which cannot be read: a batch may have a million."""
        if start <= self._leases.next[partition] < end:
            now_us = self._topic.clock.now_ns() // 1000
            self._ledger.add("take", self._event(now_us, [], [(partition, Offer(end, [], [], [], []))]))


def _start_number(log: Log, start: str | int) -> int:
    if isinstance(start, int):
        return log.find_time(start)
    return log.first if start == "start" else log.end


def _page(log: Log, start: int, end: int) -> tuple[list[Message], int, int]:
    """Messages from `start` up to `end`, the number to go on from, and that of the next message that can be read.

    What is missing before the number to go on from cannot be read.
    """
    if end - start == 1 and (found := _at(log, start)):
        return found, end, end
    page = log.read_page(start, limit=end - start, tag=None, wait=0.0)
    if page.next_number <= start:
        # A log may lose, with the power, what was handed out.
        return [], end, end
    if page.next_number <= end:
        return page.messages, page.next_number, page.next_number
    inside = [message for message in page.messages if message.number < end]
    behind = page.messages[len(inside) :]
    return inside, end, behind[0].number if behind else page.next_number


def _at(log: Log, number: int) -> list[Message]:
    message = log.at(number)
    return [] if message is None else [message]


def _readable(log: Log, start: int, end: int) -> list[Message]:
    """Those from `start` up to `end` that are not damaged: what is beside the damage is as good as ever."""
    messages: list[Message] = []
    for number in range(start, end):
        with suppress(CorruptRecord, NumberRetired):
            messages += _at(log, number)
    return messages


def with_attempt(messages: Sequence[Message], attempt: int) -> list[Message]:
    """The messages, each of them with this attempt."""
    # By columns: `_replace` takes ten times as long, and this is done for every message that is taken.
    columns = list(zip(*messages, strict=True))[:-1]
    return list(map(tuple.__new__, repeat(Message), zip(*columns, repeat(attempt, len(messages)), strict=True)))
