"""The actions of the members of a stream group, each in its own file, and the faults in them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Event(NamedTuple):
    """An action of a member: `ask` before it reads, `read` after, `commit` before it commits, `done` after.

    `killed` is recorded right before the kill. A member may give up what it owns when it asks or commits. For a read,
    `start` and `end` are the numbers that it returned; for a commit, `end` is the number after the committed ones.
    """

    time_ns: int
    member: str
    kind: str
    partition: int = -1
    start: int = -1
    end: int = -1


class History:
    """Written line by line, each with one call, so that it is complete up to the moment of a kill."""

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
    """The known state of one partition while its history is checked."""

    def __init__(self) -> None:
        self.reader, self.position = "", 0
        self.done, self.begun = 0, {0}
        self.is_held = False
        self.done_before: dict[str, int] = {}
        """By member: how far others had committed when its latest commit began."""


def faults(events: Iterable[Event], ends: Sequence[int]) -> list[str]:
    """Returns the faults of a history, by time, for partitions that have messages up to `ends`."""
    partitions = [Partition() for _ in ends]
    result = []
    for event in events:
        if event.kind in ("ask", "killed"):
            for partition in partitions:
                partition.is_held = partition.is_held and partition.reader != event.member
            continue
        partition = partitions[event.partition]
        if event.kind == "read":
            result += _faults_of_read(event, partition)
            partition.reader, partition.position, partition.is_held = event.member, event.end, True
        elif event.kind == "commit":
            partition.begun.add(event.end)
            partition.done_before[event.member] = partition.done
            partition.is_held = partition.is_held and partition.reader != event.member
        else:
            # A member may record the end of its commit late: the partition may have gone to another member, which
            # committed further.
            if event.end < (before := partition.done_before[event.member]):
                result.append(f"{event}: commits go back from {before}")
            partition.done = max(partition.done, event.end)
    for number, (partition, end) in enumerate(zip(partitions, ends, strict=True)):
        if partition.done != end:
            result.append(f"partition {number}: {end} messages, and only {partition.done} were done with")
    return result


def _faults_of_read(event: Event, partition: Partition) -> list[str]:
    is_going_on = event.member == partition.reader
    if event.start < partition.done:
        return [f"{event}: delivered again, though {partition.done} was committed"]
    if partition.is_held and not is_going_on:
        return [f"{event}: {partition.reader} owns the partition as well"]
    if not (is_going_on and event.start == partition.position) and event.start not in partition.begun:
        return [f"{event}: neither goes on from {partition.position} nor from a commit; {partition.done} was the last"]
    return []
