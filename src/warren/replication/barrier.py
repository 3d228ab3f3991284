"""Barriers: every change that is to be synced has a number, and is done when the whole in-sync set has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Condition
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
"""So many changes, and bytes of them, are kept for slaves that have not fetched them yet."""

DROPPED_PART: Final = 16
"""At a limit, this part of the kept changes is forgotten at once."""


class Round(NamedTuple):
    """The answer to a fetch: `changes` in order, and the barrier that a slave has reached when it has them all.

    `is_behind`: the changes that the slave needs next are no longer kept. It has to join again, which brings it up to
    date from the log.
    """

    barrier: int
    changes: Sequence[Change]
    is_behind: bool = False


class Position(NamedTuple):
    """The logs with all changes up to `last`: their ends as they are laid, and where they begin if not at 0."""

    last: int
    tails: Mapping[str, int]
    first: Mapping[str, int]


class _Noted(NamedTuple):
    """A change that is kept for slaves, and the master's steady time at which it got its number."""

    change: Change
    at: float


class _Undone(NamedTuple):
    """A barrier that is not done: the log or file that it is about, and the end that it commits if it is a range."""

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
        self.last = 0
        """The highest barrier that was given to a change."""
        self.tails = dict(tails)
        """The ends of the logs as they are laid here, with all changes up to `last`."""
        self.first = dict(first)
        """The numbers at which the logs begin, because retention removed what was before. 0 if a log is not here."""
        self.committed = dict(committed)
        """The ends up to which readers may see the logs."""

    def next(self, change: Change, now: float) -> int:
        """Returns the barrier of a change that stands in the log or the file, synced or not."""
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

    def synced(self, number: int) -> None:
        """This barrier is as durable here as it has to be. Barriers may be synced in any order."""
        with self._changed:
            undone = self._undone.get(number)
            if undone is None:
                return
            unsynced = self._unsynced.get(undone.subject, [])
            if number in unsynced:
                unsynced.remove(number)
                if not unsynced:
                    del self._unsynced[undone.subject]
        self.recount()

    def acked(self, member: Identity, number: int) -> None:
        """A replica has everything up to `number`, as durable as it has to be."""
        with self._changed:
            if number <= self._acked.get(member, 0):
                return
            self._acked[member] = number
        self.recount()

    def acked_by(self, member: Identity) -> int:
        """Returns the highest barrier that a replica has acknowledged; 0 if none."""
        return self._acked.get(member, 0)

    def recount(self) -> None:
        """Finds the barriers that are done by now, commits their ends, and then runs their callbacks in order."""
        with self._changed:
            done = self._newly_done()
            if not done:
                return
            callbacks = [callback for number in done for callback in self._callbacks.pop(number, ())]
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def is_done(self, number: int) -> bool:
        """Whether the whole in-sync set has this barrier."""
        return number <= self.last and number not in self._undone

    @property
    def is_all_done(self) -> bool:
        """Whether every barrier that was given is done."""
        return not self._undone

    def wait(self, number: int) -> None:
        """Blocks the thread until the barrier is done. Raises Deposed if the mastership ended before.

        There is no time limit: a sync ends by success or with the process. Clients have limits of their own.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.is_done(number) or self._ended is not None)
            if not self.is_done(number):
                assert self._ended is not None
                raise self._ended

    def when(self, number: int, callback: Callable[[], None]) -> None:
        """Calls back once the barrier is done: at once, or in the thread that makes it so."""
        with self._changed:
            if not self.is_done(number):
                self._callbacks.setdefault(number, []).append(callback)
                return
        callback()

    def end(self, reason: Deposed) -> None:
        """Wakes the threads that wait: their barriers will never be done."""
        with self._changed:
            self._ended = reason
            self._changed.notify_all()

    def start(self, member: Identity, number: int) -> None:
        """The next round of a replica begins behind `number`, because it has everything up to there."""
        with self._changed:
            self._sent[member] = number

    def sent_to(self, member: Identity) -> int:
        """Returns the barrier that a replica reaches with all that was sent to it."""
        return self._sent.get(member, 0)

    def round(self, member: Identity, size_max: int) -> Round | None:
        """Returns what a replica needs next, at least one change; None if there is nothing, and the fetch is parked."""
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
        """Whether all that a replica has not acknowledged is kept: it needs nothing from the logs."""
        return self._acked.get(member, 0) + 1 >= self._kept_first

    def unacked_since(self, member: Identity) -> float | None:
        """Returns since when the oldest barrier waits that a replica has not acknowledged; None if there is none."""
        with self._changed:
            number = self._acked.get(member, 0) + 1
            if number > self.last:
                return None
            return self._kept[max(number - self._kept_first, 0)].at

    def position(self) -> Position:
        """Returns the last barrier with the logs as they are then."""
        with self._changed:
            return Position(self.last, dict(self.tails), dict(self.first))

    def ends(self) -> dict[str, int]:
        """Returns the committed ends of all logs."""
        with self._changed:
            return self.committed.copy()

    def commit(self, ends: Mapping[str, int]) -> None:
        """Everything below these ends is on the whole set."""
        with self._changed:
            for log, end in ends.items():
                self.committed[log] = max(end, self.committed.get(log, 0))

    def _newly_done(self) -> list[int]:
        acked = min((self._acked.get(member, 0) for member in self._counted()), default=self.last)
        done = []
        for number, (subject, end) in self._undone.items():
            if number > acked:
                break
            unsynced = self._unsynced.get(subject)
            if unsynced and unsynced[0] <= number:
                continue
            done.append(number)
            if end is not None:
                self.committed[subject] = max(end, self.committed.get(subject, 0))
        for number in done:
            del self._undone[number]
        return done

    def _keep(self, noted: _Noted) -> None:
        """Keeps a change for slaves, and forgets the oldest ones over the limits. The newest one always stays."""
        kept = self._kept
        kept.append(noted)
        self._kept_size += kept_size_of(noted.change)
        count, size = len(kept), self._kept_size
        dropped = 0
        while dropped < count - 1 and (count - dropped > self._changes_max or size > self._bytes_max):
            size -= kept_size_of(kept[dropped].change)
            dropped += 1
        if dropped:
            # Some more go with them, because each removal from the front moves the whole list.
            dropped = max(dropped, count // DROPPED_PART)
            self._kept_size -= sum(kept_size_of(each.change) for each in kept[:dropped])
            del kept[:dropped]
            self._kept_first += dropped
