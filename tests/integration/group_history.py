"""What the members of a stream group did, each in a file of its own, and what is wrong with it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Event(NamedTuple):
    """An action of a member: `ask` before it reads, `read` after, `commit` before it commits, `done` after.

    `killed` is recorded right before the kill. A member may give up what it holds when it asks or commits.
    Of a read, `start` and `end` are the numbers it gave; of a commit, `end` is the number behind what is committed.
    """

    time_ns: int
    member: str
    kind: str
    partition: int = -1
    start: int = -1
    end: int = -1


class History:
    """Written line by line, each with one call, so that it has everything up to the moment of a kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, kind: str, *places: tuple[int, int, int]) -> None:
        time_ns = time.monotonic_ns()
        lines = [b"%d %s %d %d %d\n" % (time_ns, kind.encode(), *place) for place in places or [(-1, -1, -1)]]
        os.write(self._file, b"".join(lines))


def histories(directory: Path) -> list[Event]:
    """Returns the events of all members, by time."""
    events = []
    for path in directory.iterdir():
        *lines, _ = path.read_text().split("\n")
        for line in lines:
            time_ns, kind, *place = line.split()
            events.append(Event(int(time_ns), path.name, kind, *map(int, place)))
    return sorted(events)


class Partition:
    """What is known of one partition while its history is gone through."""

    def __init__(self) -> None:
        self.reader, self.position = "", 0
        self.done, self.begun = 0, {0}
        self.is_held = False
        self.done_before: dict[str, int] = {}
        """By member: how far others had committed when its latest commit began."""


def faults(events: Iterable[Event], ends: Sequence[int]) -> list[str]:
    """What is wrong with a history, by time, of partitions that have messages up to `ends`."""
    partitions = [Partition() for _ in ends]
    found = []
    for event in events:
        if event.kind in ("ask", "killed"):
            for known in partitions:
                known.is_held = known.is_held and known.reader != event.member
            continue
        known = partitions[event.partition]
        if event.kind == "read":
            found += _faults_of_read(event, known)
            known.reader, known.position, known.is_held = event.member, event.end, True
        elif event.kind == "commit":
            known.begun.add(event.end)
            known.done_before[event.member] = known.done
            known.is_held = known.is_held and known.reader != event.member
        else:
            # A member may record the end of its commit late: the partition may have gone to another member, which
            # committed further.
            if event.end < (before := known.done_before[event.member]):
                found.append(f"{event}: commits go back from {before}")
            known.done = max(known.done, event.end)
    for number, (known, end) in enumerate(zip(partitions, ends, strict=True)):
        if known.done != end:
            found.append(f"partition {number}: {end} messages, and only {known.done} were done with")
    return found


def _faults_of_read(event: Event, known: Partition) -> list[str]:
    is_going_on = event.member == known.reader
    if event.start < known.done:
        return [f"{event}: delivered again, though {known.done} was committed"]
    if known.is_held and not is_going_on:
        return [f"{event}: {known.reader} owns the partition as well"]
    if not (is_going_on and event.start == known.position) and event.start not in known.begun:
        return [f"{event}: neither goes on from {known.position} nor from a commit; {known.done} was the last"]
    return []
