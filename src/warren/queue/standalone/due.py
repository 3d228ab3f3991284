"""Items in the order in which they may be taken: by due time, then by arrival."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

T = TypeVar("T")

GONE_MIN: Final = 16
"""Up to this many withdrawn entries are not removed, because that is not worth the work."""


class Entry(Generic[T]):
    """One item, and its place in the order. `is_here` is true until the item is taken or withdrawn."""

    __slots__ = ("due_s", "is_here", "item", "number")

    def __init__(self, item: T, due_s: float, number: int) -> None:
        self.item, self.due_s, self.number, self.is_here = item, due_s, number, True


class DueOrder(Generic[T]):
    """Items, each with a due time. Not thread-safe: the queue that owns it has the lock.

    Invariant: `_line` holds items that were due on arrival. They are in order because the steady clock does not run
    backwards. `_later` is a heap. A withdrawn entry may stay in either until it comes to the front.
    """

    def __init__(self) -> None:
        self._line: deque[Entry[T]] = deque()
        self._later: list[tuple[float, int, Entry[T]]] = []
        self._arrivals = self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: T, now_s: float, delay_s: float = 0.0) -> Entry[T]:
        """Adds `item`, which may be taken after `delay_s`."""
        entry = Entry(item, now_s + delay_s, self._arrivals)
        self._arrivals += 1
        self._count += 1
        if delay_s:
            heappush(self._later, (entry.due_s, entry.number, entry))
        else:
            self._line.append(entry)
        return entry

    def take(self, now_s: float) -> Entry[T] | None:
        """Removes and returns the first entry, or None if nothing is due."""
        entry = self._first()
        if entry is None or entry.due_s > now_s:
            return None
        if self._line and self._line[0] is entry:
            self._line.popleft()
        else:
            heappop(self._later)
        entry.is_here = False
        self._count -= 1
        return entry

    def put_back(self, entry: Entry[T]) -> None:
        """Undoes the `take` of `entry`: it returns to its old place."""
        entry.is_here = True
        self._count += 1
        heappush(self._later, (entry.due_s, entry.number, entry))

    def withdraw(self, entry: Entry[T]) -> None:
        """Withdraws `entry`, which was not taken: it will not be taken any more."""
        entry.is_here = False
        self._count -= 1
        gone = len(self._line) + len(self._later) - self._count
        if gone > max(GONE_MIN, self._count):
            self._tidy_up()

    def first_due_s(self) -> float | None:
        """Returns when an item will be due, or None if there are no items."""
        entry = self._first()
        return None if entry is None else entry.due_s

    def _first(self) -> Entry[T] | None:
        line, later = self._line, self._later
        while line and not line[0].is_here:
            line.popleft()
        while later and not later[0][2].is_here:
            heappop(later)
        if not later:
            return line[0] if line else None
        due_s, number, entry = later[0]
        return line[0] if line and (line[0].due_s, line[0].number) < (due_s, number) else entry

    def _tidy_up(self) -> None:
        self._line = deque(entry for entry in self._line if entry.is_here)
        self._later = [place for place in self._later if place[2].is_here]
        heapify(self._later)
