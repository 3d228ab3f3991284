"""Queue groups: messages are leased one by one, acknowledged in any order, and handed out again where they are not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, overload

from warren.clock import Duration, seconds_of, steady_us
from warren.config import Durability
from warren.errors import BadInput, GroupClosed, LeaseLost, LogClosed, NoSuchTopic, NotALog, StoreClosed, WarrenError
from warren.message import Message
from warren.queue import store_paths
from warren.queue.dead_letter import BURIAL_COUNT_MAX, REASON_SIZE_MAX, DeadLetters, Failed, letters_name
from warren.queue.group_settings import LEASE_S_MAX, GroupSettings
from warren.queue.lease_order import Lease
from warren.queue.leases import WAITING, Backoff, Leases
from warren.queue.ledger import Ledger
from warren.queue.shared_lock import SharedLock
from warren.queue.spans import Span
from warren.queue.taken import Place, still_leased
from warren.queue.taking import IN_FLIGHT_MAX, REASONS, Chosen, Taking
from warren.queue.waiting import Deadline, checked_count, checked_delay_s
from warren.storage.log import wait_for_any
from warren.storage.read import ScanRoom
from warren.storage.residents import process_residents

if TYPE_CHECKING:
    from warren.queue.topic import Topic

LOOK_S: Final = 0.25
"""How often it is seen whether sessions died that hold leases."""
FLOOR_S: Final = 5.0
"""How often the readers are moved that tell retention what the group has consumed."""
ITERATION_WAIT_S: Final = 1.0


class QueueGroup:
    """A group of workers that share a topic's messages. Any thread may use it, and any number of processes at once.

    A message that was taken is leased for `lease_s`, and the lease is renewed while the program has the message in hand
    (`renewal.py`). It is never handed out again once it was acknowledged as durably as the topic's settings say.
    Otherwise it is, when the lease runs out, when the session that took it ends, or when it is given back; after
    `attempts_max` attempts it becomes a dead letter instead, exactly once.
    """

    def __init__(self, topic: Topic, name: str, settings: GroupSettings) -> None:
        letters_name(topic)
        self.topic, self.name, self.settings = topic, name, settings
        self._clock, filesystem = topic.clock, topic.filesystem
        self._backoff = Backoff(round(settings.backoff_s * 1_000_000), round(settings.backoff_s_max * 1_000_000))
        directory = store_paths.group_directory(topic.directory, name)
        self._leases = Leases(self._backoff)
        durability = topic.settings.durability
        # Acknowledgements of a topic with `commit` wait for their sync themselves, so that many share one.
        is_interval = Durability.parse(durability).mode == "interval"
        self._ledger = Ledger(
            store_paths.leases_directory(directory),
            self._leases,
            filesystem,
            self._clock,
            durability=durability if is_interval else "os",
        )
        self._dead_lock = SharedLock(filesystem, store_paths.dead_letter_lock(directory), self._clock)
        self._dead = DeadLetters(topic, name, self._ledger, self._leases, self._dead_lock)
        self._taking = Taking(topic, name, settings, self._ledger, self._leases)
        self._look_s = 0.0
        self._floor_s = self._clock.steady_s() + FLOOR_S
        self._logs = topic.logs
        self._is_closed = False
        self._begin()
        process_residents().register(self)

    def _begin(self) -> None:
        with self._changing():
            is_new = self._taking.begin()
            self._taking.look_for_restart()
            self._taking.look_for_loss()
        if is_new:
            # Where the group began is not forgotten: what comes from now on is for it.
            self._ledger.sync()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """GroupClosed after `close`, StoreClosed after that of the store, NoSuchTopic where the topic was deleted."""
        try:
            if self._is_closed:
                raise GroupClosed(self.topic.name, self.name)
            self.topic.store.check_open()
            yield
        except (NotALog, FileNotFoundError, LogClosed) as error:
            if self._is_closed:
                raise GroupClosed(self.topic.name, self.name) from error
            if self.topic.store.has_topic(self.topic.name):
                raise
            raise NoSuchTopic(self.topic.name) from error

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._usable(), self._ledger.changing():
            yield

    def _now_us(self) -> int:
        """The time that leases go by."""
        return steady_us(self._clock)

    # --- Taking ---

    @overload
    def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Message | list[Message] | None:
        """Lease a message, or up to `limit` of them. Where there is none, wait up to `wait` seconds for one.

        None, or none, where none came. `attempt` of a message says how often it was handed out, this time included.
        The leases are renewed while the caller refers to one of the messages and this group is open, for up to
        `renew_s_max` of the settings; with `renew=False` they run out after `lease_s`.
        """
        count = 1 if limit is None else checked_count("limit", limit, 1, IN_FLIGHT_MAX)
        deadline = Deadline(self._clock, True, wait)
        with self._usable():
            room = ScanRoom()
            while (messages := self._take(count, deadline, room)) is None:
                pass
        if messages and renew and self.settings.renew_s_max:
            messages = self.topic.store.renewals.hold(
                messages,
                self.name,
                self._renew,
                lease_s=self.settings.lease_s,
                renew_s_max=self.settings.renew_s_max,
            )
        if limit is None:
            return messages[0] if messages else None
        return messages

    def take_within(self, limit: int, room: ScanRoom) -> list[Message]:
        """What `take` gives without a wait and without renewal, looking through no more than `room` allows.

        If the filter used `room` up, there may be more: the next call goes on behind what was looked through.
        """
        count = checked_count("limit", limit, 1, IN_FLIGHT_MAX)
        deadline = Deadline(self._clock, False, None)
        with self._usable():
            while (messages := self._take(count, deadline, room)) is None:
                if room.is_used_up:
                    return []
        return messages

    def _take(self, count: int, deadline: Deadline, room: ScanRoom) -> list[Message] | None:
        """Some messages; none where the deadline has passed, None where it is worth to try again."""
        self._free_the_dead()
        if self._leases.burials or self._leases.redrives:
            self._dead.finish()
        self._logs = self.topic.logs
        if self._clock.steady_s() >= self._floor_s:
            self._move_readers()
        chosen = self._taking.choose(count, room)
        messages = self._taking.read(chosen)
        if chosen.failed:
            self._bury_besides(messages, chosen.failed)
        left_s = deadline.left_s()
        if messages or (chosen.is_over and not left_s):
            return messages
        if chosen.is_over:
            self._wait(chosen, left_s)
        return None

    def _bury_besides(self, messages: Sequence[Message], failed: Sequence[Failed]) -> None:
        try:
            self._bury(failed)
        except WarrenError:
            # Whoever took messages gets them. Those that failed are met again, and so is what is wrong.
            if not messages:
                raise

    def _free_the_dead(self) -> None:
        """Sessions that died hold no leases any more."""
        if self._clock.steady_s() < self._look_s:
            return
        self._look_s = self._clock.steady_s() + LOOK_S
        self.topic.see_partitions()
        self._ledger.look()
        session = self.topic.store.session
        dead = [owner for owner in list(self._leases.owners) if not session.is_alive(owner)]
        if not dead:
            return
        # What they had committed is acknowledged, whether they lived to see it or not.
        self.topic.store.settle()
        with self._changing():
            self._ledger.add("free", {"owners": dead, "at": self._now_us(), "backoff": self._backoff})

    def _bury(self, failed: Sequence[Failed]) -> list[Failed]:
        is_done = False
        try:
            buried = self._dead.bury(failed[:BURIAL_COUNT_MAX])
            is_done = len(failed) <= BURIAL_COUNT_MAX
            return buried
        finally:
            if not is_done:
                # Those that were too many for one burial, or that it did not come to, are found again.
                self._leases.reorder()

    def _wait(self, chosen: Chosen, left_s: float) -> None:
        if chosen.earliest_us is not None:
            left_s = min(left_s, max(0.0, (chosen.earliest_us - self._now_us()) / 1_000_000))
        wait_for_any(chosen.ends, min(left_s, LOOK_S), self._clock)

    def __iter__(self) -> Iterator[Message]:
        """Message after message, without end, until the group or its store is closed. Each is yours to acknowledge."""
        while not self._is_closed:
            try:
                message = self.take(wait=ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
            if message is not None:
                yield message

    # --- What becomes of a message that was taken ---

    def ack(self, message: Message) -> None:
        """The message is done with, for good. LeaseLost where it is leased no more, and somebody else may have it.

        A lease that ran out counts until the message is handed out again.
        """
        self.ack_many((message,))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """These messages are done with, with one commit for all.

        LeaseLost where some are leased no more; the others are acknowledged nevertheless.
        """
        with self._changing():
            spans, lost = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("done", {"spans": spans})
        if spans and self.topic.settings.durability == "commit":
            self._ledger.sync()
        if lost:
            raise LeaseLost(self.topic.name, self.name, lost)

    def nack(self, message: Message, delay: Duration | None = None, reason: str = "") -> None:
        """The message failed: it is handed out again after `delay` seconds, or after the group's backoff.

        After `attempts_max` attempts it becomes a dead letter, with the reason. Raises LeaseLost if the message is no
        longer leased as it was taken.
        """
        delay_us = None if delay is None else round(checked_delay_s(delay) * 1_000_000)
        reason = _checked_reason(reason)
        with self._changing():
            spans = self._all_spans((message,))
            lease = self._leases.outstanding[message.partition][message.number]
            is_last = 0 < self.settings.attempts_max <= lease.attempt
            if not is_last:
                if delay_us is None:
                    delay_us = self._backoff.after_us(lease.attempt, message.partition, message.number)
                self._ledger.add("nack", {"spans": spans, "until": self._now_us() + delay_us})
        if is_last:
            self._bury_held(message, lease, reason)

    def reject(self, message: Message, reason: str = "") -> None:
        """The message becomes a dead letter, with the reason, and is not handed out again.

        Raises LeaseLost if the message is no longer leased as it was taken.
        """
        reason = _checked_reason(reason)
        with self._changing():
            self._all_spans((message,))
            lease = self._leases.outstanding[message.partition][message.number]
        self._bury_held(message, lease, reason)

    def give_back(self, messages: Sequence[Message]) -> None:
        """No worker got these messages: they can be taken at once, and the attempt does not count.

        Those that are no longer leased as they were taken are left alone.
        """
        with self._changing():
            spans, _ = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("nack", {"spans": spans, "until": self._now_us(), "uncounted": 1})

    def _bury_held(self, message: Message, lease: Lease, reason: str) -> None:
        """Buries a message for the holder of its lease. Raises LeaseLost if it went to another worker meanwhile."""
        partition, number = message.partition, message.number
        with self._usable():
            buried = self._bury([Failed(partition, number, lease, reason or REASONS[WAITING], by_holder=True)])
        if not buried:
            raise LeaseLost(self.topic.name, self.name, [(partition, number)])

    def extend(self, message: Message, seconds: Duration) -> None:
        """The lease runs out `seconds` from now. Raises LeaseLost if the message is not leased as it was taken."""
        self.extend_many((message,), seconds)

    def extend_many(self, messages: Sequence[Message], seconds: Duration) -> None:
        """The leases of these messages run out `seconds` from now, and are not renewed any more.

        One event of the ledger serves all. Raises LeaseLost if some are no longer leased as they were taken; the others
        are extended nevertheless.
        """
        lease_us = _checked_us(seconds)
        self.topic.store.renewals.drop(self.topic.name, self.name, messages)
        if lost := self._extend(messages, lease_us):
            raise LeaseLost(self.topic.name, self.name, lost)

    def _renew(self, messages: Sequence[Message]) -> Sequence[Place]:
        return self._extend(messages, round(self.settings.lease_s * 1_000_000))

    def _extend(self, messages: Sequence[Message], lease_us: int) -> list[Place]:
        """The leases run out `lease_us` from now. Returns the places of messages that are leased no more."""
        with self._changing():
            spans, lost = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("extend", {"spans": spans, "until": self._now_us() + lease_us})
        return lost

    def still_leased(self, messages: Sequence[Message]) -> list[Message]:
        """Those of the messages that nobody has settled or been given since they were taken."""
        with self._changing():
            _, lost = still_leased(self._leases, self.topic.name, messages)
        places = set(lost)
        return [message for message in messages if (message.partition, message.number) not in places]

    def _all_spans(self, messages: Sequence[Message]) -> list[Span]:
        """The messages, each of them still leased as it was taken; else LeaseLost."""
        spans, lost = still_leased(self._leases, self.topic.name, messages)
        if lost:
            raise LeaseLost(self.topic.name, self.name, lost)
        return spans

    # --- For transactions ---

    def hold(self, transaction_id: str, messages: Sequence[Message]) -> None:
        """Keep these leases until `finish`, whatever becomes of their time and of whoever took them. On disk.

        LeaseLost where one of them is leased no more; then none is held.
        """
        with self._changing():
            spans = self._all_spans(messages)
            if spans:
                self._ledger.add("hold", {"id": transaction_id, "spans": spans})
        self._ledger.sync()

    def finish(self, transaction_id: str, committed: bool) -> None:
        """What the transaction holds is acknowledged, or given back at once. On disk.

        A transaction that holds nothing, or nothing any more, changes nothing.
        """
        with self._changing():
            if transaction_id in self._leases.held:
                self._ledger.add("finish", {"id": transaction_id, "committed": committed})
        self._ledger.sync()

    def held(self) -> set[str]:
        """The transactions that hold messages of this group."""
        with self._changing():
            return set(self._leases.held)

    # --- Dead letters ---

    @property
    def dead(self) -> Topic:
        """The topic of the dead letters, made where there is none."""
        return self._dead.topic

    def redrive(self, limit: int | None = None, *, numbers: Mapping[int, Sequence[int]] | None = None) -> int:
        """Put this group's dead letters, or up to `limit` more of them, back where they came from; how many.

        Or those that have these `numbers`, by partition of the dead-letter topic. Each is put back once. It is a new
        message of its partition, for all groups, and its attempts count from 1.
        """
        if limit is not None:
            checked_count("limit", limit, 1, math.inf)
        if limit is not None and numbers is not None:
            raise BadInput("give either limit or numbers")
        with self._usable():
            if numbers is None:
                return self._dead.redrive(limit)
            return sum(self._dead.redrive_numbers(partition, each) for partition, each in numbers.items())

    # --- How it stands ---

    def lag(self) -> dict[int, int]:
        """By partition, how many messages were put that are not done with, with those that the filter omits."""
        with self._changing():
            self._taking.begin()
            leases = self._leases
            return {
                partition: max(0, log.end - max(leases.next[partition], log.first)) + len(leases.outstanding[partition])
                for partition, log in enumerate(self.topic.logs)
            }

    def in_flight(self) -> int:
        """How many messages somebody has: leased, or held by a transaction."""
        with self._changing():
            leases = chain.from_iterable(found.values() for found in self._leases.outstanding.values())
            return sum(bool(lease.owner) for lease in leases)

    def _move_readers(self) -> None:
        """Tell retention what is consumed."""
        self._floor_s = self._clock.steady_s() + FLOOR_S
        with self._ledger.changing():
            floors = {partition: self._leases.floor(partition) for partition in self._leases.next}
        # On disk before what was consumed may be retired.
        self._ledger.sync()
        for partition, log in enumerate(self._logs):
            reader = log.reader(self.name)
            reader.seek(floors.get(partition, 0))
            reader.commit()

    def close(self) -> None:
        """Take no more. What was taken stays leased, until its time runs out or the store is closed.

        Closing twice does no harm.
        """
        if self._is_closed:
            return
        # Where the topic is gone, there is nothing to be told; and where it cannot be, whoever comes next does it.
        with suppress(WarrenError, FileNotFoundError):
            self._move_readers()
        self._is_closed = True
        with suppress(NotALog, FileNotFoundError):
            self._ledger.close()
        self._dead_lock.close()

    # --- As a resident of the process: told when it forks, asked for no files ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        self._taking.after_fork()
        self._ledger.after_fork()
        self._dead_lock.after_fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueGroup {self.name} of {self.topic.name}{' closed' if self._is_closed else ''}>"


def _checked_reason(reason: object) -> str:
    """The reason, cut where it is too long."""
    try:
        return str.encode(reason)[:REASON_SIZE_MAX].decode(errors="ignore")  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise BadInput(f"reason {reason!r}: expected a str") from error


def _checked_us(given: Duration) -> int:
    seconds: object = seconds_of(given)
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LEASE_S_MAX:
        raise BadInput(f"seconds {seconds!r}: expected 0 to {LEASE_S_MAX:g}")
    return round(seconds * 1_000_000)
