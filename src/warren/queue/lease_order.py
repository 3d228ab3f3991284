"""When which outstanding message may be handed out: the earliest first, without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final, NamedTuple

STALE_COUNT_MAX: Final = 1000


class Lease(NamedTuple):
    """What is known of messages that were handed out together. One object stands for all of them.

    `time_us` is when a leased message's time runs out, and from when on one that waits may be handed out, by the steady
    clock; 0 is at once. `owner` is
    the session that has them; for those that are held, the transaction.
    """

    kind: str
    time_us: int
    attempt: int
    owner: str


class Run(NamedTuple):
    """Messages of one partition, from `start` up to `end`, that may be handed out from `time_us` on."""

    time_us: int
    partition: int
    start: int
    end: int
    lease: Lease


Outstanding = Mapping[int, Mapping[int, Lease]]


class LeaseOrder:
    """Runs by time. A number of a run counts for as long as it has the very lease that it was pushed with.

    So nothing has to be taken out when a message is acknowledged; `is_overgrown` says when most runs are of no use.
    """

    def __init__(self, outstanding: Outstanding) -> None:
        self._outstanding = outstanding
        self._heap: list[Run] = []

    def push(self, run: Run) -> None:
        heapq.heappush(self._heap, run)

    def is_overgrown(self) -> bool:
        """Whether it is time to make the order anew from what is outstanding."""
        return len(self._heap) > STALE_COUNT_MAX + 2 * sum(map(len, self._outstanding.values()))

    def pop_due(self, now_us: int, limit: int) -> list[Run]:
        """The earliest whose time has come, up to `limit` messages. They are in the order no more."""
        heap, found = self._heap, list[Run]()
        while limit > 0 and heap and heap[0].time_us <= now_us:
            run = heapq.heappop(heap)
            leases = self._outstanding.get(run.partition, {})
            number = run.start
            while number < run.end and limit > 0:
                start = number
                while number < run.end and number - start < limit and leases.get(number) is run.lease:
                    number += 1
                if number > start:
                    found.append(run._replace(start=start, end=number))
                    limit -= number - start
                else:
                    number += 1
            if number < run.end:
                self.push(run._replace(start=number))
        return found

    def earliest_us(self) -> int | None:
        """When the next message may be handed out; None where none is in the order."""
        heap = self._heap
        while heap:
            run = heap[0]
            leases = self._outstanding.get(run.partition, {})
            if any(leases.get(number) is run.lease for number in range(run.start, run.end)):
                return run.time_us
            heapq.heappop(heap)
        return None
