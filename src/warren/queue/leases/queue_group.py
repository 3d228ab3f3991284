"""Queue groups: messages are leased one by one, acknowledged in any order, and handed out again if they are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from types import TracebackType
from typing import Final, Self, overload

from warren.clock import Duration, steady_us
from warren.errors import (
    GroupClosed,
    LeaseLost,
    LogClosed,
    NeedsMemory,
    NoSuchTopic,
    NotALog,
    StoreClosed,
    WarrenError,
)
from warren.message import Message, named
from warren.queue.leases.dead_letters import DeadLetters, Failure, Redriven, checked_reason, letters_name
from warren.queue.leases.lease_check import MessageKey, checked_us, still_leased
from warren.queue.leases.lease_order import Lease
from warren.queue.leases.lease_state import FREED, WAITING, Backoff, Leases, Span
from warren.queue.leases.renewal import LeasingTopic
from warren.queue.leases.take import IN_FLIGHT_MAX, REASONS, Choice, MessageChooser
from warren.queue.state import paths
from warren.queue.state.group_settings import GroupSettings
from warren.queue.state.ledger import Ledger
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.topic_view import TopicView
from warren.queue.state.waits import Deadline, checked_count, checked_delay_s
from warren.storage.append.durability import Durability
from warren.storage.disk.open_files import process_residents
from warren.storage.log import wait_for_any
from warren.storage.read.messages import ScanRoom

LOOK_S: Final = 0.25
"""How often the group checks whether a session that holds leases has died."""
FLOOR_S: Final = 5.0
"""How often the readers that protect unread messages from retention are moved."""
ITERATION_WAIT_S: Final = 1.0


class QueueGroup:
    """Workers that share a topic's messages. Any thread and any number of processes may use it at the same time.

    A message that was taken is leased (visibility timeout) for `lease_s`. The lease is renewed while the program refers
    to the message (`renewal.py`). Once the message is acknowledged, as durably as the topic's settings say, it is never
    handed out again. Otherwise it is handed out again when the lease runs out, when the session that took it ends, or
    when the worker gives it back. After `attempts_max` attempts it becomes a dead letter instead, exactly once.
    """

    def __init__(self, topic: LeasingTopic, name: str, settings: GroupSettings) -> None:
        letters_name(topic)
        self.topic, self.name, self.settings = topic, name, settings
        self._clock, filesystem = topic.clock, topic.filesystem
        self._backoff = Backoff(round(settings.backoff_s * 1_000_000), round(settings.backoff_s_max * 1_000_000))
        directory = paths.group_directory(topic.directory, name)
        self._leases = Leases(self._backoff)
        durability = topic.settings.durability
        # With `commit`, each acknowledgement waits for a sync itself, so that several share one.
        is_interval = Durability.parse(durability).mode == "interval"
        self._ledger = Ledger(
            paths.leases_directory(directory),
            self._leases,
            filesystem,
            self._clock,
            durability=durability if is_interval else "os",
        )
        self._dead_lock = SharedLock(filesystem, paths.dead_letter_lock(directory), self._clock)
        self._dead = DeadLetters(topic, name, self._ledger, self._leases, self._dead_lock)
        self.chooser = MessageChooser(topic, name, settings, self._ledger, self._leases)
        self._look_s = 0.0
        self._floor_s = self._clock.steady_s() + FLOOR_S
        self._floors: dict[int, int] = {}
        """The position of each partition's reader at the last move."""
        self._logs = topic.logs
        self._is_closed = False
        self._begin()
        process_residents().register(self)

    def _begin(self) -> None:
        with self._usable(), self._ledger.changing():
            is_new = self.chooser.begin()
            self.chooser.look_for_restart()
            self.chooser.look_for_loss()
        if is_new:
            # The start of the group must be on disk, because the group receives every message that is put from now on.
            self._ledger.sync()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raises GroupClosed, StoreClosed or NoSuchTopic if the group or the store is closed or the topic deleted."""
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

    def _now_us(self) -> int:
        """Returns the current time on the clock of leases."""
        return steady_us(self._clock)

    # --- Taking ---

    @overload
    def take(self, limit: None = None, wait: Duration = 0.0, *, renew: bool = True) -> Message | None: ...
    @overload
    def take(self, limit: int, wait: Duration = 0.0, *, renew: bool = True) -> list[Message]: ...
    def take(
        self, limit: int | None = None, wait: Duration = 0.0, *, renew: bool = True
    ) -> Message | list[Message] | None:
        """Leases one message, or up to `limit` messages. If there is none, waits up to `wait` seconds for one.

        Returns None, or an empty list, if none came. The `attempt` of a message counts how often it was handed out,
        including this time. Leases are renewed while the caller refers to one of the messages and this group is open,
        for up to `renew_s_max` of the settings. With `renew=False` they run out after `lease_s`.
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
        """Does what `take` does without a wait and without renewal, and scans no more than `room` allows.

        If the filter used up `room`, there may be more messages: the next call continues from there.
        """
        count = checked_count("limit", limit, 1, IN_FLIGHT_MAX)
        deadline = Deadline(self._clock, False, None)
        with self._usable():
            while (messages := self._take(count, deadline, room)) is None:
                if room.is_used_up:
                    return []
        return messages

    def _take(self, count: int, deadline: Deadline, room: ScanRoom) -> list[Message] | None:
        """Returns messages; an empty list if the deadline has passed; None if the caller should try again."""
        if self._clock.steady_s() >= self._look_s:
            self._free_the_dead()
        if self._leases.burials or self._leases.redrives:
            self._dead.finish()
        self._logs = self.topic.logs
        if self._clock.steady_s() >= self._floor_s:
            self._move_readers()
        chosen = self.chooser.choose(count, room)
        try:
            messages = self.chooser.read(chosen)
        except NeedsMemory:
            self.give_back(self._named_all(chosen))
            raise
        if chosen.failed:
            self._bury_besides(messages, chosen.failed)
        left_s = deadline.left_s()
        if messages:
            self._sync_lease()
        if messages or (chosen.is_over and not left_s):
            return messages
        if chosen.is_over:
            self._wait(chosen, left_s)
        return None

    def _sync_lease(self) -> None:
        """Syncs the ledger if clients may outlive this process: then the next master has their leases."""
        if self.topic.waits_for_replicas:
            self._ledger.sync()

    def _named_all(self, chosen: Choice) -> list[Message]:
        """Returns the messages of a choice. Those that were not read have no content."""
        topic = str(self.topic.name)
        unread = [
            named(topic, partition, number, attempt)
            for partition, start, end, attempt in chosen.taken
            for number in range(start, end)
        ]
        return unread + chosen.messages

    def _bury_besides(self, messages: Sequence[Message], failed: Sequence[Failure]) -> None:
        try:
            self._bury(failed)
        except WarrenError:
            # The caller gets the messages that it took. A later take finds the failed ones, and the error, again.
            if not messages:
                raise

    def _free_the_dead(self) -> None:
        """Frees the leases of sessions that have died."""
        self._look_s = self._clock.steady_s() + LOOK_S
        self.topic.see_partitions()
        self._ledger.look()
        session = self.topic.store.session
        # The sessions of an earlier master are dead, but its clients live: their leases end with their time.
        owners = () if self.topic.store.is_replicated else list(self._leases.owners)
        dead = [owner for owner in owners if not session.is_alive(owner)]
        if not dead:
            return
        # Acknowledgements that a dead session had committed count, so they are settled first.
        self.topic.store.settle()
        with self._usable(), self._ledger.changing():
            self._ledger.add("free", {"owners": dead, "at": self._now_us(), "backoff": self._backoff})

    def _bury(self, failed: Sequence[Failure]) -> list[Failure]:
        is_done = False
        try:
            buried, tried = self._dead.bury(failed)
            is_done = tried == len(failed)
            return buried
        finally:
            if not is_done:
                # A later take finds the messages that were not buried now.
                self._leases.reorder()

    def _wait(self, chosen: Choice, left_s: float) -> None:
        if chosen.earliest_us is not None:
            left_s = min(left_s, max(0.0, (chosen.earliest_us - self._now_us()) / 1_000_000))
        wait_for_any(chosen.ends, min(left_s, LOOK_S), self._clock)

    def __iter__(self) -> Iterator[Message]:
        """Yields messages until the group or its store is closed. The caller acknowledges each."""
        while not self._is_closed:
            try:
                message = self.take(wait=ITERATION_WAIT_S)
            except (GroupClosed, StoreClosed):
                return
            if message is not None:
                yield message

    # --- What becomes of a message that was taken ---

    def ack(self, message: Message) -> None:
        """Acknowledges a message: it is done, permanently. Raises LeaseLost if the caller's lease has ended.

        A lease that ran out still counts until the message is handed out again.
        """
        self.ack_many((message,))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledges messages with one commit.

        Raises LeaseLost if some leases have ended; the other messages are acknowledged nevertheless.
        """
        with self._usable(), self._ledger.changing():
            spans, lost = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("done", {"spans": spans})
        if spans and self.topic.syncs_answers:
            self._ledger.sync()
        if lost:
            raise LeaseLost(self.topic.name, self.name, lost)

    def nack(self, message: Message, delay: Duration | None = None, reason: str = "") -> None:
        """Reports that the message failed. It is handed out again after `delay` seconds, or after the group's backoff.

        After `attempts_max` attempts it becomes a dead letter, with the reason. Raises LeaseLost if the caller's lease
        has ended.
        """
        delay_us = None if delay is None else round(checked_delay_s(delay) * 1_000_000)
        reason = checked_reason(reason)
        with self._usable(), self._ledger.changing():
            spans = self._all_spans((message,))
            lease = self._leases.outstanding[message.partition][message.number]
            is_last = 0 < self.settings.attempts_max <= lease.attempt
            if not is_last:
                if delay_us is None:
                    delay_us = self._backoff.after_us(lease.attempt, message.partition, message.number)
                self._ledger.add("nack", {"spans": spans, "until": self._now_us() + delay_us})
        if is_last:
            self._bury_held(message.partition, message.number, lease, reason)
        self._sync_lease()

    def reject(self, message: Message, reason: str = "") -> None:
        """Turns the message into a dead letter, with the reason. It is not handed out again.

        Raises LeaseLost if the caller's lease has ended.
        """
        reason = checked_reason(reason)
        with self._usable(), self._ledger.changing():
            self._all_spans((message,))
            lease = self._leases.outstanding[message.partition][message.number]
        self._bury_held(message.partition, message.number, lease, reason)

    def reject_waiting(self, partition: int, number: int, reason: str = "") -> None:
        """Turns a message that was given back, and that no worker holds, into a dead letter.

        Raises LeaseLost if a worker holds the message, or it is done or was not handed out yet.
        """
        reason = checked_reason(reason)
        with self._usable(), self._ledger.changing():
            lease = self._leases.of(partition, number)
        if lease is None or lease.kind not in (WAITING, FREED):
            raise LeaseLost(self.topic.name, self.name, [(partition, number)])
        self._bury_held(partition, number, lease, reason)

    def give_back(self, messages: Sequence[Message]) -> None:
        """Gives back messages that no worker received. They can be taken immediately; the attempt does not count.

        Messages whose lease has ended are not changed.
        """
        with self._usable(), self._ledger.changing():
            spans, _ = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("nack", {"spans": spans, "until": self._now_us(), "uncounted": 1})
        self._sync_lease()

    def _bury_held(self, partition: int, number: int, lease: Lease, reason: str) -> None:
        """Buries a message for the holder of its lease. Raises LeaseLost if another worker got it in between."""
        with self._usable():
            buried = self._bury([Failure(partition, number, lease, reason or REASONS[WAITING], by_holder=True)])
        if not buried:
            raise LeaseLost(self.topic.name, self.name, [(partition, number)])

    def extend(self, message: Message, seconds: Duration) -> None:
        """Makes the lease run out `seconds` from now. Raises LeaseLost if it has ended."""
        self.extend_many((message,), seconds)

    def extend_many(self, messages: Sequence[Message], seconds: Duration) -> None:
        """Makes the leases of these messages run out `seconds` from now. They are no longer renewed.

        One event of the ledger serves all. Raises LeaseLost if some leases have ended; the others are extended
        nevertheless.
        """
        lease_us = checked_us(seconds)
        self.topic.store.renewals.drop(self.topic.name, self.name, messages)
        if lost := self._extend(messages, lease_us):
            raise LeaseLost(self.topic.name, self.name, lost)

    def _renew(self, messages: Sequence[Message]) -> Sequence[MessageKey]:
        return self._extend(messages, round(self.settings.lease_s * 1_000_000))

    def _extend(self, messages: Sequence[Message], lease_us: int) -> list[MessageKey]:
        """Makes the leases run out `lease_us` from now. Returns the places of messages whose lease has ended."""
        with self._usable(), self._ledger.changing():
            spans, lost = still_leased(self._leases, self.topic.name, messages)
            if spans:
                self._ledger.add("extend", {"spans": spans, "until": self._now_us() + lease_us})
        self._sync_lease()
        return lost

    def still_leased(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the messages whose lease has not ended since they were taken."""
        with self._usable(), self._ledger.changing():
            lost = set(still_leased(self._leases, self.topic.name, messages)[1])
        return [message for message in messages if (message.partition, message.number) not in lost]

    def _all_spans(self, messages: Sequence[Message]) -> list[Span]:
        """Returns the spans of the messages. Raises LeaseLost if one of the leases has ended."""
        spans, lost = still_leased(self._leases, self.topic.name, messages)
        if lost:
            raise LeaseLost(self.topic.name, self.name, lost)
        return spans

    # --- For transactions ---

    def hold(self, transaction_id: str, messages: Sequence[Message]) -> None:
        """Keeps these leases until `finish`, even after their time or the session. Returns when that is on disk.

        Raises LeaseLost if one of the leases has ended; then none is held.
        """
        with self._usable(), self._ledger.changing():
            spans = self._all_spans(messages)
            if spans:
                self._ledger.add("hold", {"id": transaction_id, "spans": spans})
        self._ledger.sync()

    def finish(self, transaction_id: str, committed: bool) -> None:
        """Acknowledges the messages that the transaction holds, if any, or gives them back. On disk on return."""
        with self._usable(), self._ledger.changing():
            if transaction_id in self._leases.held:
                self._ledger.add("finish", {"id": transaction_id, "committed": committed})
        self._ledger.sync()

    def held(self) -> set[str]:
        """Returns the ids of the transactions that hold messages of this group."""
        with self._usable(), self._ledger.changing():
            return set(self._leases.held)

    # --- Dead letters ---

    @property
    def dead(self) -> TopicView:
        """The dead-letter topic, created if it does not exist."""
        return self._dead.topic

    def redrive(self, limit: int | None = None, *, numbers: Mapping[int, Sequence[int]] | None = None) -> int:
        """Puts dead letters of this group, at most `limit`, back into their topics, and returns how many.

        With `numbers`, by partition of the dead-letter topic, only these. Each letter is put back once. It becomes a
        new message of its partition, for all groups, and its attempts count from 1.
        """
        done = Redriven()
        self.redrive_on(done, limit, numbers=numbers)
        return done.count

    def redrive_on(
        self, done: Redriven, limit: int | None = None, *, numbers: Mapping[int, Sequence[int]] | None = None
    ) -> None:
        """Does what `redrive` does. If it raises NeedsMemory, another call with the same `done` continues."""
        with self._usable():
            self._dead.redrive(done, limit, numbers)

    # --- How it stands ---

    def lag(self) -> dict[int, int]:
        """Returns, by partition, how many messages are not done, including those that the filter omits."""
        with self._usable(), self._ledger.changing():
            self.chooser.begin()
            leases = self._leases
            return {
                partition: max(0, log.end - max(leases.next[partition], log.first)) + len(leases.outstanding[partition])
                for partition, log in enumerate(self.topic.logs)
            }

    def in_flight(self) -> int:
        """Returns how many messages are leased, or held by a transaction."""
        with self._usable(), self._ledger.changing():
            leases = chain.from_iterable(by_number.values() for by_number in self._leases.outstanding.values())
            return sum(bool(lease.owner) for lease in leases)

    def report_consumed(self) -> None:
        """Moves the readers that protect unread messages from retention. Does nothing if the group is closed."""
        if not self._is_closed:
            self._logs = self.topic.logs
            self._move_readers()

    def _move_readers(self) -> None:
        """Moves the readers that protect unread messages from retention."""
        self._floor_s = self._clock.steady_s() + FLOOR_S
        with self._ledger.changing():
            floors = {partition: self._leases.floor(partition) for partition in self._leases.next}
        if floors == self._floors:
            return
        # The ledger must be on disk before retention may remove what was consumed.
        self._ledger.sync()
        for partition, log in enumerate(self._logs):
            reader = log.reader(self.name)
            reader.seek(floors.get(partition, 0))
            reader.commit()
        self._floors = floors

    def close(self) -> None:
        """Stops taking messages. Those that were taken stay leased until their time runs out or the store is closed.

        A second call does nothing.
        """
        if self._is_closed:
            return
        # If the topic no longer exists, there is nothing to move. After any other error, another member moves the
        # readers later.
        with suppress(WarrenError, FileNotFoundError):
            self._move_readers()
        self._is_closed = True
        self.chooser.forget_ahead()
        with suppress(NotALog, FileNotFoundError):
            self._ledger.close()
        self._dead_lock.close()

    # --- As a resident of the process: called after a fork, has no files to close ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        self.chooser.after_fork()
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
