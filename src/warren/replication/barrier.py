"""Barriers: each change gets a number, its barrier, which is done when the whole in-sync set has the change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, get_ident
from typing import Final, NamedTuple

from warren.errors import Deposed
from warren.replication.changes import (
    Change,
    LogFacts,
    LogRange,
    NewLog,
    RemovedLog,
    kept_size_of,
    size_of,
    subject_of,
)
from warren.replication.shard_state import Identity

CHANGES_MAX: Final = 65_536
BYTES_MAX: Final = 64 << 20
"""How many changes, and bytes of changes, are kept at most for slaves that have not fetched them yet."""

DROPPED_PART: Final = 16
"""When a limit is reached, at least one in DROPPED_PART of the kept changes is dropped in one step."""


class Round(NamedTuple):
    """The answer to a fetch: `changes` in order, and the barrier that a slave has reached when it has them all.

    `is_behind`: the changes that the slave needs next are no longer kept. It has to join again, and then gets them from
    the logs.
    """

    barrier: int
    changes: Sequence[Change]
    is_behind: bool = False


class Position(NamedTuple):
    """The logs with all changes up to `last`: the end of each log (`tails`), and where it begins if not at 0."""

    last: int
    tails: Mapping[str, int]
    first: Mapping[str, int]


class _Noted(NamedTuple):
    """A change that is kept for slaves, and the master's steady time at which it got its number."""

    change: Change
    at: float


class _Undone(NamedTuple):
    """A barrier that is not done: its log or file, and the end that it commits if its change is a range."""

    subject: str
    end: int | None


class Barriers:
    """The barriers of one epoch of one master. Any thread may call.

    Invariant: a barrier is done only if it and all earlier barriers of the same log or file are synced here, and every
    identity of `counted()` has acknowledged it. A barrier that is done stays done.
    `counted` returns the other members of the in-sync set; the caller calls `recount` whenever it changes.
    """

    def __init__(
        self,
        counted: Callable[[], frozenset[Identity]],
        tails: Mapping[str, int],
        first: Mapping[str, int],
        committed: Mapping[str, int],
        *,
        changes_max: int = CHANGES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._counted = counted
        self._changes_max, self._bytes_max = changes_max, bytes_max
        self._changed = Condition()
        self._kept: list[_Noted] = []
        self._kept_first = 1
        self._kept_size = 0
        self._undone: dict[int, _Undone] = {}
        self._unsynced: dict[str, list[int]] = {}
        self._acked: dict[Identity, int] = {}
        self._sent: dict[Identity, int] = {}
        self._callbacks: dict[int, list[Callable[[], None]]] = {}
        self._ended: Deposed | None = None
        self._forbidden = 0
        self.last = 0
        """The highest barrier that was given to a change."""
        self.tails = dict(tails)
        """The ends of the logs as they are written here, with all changes up to `last`."""
        self.first = dict(first)
        """The numbers at which the logs begin, because retention removed what was before. 0 if a log is not here."""
        self.committed = dict(committed)
        self._moved_at = OrderedDict.fromkeys(committed, 0)
        """The count of moves at which each committed end moved last, in the order of these counts."""
        self.moves = 0
        """How often a committed end has moved."""
        """The ends up to which readers may see the logs."""

    def next(self, change: Change, now: float) -> int:
        """Gives a barrier to a change that is written to its log or file, synced or not, and returns the barrier."""
        with self._changed:
            self.last += 1
            number = self.last
            end = None
            if isinstance(change, LogRange):
                end = self.tails[change.log] = change.end
            elif isinstance(change, NewLog):
                end = self.tails[change.log] = 0
            elif isinstance(change, RemovedLog):
                self.tails.pop(change.log, None)
                self.first.pop(change.log, None)
            elif isinstance(change, LogFacts):
                self.first[change.log] = change.first
            subject = subject_of(change)
            self._undone[number] = _Undone(subject, end)
            self._unsynced.setdefault(subject, []).append(number)
            self._keep(_Noted(change, now))
            return number

    def synced(self, number: int) -> bool:
        """Notes that this barrier is as durable here as it has to be. Barriers may be synced in any order.

        Returns whether any barrier is done with that.
        """
        with self._changed:
            undone = self._undone.get(number)
            if undone is None:
                return False
            unsynced = self._unsynced.get(undone.subject, [])
            if number in unsynced:
                unsynced.remove(number)
                if not unsynced:
                    del self._unsynced[undone.subject]
        return self.recount()

    def acked(self, member: Identity, number: int) -> None:
        """Notes that a replica has everything up to `number`, as durable as it has to be."""
        with self._changed:
            if number <= self._acked.get(member, 0):
                return
            self._acked[member] = number
        self.recount()

    def acked_by(self, member: Identity) -> int:
        """Returns the highest barrier that a replica has acknowledged; 0 if none."""
        return self._acked.get(member, 0)

    def recount(self) -> bool:
        """Marks the barriers that are done by now, commits their ends, and then runs their callbacks in order.

        Returns whether there are any.
        """
        with self._changed:
            numbers = self._newly_done()
            if not numbers:
                return False
            callbacks = [callback for number in numbers for callback in self._callbacks.pop(number, ())]
            self._changed.notify_all()
        for callback in callbacks:
            callback()
        return True

    def is_done(self, number: int) -> bool:
        """Whether the whole in-sync set has this barrier."""
        return number <= self.last and number not in self._undone

    @property
    def is_all_done(self) -> bool:
        """Whether every barrier that was given is done."""
        return not self._undone

    def wait(self, number: int) -> None:
        """Blocks the thread until the barrier is done. Raises Deposed if the mastership ended before.

        There is no time limit: a sync either succeeds or ends with the process. Clients have limits of their own.
        """
        with self._changed:
            assert self.is_done(number) or get_ident() != self._forbidden, "this thread would wait for itself"
            self._changed.wait_for(lambda: self.is_done(number) or self._ended is not None)
            if not self.is_done(number):
                assert self._ended is not None
                raise self._ended

    def forbid_waiting(self) -> None:
        """Forbids the calling thread to wait, because it is the thread that receives the acknowledgements."""
        self._forbidden = get_ident()

    def when(self, number: int, callback: Callable[[], None]) -> None:
        """Calls back when the barrier is done: immediately if it is, otherwise in the thread that finishes it."""
        with self._changed:
            if not self.is_done(number):
                self._callbacks.setdefault(number, []).append(callback)
                return
        callback()

    def end(self, reason: Deposed) -> None:
        """Wakes all threads that wait, because their barriers will never be done."""
        with self._changed:
            self._ended = reason
            self._changed.notify_all()

    def start(self, member: Identity, number: int) -> None:
        """Lets the next round of a replica begin after `number`, because the replica has everything up to it."""
        with self._changed:
            self._sent[member] = number

    def sent_to(self, member: Identity) -> int:
        """Returns the barrier that a replica reaches with all that was sent to it."""
        return self._sent.get(member, 0)

    def round(self, member: Identity, size_max: int) -> Round | None:
        """Returns what a replica needs next, at least one change; None if it has all of them."""
        with self._changed:
            sent = self._sent.get(member, 0)
            if sent >= self.last:
                return None
            position = sent + 1 - self._kept_first
            if position < 0:
                return Round(sent, (), is_behind=True)
            changes: list[Change] = []
            size = 0
            for noted in self._kept[position:]:
                size += size_of(noted.change)
                if changes and size > size_max:
                    break
                changes.append(noted.change)
            self._sent[member] = sent + len(changes)
            return Round(sent + len(changes), changes)

    def is_near(self, member: Identity) -> bool:
        """Whether every change that a replica has not acknowledged is kept, so that it needs nothing from the logs."""
        return self._acked.get(member, 0) + 1 >= self._kept_first

    def unacked_since(self, member: Identity) -> float | None:
        """Returns the time of the oldest barrier that a replica has not acknowledged; None if there is none."""
        with self._changed:
            number = self._acked.get(member, 0) + 1
            if number > self.last:
                return None
            return self._kept[max(number - self._kept_first, 0)].at

    def position(self) -> Position:
        """Returns the last barrier, and the logs as they are with all changes up to it."""
        with self._changed:
            return Position(self.last, dict(self.tails), dict(self.first))

    def ends(self) -> dict[str, int]:
        """Returns the committed ends of all logs."""
        with self._changed:
            return self.committed.copy()

    def commit(self, ends: Mapping[str, int]) -> None:
        """Notes that the whole set has everything below these ends."""
        with self._changed:
            for log, end in ends.items():
                self._move(log, end)

    def ends_since(self, moves: int) -> dict[str, int]:
        """Returns the committed ends that have moved since the count was `moves`; all of them if it is below 0.

        Its cost depends on how many have moved, not on how many logs there are.
        """
        with self._changed:
            ends = {}
            for log, at in reversed(self._moved_at.items()):
                if at <= moves:
                    break
                ends[log] = self.committed[log]
            return ends

    def _move(self, log: str, end: int) -> None:
        if end <= self.committed.get(log, -1):
            return
        self.committed[log] = end
        self.moves += 1
        self._moved_at[log] = self.moves
        self._moved_at.move_to_end(log)

    def _newly_done(self) -> list[int]:
        acked = min((self._acked.get(member, 0) for member in self._counted()), default=self.last)
        numbers = []
        for number, (subject, end) in self._undone.items():
            if number > acked:
                break
            unsynced = self._unsynced.get(subject)
            if unsynced and unsynced[0] <= number:
                continue
            numbers.append(number)
            if end is not None:
                self._move(subject, end)
        for number in numbers:
            del self._undone[number]
        return numbers

    def _keep(self, noted: _Noted) -> None:
        """Keeps a change for slaves, and drops the oldest ones above the limits. The newest one always stays."""
        kept = self._kept
        kept.append(noted)
        self._kept_size += kept_size_of(noted.change)
        count, size = len(kept), self._kept_size
        dropped = 0
        while dropped < count - 1 and (count - dropped > self._changes_max or size > self._bytes_max):
            size -= kept_size_of(kept[dropped].change)
            dropped += 1
        if dropped:
            # Some more are dropped with them, because each removal from the front moves the whole list.
            dropped = max(dropped, count // DROPPED_PART)
            self._kept_size -= sum(kept_size_of(each.change) for each in kept[:dropped])
            del kept[:dropped]
            self._kept_first += dropped
