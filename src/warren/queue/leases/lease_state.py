"""The state of a queue group's ledger: which messages are outstanding, who has them, and until when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple
from zlib import crc32

from warren.queue.leases.key_order import KeyOrder
from warren.queue.leases.lease_order import Lease, LeaseOrder, LeaseRun
from warren.queue.state.ledger import LedgerEvent

Span = list[int]
"""A partition, the first number, and the number after the last: a list, because JSON makes lists."""
LEASED: Final = "leased"
"""A worker has the message, or had it when the lease ran out."""
WAITING: Final = "waiting"
"""Given back, or behind another message of its key."""
FREED: Final = "freed"
"""The session that had the message has died."""
HELD: Final = "held"
"""An undecided transaction is to acknowledge the message."""
DYING: Final = "dying"
"""On its way to the dead letters."""
DONE: Final = "done"
"""Not stored: a message that is done is no longer outstanding."""
TRANSITIONS: Final[Mapping[tuple[str, str], str]] = {
    (LEASED, "take"): LEASED,
    (WAITING, "take"): LEASED,
    (FREED, "take"): LEASED,
    (LEASED, "extend"): LEASED,
    (LEASED, "nack"): WAITING,
    (LEASED, "free"): FREED,
    (LEASED, "hold"): HELD,
    (HELD, "abort"): WAITING,
    (HELD, "commit"): DONE,
    (LEASED, "bury"): DYING,
    (WAITING, "bury"): DYING,
    (FREED, "bury"): DYING,
    (DYING, "buried"): DONE,
    (LEASED, "done"): DONE,
    (WAITING, "done"): DONE,
    (FREED, "done"): DONE,
    (HELD, "done"): DONE,
    (DYING, "done"): DONE,
}
"""The state into which an event turns the state of a message. "commit" and "abort" are the two outcomes of the event
"finish".

A missing pair leaves the message unchanged. That is not an error, because a ledger outlives its log: after a power cut
the log may have given the number of a lost message to a new one, to which an event about the lost message does not
apply.
"""
TO_BE_HANDED_OUT: Final = (LEASED, WAITING, FREED)
BEHIND: Final = Lease(WAITING, 0, 0, "")
DOUBLINGS_MAX: Final = 62


def spans_of(places: Iterable[tuple[int, int]]) -> list[Span]:
    """Returns the fewest spans that hold these places, sorted. A place is a partition and a number."""
    spans: list[Span] = []
    partition = end = -1
    for place in sorted(places):
        if place[0] == partition and place[1] == end:
            end += 1
            spans[-1][2] = end
        else:
            partition, number = place
            end = number + 1
            spans.append([partition, number, end])
    return spans


class Backoff(NamedTuple):
    """How long a message waits before it is handed out again: twice as long after each further attempt.

    The wait is shortened by up to a quarter, so that messages which failed together do not come back together.
    """

    first_us: int
    most_us: int

    def after_us(self, attempt: int, *seed: int) -> int:
        """Returns the wait after this attempt, which counts from 1.

        `seed` decides how much it is shortened. It is not random, because every process that replays the same events
        must reach the same state.
        """
        wait_us = min(self.first_us << min(attempt - 1, DOUBLINGS_MAX), self.most_us) if attempt else 0
        # A checksum has 32 bits, so this is a share of the wait from 0 up to 1/4.
        return wait_us - (wait_us * crc32(repr((attempt, *seed)).encode()) >> 34) if wait_us else 0


class Burial(NamedTuple):
    """Messages that are to become dead letters. `since` is the end of the dead-letter log at the time of that decision.

    A letter is a partition, a number in it, the failed attempts, and the reason.
    """

    since: int
    letters: list[tuple[int, int, int, str]]

    def spans(self) -> list[Span]:
        return [[partition, number, number + 1] for partition, number, _, _ in self.letters]


class Redrive(NamedTuple):
    """Dead letters of one partition, from `start` up to `end`, that are to be put back: all of them, or only `numbers`.

    `since` holds the end of each partition that they may go to, at the time of that decision, and `counts` how many
    letters go there. None for a redrive that an earlier release decided.
    """

    partition: int
    start: int
    end: int
    since: list[tuple[int, int]]
    numbers: list[int] | None = None
    counts: list[int] | None = None


class Leases:
    """The state of a queue group, the same in every process that replayed the same events.

    In each partition, a message below `next` that is not outstanding is done. Only the ledger changes this object, and
    callers read it within the ledger's `changing`. `backoff` is for leases that run out; an event contains every other
    wait.

    The times of leases are µs of the steady clock, so that a change of the wall clock ends no lease. The steady clock
    starts with the machine. After a restart all times are shifted by `gap_us`, which is how far the wall clock was
    ahead of the steady clock. It is 0 in ledgers of earlier releases, whose leases have wall time.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._order: LeaseOrder | None = None
        self._handlers: Mapping[str, Callable[[LedgerEvent], None]] = {
            "begin": self._begin,
            "boot": self._boot,
            "recovered": self._recovered,
            "take": self._take,
            "done": self._done,
            "nack": self._nack,
            "extend": self._extend,
            "free": self._free,
            "hold": self._hold,
            "finish": self._finish,
            "bury": self._bury,
            "buried": self._buried,
            "redrive": self._redrive,
            "redriven": self._redriven,
        }
        self.restore({})

    # --- As the state of a ledger ---

    def apply(self, kind: str, event: LedgerEvent) -> None:
        self._handlers[kind](event)

    def restore(self, snapshot: LedgerEvent) -> None:
        self.next: dict[int, int] = dict(snapshot.get("next", ()))
        self.outstanding: dict[int, dict[int, Lease]] = {partition: {} for partition in self.next}
        self.keys: dict[int, KeyOrder] = {partition: KeyOrder() for partition in self.next}
        self.boot: str = snapshot.get("boot", "")
        self.recovered: str = snapshot.get("recovered", "")
        """The recoveries of the topic's logs that the group has taken into account."""
        self.taken_us: int = snapshot.get("taken", 0)
        self.gap_us: int = snapshot.get("gap", 0)
        self.held: dict[str, list[Span]] = dict(snapshot.get("held", {}))
        self.burials = {id: Burial(*fields) for id, fields in snapshot.get("burials", {}).items()}
        self.redrives = {id: Redrive(*fields) for id, fields in snapshot.get("redrives", {}).items()}
        self.redriven_ends: dict[int, int] = dict(snapshot.get("redriven", ()))
        # By partition: letters after that end that were put back one by one.
        self.redriven_numbers = {partition: set(numbers) for partition, numbers in snapshot.get("picked", ())}
        for *fields, spans in snapshot.get("leases", ()):
            lease = Lease(*fields)
            for partition, start, end in spans:
                self.outstanding[partition].update(dict.fromkeys(range(start, end), lease))
        for partition, number, key in sorted(snapshot.get("keys", ())):
            self.keys[partition].add(number, key)
        leases = chain.from_iterable(leases.values() for leases in self.outstanding.values())
        self.owners = {lease.owner for lease in leases if lease.kind == LEASED}
        self.reorder()

    def snapshot(self) -> LedgerEvent:
        spans: dict[Lease, list[Span]] = {}
        for partition, start, end, lease in self._all_runs():
            spans.setdefault(lease, []).append([partition, start, end])
        return {
            "next": list(self.next.items()),
            "boot": self.boot,
            "recovered": self.recovered,
            "taken": self.taken_us,
            "gap": self.gap_us,
            "leases": [[*lease, spans_of_it] for lease, spans_of_it in spans.items()],
            "keys": [[partition, *pair] for partition, keys in self.keys.items() for pair in keys],
            "held": self.held,
            "burials": self.burials,
            "redrives": self.redrives,
            "redriven": list(self.redriven_ends.items()),
            "picked": [[partition, sorted(numbers)] for partition, numbers in self.redriven_numbers.items()],
        }

    # --- Looking at it ---

    @property
    def count(self) -> int:
        """How many messages are outstanding."""
        return sum(map(len, self.outstanding.values()))

    @property
    def behind_count(self) -> int:
        """How many messages wait for another message of their key."""
        return sum(keys.behind_count for keys in self.keys.values())

    def of(self, partition: int, number: int) -> Lease | None:
        """Returns the lease of a message, or None if it is not outstanding."""
        leases = self.outstanding.get(partition)
        return None if leases is None else leases.get(number)

    def floor(self, partition: int) -> int:
        """Returns the number before which all messages are done."""
        return min(self.outstanding[partition], default=self.next[partition])

    def pop_due(self, now_us: int, limit: int) -> list[LeaseRun]:
        """Removes and returns up to `limit` messages that may be handed out again, the earliest first.

        The caller either changes them by an event or calls `reorder`.
        """
        if self._order is None or self._order.is_overgrown():
            self._order = LeaseOrder(self.outstanding)
            for partition, start, end, lease in self._all_runs():
                self._push(partition, start, end, lease)
        return self._order.pop_due(now_us, limit)

    def earliest_us(self) -> int | None:
        """Returns when the next message may be handed out again: None if there is none, 0 if the time is not known."""
        return 0 if self._order is None else self._order.earliest_us()

    def reorder(self) -> None:
        """Discards the order of messages by time. It is rebuilt when it is needed."""
        self._order = None

    # --- Runs of messages that share a lease ---

    def _all_runs(self) -> Iterator[tuple[int, int, int, Lease]]:
        for partition, leases in self.outstanding.items():
            for start, end, lease in _runs(leases, sorted(leases)):
                yield partition, start, end, lease

    def _push(self, partition: int, start: int, end: int, lease: Lease) -> None:
        if self._order is None or lease.kind not in TO_BE_HANDED_OUT:
            return
        time_us = lease.time_us
        if lease.kind == LEASED:
            time_us += self._backoff.after_us(lease.attempt, lease.time_us)
        keys = self.keys[partition]
        if not keys:
            self._order.push(LeaseRun(time_us, partition, start, end, lease))
            return
        for number in range(start, end):
            if keys.is_first(number):
                self._order.push(LeaseRun(time_us, partition, number, number + 1, lease))

    def _put(self, partition: int, start: int, end: int, lease: Lease) -> None:
        self.outstanding[partition].update(dict.fromkeys(range(start, end), lease))
        self._push(partition, start, end, lease)

    def _change(self, cause: str, spans: Iterable[Span], change: Callable[[Lease], Lease] | None = None) -> None:
        """Changes the messages of the spans as TRANSITIONS says. `change` sets every field of a
        lease except its kind.
        """
        for partition, start, end in spans:
            leases = self.outstanding[partition]
            for first, last, lease in list(_runs(leases, range(start, end))):
                kind = TRANSITIONS.get((lease.kind, cause))
                if kind == DONE:
                    self._remove([[partition, first, last]])
                elif kind is not None:
                    self._put(partition, first, last, (change(lease) if change else lease)._replace(kind=kind))

    def _remove(self, spans: Iterable[Span]) -> None:
        for partition, start, end in spans:
            leases, keys = self.outstanding[partition], self.keys[partition]
            for number in range(start, end):
                leases.pop(number, None)
            if keys:
                for number in range(start, end):
                    following = keys.remove(number)
                    if following is not None and following in leases:
                        self._push(partition, following, following + 1, leases[following])

    # --- What can happen ---

    def _begin(self, event: LedgerEvent) -> None:
        for partition, number in event["next"]:
            self.next[partition] = number
            self.outstanding[partition], self.keys[partition] = {}, KeyOrder()

    def _boot(self, event: LedgerEvent) -> None:
        """The machine was restarted: moves the leases to its new steady clock."""
        self.boot = event["boot"]
        if "steady" in event:
            self._go_by(event["at"] - event["steady"])
        self._lose(event["ends"])

    def _recovered(self, event: LedgerEvent) -> None:
        """Logs were recovered since the last check. Those in `ends` lost messages that were handed out."""
        self.recovered = event["recovered"]
        self._lose(event["ends"])

    def _lose(self, ends: Iterable[tuple[int, int]]) -> None:
        """Removes the messages from each number in `ends` on, because its partition lost them.

        New messages get these numbers.
        """
        for partition, end in ends:
            self.next[partition] = end
            self._remove(spans_of((partition, number) for number in self.outstanding[partition] if number >= end))

    def _go_by(self, gap_us: int) -> None:
        """Shifts the times of all leases to a steady clock that is `gap_us` behind the wall clock."""
        shift_us, self.gap_us = self.gap_us - gap_us, gap_us
        for partition, start, end, lease in list(self._all_runs()):
            # 0 means "immediately" by any clock.
            if lease.time_us and shift_us:
                self._put(partition, start, end, lease._replace(time_us=lease.time_us + shift_us))

    def _take(self, event: LedgerEvent) -> None:
        owner, until_us = event["owner"], event["until"]
        self.owners.add(owner)
        self.taken_us = event["at"]
        if "steady" in event:
            self.gap_us = event["at"] - event["steady"]
        for partition, number, key in event.get("keys", ()):
            self.keys[partition].add(number, key)
        for partition, end, spans in event["new"]:
            self.next[partition] = end
            lease = Lease(LEASED, until_us, 1, owner)
            for start, stop in spans:
                self._put(partition, start, stop, lease)
        for partition, number in event.get("behind", ()):
            self._put(partition, number, number + 1, BEHIND)
        for partition, start, end, attempt in event["again"]:
            self._put(partition, start, end, Lease(LEASED, until_us, attempt, owner))

    def _done(self, event: LedgerEvent) -> None:
        # TRANSITIONS maps every kind to DONE, so the leases need not be checked one by one. Acknowledging must be fast.
        self._remove(event["spans"])

    def _nack(self, event: LedgerEvent) -> None:
        # The attempt does not count if no worker got the message.
        uncounted = event.get("uncounted", 0)
        until_us = event["until"]
        self._change(
            "nack",
            event["spans"],
            lambda lease: lease._replace(time_us=until_us, attempt=lease.attempt - uncounted, owner=""),
        )

    def _extend(self, event: LedgerEvent) -> None:
        self._change("extend", event["spans"], lambda lease: lease._replace(time_us=event["until"]))

    def _free(self, event: LedgerEvent) -> None:
        owners, backoff = set(event["owners"]), Backoff(*event["backoff"])
        self.owners -= owners
        for partition, start, end, lease in list(self._all_runs()):
            if lease.kind == LEASED and lease.owner in owners:
                time_us = event["at"] + backoff.after_us(lease.attempt, lease.time_us)
                self._put(partition, start, end, Lease(FREED, time_us, lease.attempt, ""))

    def _hold(self, event: LedgerEvent) -> None:
        id = event["id"]
        self.held[id] = [*self.held.get(id, ()), *event["spans"]]
        self._change("hold", event["spans"], lambda lease: lease._replace(time_us=0, owner=id))

    def _finish(self, event: LedgerEvent) -> None:
        cause = "commit" if event["committed"] else "abort"
        self._change(cause, self.held.pop(event["id"]), lambda lease: lease._replace(time_us=0, owner=""))

    def _bury(self, event: LedgerEvent) -> None:
        burial = self.burials[event["id"]] = Burial(event["since"], event["letters"])
        self._change("bury", burial.spans(), lambda lease: lease._replace(time_us=0, owner=""))

    def _buried(self, event: LedgerEvent) -> None:
        self._change("buried", self.burials.pop(event["id"]).spans())

    def _redrive(self, event: LedgerEvent) -> None:
        self.redrives[event["id"]] = Redrive(*event["redrive"])

    def _redriven(self, event: LedgerEvent) -> None:
        redrive = self.redrives.pop(event["id"])
        picked = self.redriven_numbers.setdefault(redrive.partition, set())
        if redrive.numbers is not None:
            picked.update(redrive.numbers)
            return
        self.redriven_ends[redrive.partition] = redrive.end
        self.redriven_numbers[redrive.partition] = {number for number in picked if number >= redrive.end}


def _runs(leases: Mapping[int, Lease], numbers: Iterable[int]) -> Iterator[tuple[int, int, Lease]]:
    """Yields runs of these sorted numbers that share a lease. Skips messages that are not outstanding."""
    start, end, shared = 0, 0, None
    for number in numbers:
        lease = leases.get(number)
        if number == end and lease is shared:
            end += 1
            continue
        if shared is not None:
            yield start, end, shared
        start, end, shared = number, number + 1, lease
    if shared is not None:
        yield start, end, shared
