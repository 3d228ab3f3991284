"""The events as the processes saw them: one file of JSON lines for each process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    """`kind` at `at_ns` of the machine's steady clock, in the process `who`. `facts` depend on the kind.

    puts, put: ids (and due_us, key, transaction) before and after the call. read, commits, committed: group, and
    messages as (partition, number, id) or positions. took, acks, acked: group, and messages as for read.
    fault, clock: what was done to a cluster, and when a clock was made wrong or right.
    """

    kind: str
    at_ns: int
    who: str
    facts: dict[str, Any]


class Writer:
    """Writes one complete line at a time, so that all actions before a kill are recorded."""

    def __init__(self, path: Path, who: str) -> None:
        self._file, self._who = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), who

    def note(self, kind: str, **facts: Any) -> None:
        line = json.dumps([kind, time.monotonic_ns(), self._who, facts]) + "\n"
        os.write(self._file, line.encode())


def read_all(directory: Path) -> list[Event]:
    """Returns all recorded events, by time."""
    return sorted(_events(sorted(directory.glob("*.history"))), key=lambda event: event.at_ns)


def _events(paths: Iterable[Path]) -> Iterator[Event]:
    for path in paths:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                yield Event(*json.loads(line))
