"""Reads a history and the final content of the logs, and reports everything that should not have happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from tests.soak.history import Event

Place = tuple[int, int]
"""A partition and a number."""


class Stored(NamedTuple):
    """A message as it is in the topic at the end."""

    partition: int
    number: int
    id: str
    timestamp_us: int


class Fault(NamedTuple):
    """`kind` is lost, duplicated, reordered, phantom, early or torn (a transaction of which only a part exists)."""

    kind: str
    detail: str


def check(events: Sequence[Event], stored: Sequence[Stored], prefetching: Collection[str] = ()) -> list[Fault]:
    """Returns every fault of the history; none if every promise was kept.

    Members of the groups in `prefetching` may return messages that they fetched before another member committed them.
    """
    return [
        *check_puts(events, stored),
        *check_order(stored),
        *check_consuming(
            events, stored, handed="read", settles="commits", settled="committed", prefetching=prefetching
        ),
        *check_consuming(events, stored, handed="took", settles="acks", settled="acked"),
        *check_reads_in_order([event for event in events if event.facts.get("group") not in prefetching]),
    ]


def check_puts(events: Sequence[Event], stored: Sequence[Stored]) -> list[Fault]:
    """Messages that were put exist once, transactions completely or not at all, and none before it was due."""
    faults = []
    begun: dict[str, Event] = {id: event for event in events if event.kind == "puts" for id in event.facts["ids"]}
    ended = {id for event in events if event.kind == "put" for id in event.facts["ids"]}
    there = Counter(message.id for message in stored)
    cancelled = {id for event in events if event.kind == "cancelled" for id in event.facts["ids"]}
    faults += [Fault("phantom", f"{id} was cancelled and is there") for id in sorted(cancelled & there.keys())]
    faults += [Fault("lost", f"{id} was put and is not there") for id in sorted(ended - there.keys())]
    faults += [Fault("phantom", f"{id} is there and was never put") for id in sorted(there.keys() - begun.keys())]
    faults += [Fault("duplicated", f"{id} is there {count} times") for id, count in there.items() if count > 1]
    for event in events:
        ids = event.facts.get("ids", [])
        if event.kind == "puts" and event.facts.get("transaction") and 0 < sum(id in there for id in ids) < len(ids):
            faults.append(Fault("torn", f"of the transaction {ids} only {[id for id in ids if id in there]} are there"))
    for message in stored:
        due_us = begun[message.id].facts.get("due_us") if message.id in begun else None
        if due_us is None or message.timestamp_us >= due_us:
            continue
        if not _has_stepped(events, begun[message.id].at_ns, message.id):
            faults.append(Fault("early", f"{message.id} was due at {due_us} and delivered at {message.timestamp_us}"))
    return faults


def _has_stepped(events: Sequence[Event], since_ns: int, id: str) -> bool:
    """Returns whether a clock was made wrong or right between the put of a message and its first delivery.

    It may have been due when the clock was looked at, and the clock may have been behind when it was stored.
    """
    handed_ns = min(
        (
            event.at_ns
            for event in events
            if event.kind in ("read", "took") and any(row[2] == id for row in event.facts["messages"])
        ),
        default=None,
    )
    steps = [event.at_ns for event in events if event.kind == "clock"]
    return any(since_ns <= at_ns and (handed_ns is None or at_ns <= handed_ns) for at_ns in steps)


def check_copy(name: str, ids: Sequence[str], copied: Sequence[str]) -> list[Fault]:
    """Messages that were copied in transactions exist once."""
    there = Counter(copied)
    return [
        *(Fault("lost", f"{id} was not copied by {name}") for id in ids if id not in there),
        *(Fault("phantom", f"{id} was copied by {name} and is not there") for id in sorted(there.keys() - set(ids))),
        *(Fault("duplicated", f"{id} was copied {count} times by {name}") for id, count in there.items() if count > 1),
    ]


def check_order(stored: Sequence[Stored]) -> list[Fault]:
    """The messages of one put, or of single puts of one producer, are in the order in which they were put: ids are
    `who/kind/number`.
    """
    last: dict[tuple[int, str], int] = {}
    faults = []
    for message in sorted(stored):
        who, kind, number = message.id.split("/")
        if kind != "plain":
            continue
        key = message.partition, who
        if int(number) < last.get(key, -1):
            faults.append(Fault("reordered", f"{message.id} stands behind number {last[key]} of the same producer"))
        last[key] = int(number)
    return faults


def check_consuming(
    events: Sequence[Event],
    stored: Sequence[Stored],
    *,
    handed: str,
    settles: str,
    settled: str,
    prefetching: Collection[str] = (),
) -> list[Fault]:
    """Messages that a group settled are never handed out again, and each group got everything in the end."""
    faults = []
    ids = {(message.partition, message.number): message.id for message in stored}
    groups: dict[str, _Consumed] = defaultdict(_Consumed)
    for event in events:
        group = event.facts.get("group", "")
        if event.kind == handed:
            for partition, number, id in event.facts["messages"]:
                place = partition, number
                if ids.get(place) != id:
                    faults.append(Fault("phantom", f"{group} got {id} at {place}, where {ids.get(place)} is"))
                settled_ns = groups[group].handed(place)
                # The call began before another process may have settled the message: its begin counts.
                if settled_ns is not None and event.facts["since_ns"] > settled_ns and group not in prefetching:
                    faults.append(Fault("duplicated", f"{group} got {id} again after it was {settled}"))
        elif event.kind == settled:
            groups[group].settle(event)
    for group, consumed in groups.items():
        missing = sorted(ids.keys() - consumed.places)
        faults += [Fault("lost", f"{group} never got {ids[place]} at {place}") for place in missing]
    return faults


class _Consumed:
    """The messages that a group got, and when each was first settled."""

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self._done: dict[Place, int] = {}
        self._open: dict[int, set[int]] = defaultdict(set)

    def handed(self, place: Place) -> int | None:
        """Records a delivery. Returns when the message was settled before, or None."""
        self.places.add(place)
        if place not in self._done:
            self._open[place[0]].add(place[1])
        return self._done.get(place)

    def settle(self, event: Event) -> None:
        """Settles the named messages, or all before the positions."""
        for partition, number, _ in event.facts.get("messages", ()):
            self._settle(partition, number, event.at_ns)
        for partition, position in event.facts.get("positions", {}).items():
            for number in [number for number in self._open[int(partition)] if number < position]:
                self._settle(int(partition), number, event.at_ns)

    def _settle(self, partition: int, number: int, at_ns: int) -> None:
        self._done.setdefault((partition, number), at_ns)
        self._open[partition].discard(number)


def check_reads_in_order(events: Sequence[Event]) -> list[Fault]:
    """A member of a stream group gets the messages of a partition by number."""
    faults = []
    for event in events:
        last: dict[int, int] = {}
        for partition, number, id in event.facts["messages"] if event.kind == "read" else []:
            if number <= last.get(partition, -1):
                faults.append(Fault("reordered", f"{event.who} got {id} after number {last[partition]}"))
            last[partition] = number
    return faults
