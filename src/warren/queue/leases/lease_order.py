"""Orders outstanding messages by the time from which they may be handed out again."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final, NamedTuple

STALE_COUNT_MAX: Final = 1000


class Lease(NamedTuple):
    """The lease of messages that were handed out together, which share this object.

    `time_us` is when a lease runs out, or when a waiting message may be handed out, by the steady clock; 0 means
    immediately. `owner` is the session that has the messages, or the transaction that holds them.
    """

    kind: str
    time_us: int
    attempt: int
    owner: str


class LeaseRun(NamedTuple):
    """Messages of one partition, from `start` up to `end`, that may be handed out from `time_us` on."""

    time_us: int
    partition: int
    start: int
    end: int
    lease: Lease


Outstanding = Mapping[int, Mapping[int, Lease]]


class LeaseOrder:
    """Runs sorted by time. A number in a run is valid only while it has the lease object that it was pushed with.

    So an acknowledgement need not remove anything here. `is_overgrown` becomes true when most runs are stale.
    """

    def __init__(self, outstanding: Outstanding) -> None:
        self._outstanding = outstanding
        self._heap: list[LeaseRun] = []

    def push(self, run: LeaseRun) -> None:
        heapq.heappush(self._heap, run)

    def is_overgrown(self) -> bool:
        """Returns whether the order should be rebuilt from the outstanding messages."""
        return len(self._heap) > STALE_COUNT_MAX + 2 * sum(map(len, self._outstanding.values()))

    def pop_due(self, now_us: int, limit: int) -> list[LeaseRun]:
        """Removes and returns the earliest runs that are due, up to `limit` messages."""
        heap, runs = self._heap, list[LeaseRun]()
        while limit > 0 and heap and heap[0].time_us <= now_us:
            run = heapq.heappop(heap)
            leases = self._outstanding.get(run.partition, {})
            number = run.start
            while number < run.end and limit > 0:
                start = number
                while number < run.end and number - start < limit and leases.get(number) is run.lease:
                    number += 1
                if number > start:
                    runs.append(run._replace(start=start, end=number))
                    limit -= number - start
                else:
                    number += 1
            if number < run.end:
                self.push(run._replace(start=number))
        return runs

    def earliest_us(self) -> int | None:
        """Returns when the next message may be handed out, or None if there is none."""
        heap = self._heap
        while heap:
            run = heap[0]
            leases = self._outstanding.get(run.partition, {})
            if any(leases.get(number) is run.lease for number in range(run.start, run.end)):
                return run.time_us
            heapq.heappop(heap)
        return None
