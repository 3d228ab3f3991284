"""Budget: the memory that clients can make a broker hold, counted in bytes by kind, with one limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from warren.errors import TooMany

MEMORY_OWNER_PART: Final = 2
"""One owner may hold 1/N of the memory."""
MEMORY_KEPT_PART: Final = 2
"""The memory that stays between requests may take 1/N of the whole."""
MEMORY_ANSWERS_PART: Final = 4
"""Answers may hold 1/N of the memory."""
MEMORY_LARGE_PART: Final = 16
"""Pieces that are larger than 1/N of the memory may together hold as much as one owner."""
MEMORY_SMALL_SIZE_MAX: Final = 64 << 10
"""Requests and answers up to this size never wait for memory."""
MEMORY_KEPT_SMALL_SIZE_MAX: Final = 4 << 10
"""Smaller pieces that stay between requests have a separate share."""


class MemoryKind(StrEnum):
    """The use of a piece of memory."""

    FRAMES = "frames"
    """Large requests that are being received, by the size that they announced."""
    REQUESTS = "requests"
    """Requests that were received and are not answered."""
    ANSWERS = "answers"
    """Answers that clients have not received yet."""
    UNPACKED = "unpacked"
    """Batches and JSON while they are decompressed or parsed for a check."""
    TRANSACTIONS = "transactions"
    """Messages of open transactions that are not in the journal yet."""
    MEMBERS = "members"
    """The metadata and assignments of members of Kafka's groups."""
    SESSIONS = "sessions"
    """Answers that are stored for calls that may be sent again."""
    AHEAD = "ahead"
    """Messages that queue groups with a filter or an order by key have read before they are taken."""


KEPT: Final = frozenset((MemoryKind.TRANSACTIONS, MemoryKind.MEMBERS, MemoryKind.SESSIONS, MemoryKind.AHEAD))
"""Kinds that stay until a client or a timeout ends them. The other kinds end with their request."""


class Hold:
    """Bytes of the budget that one owner holds. They are given back once, even if `release` is called again."""

    __slots__ = ("_budget", "_kind", "_owner", "size")

    def __init__(self, budget: MemoryBudget, kind: MemoryKind, size: int, owner: str) -> None:
        self._budget, self._kind, self._owner = budget, kind, owner
        self.size = 0
        self.resize(size)

    def move(self, kind: MemoryKind) -> None:
        """Counts the bytes as another kind."""
        sizes = self._budget.sizes
        sizes[self._kind] -= self.size
        sizes[kind] += self.size
        self._kind = kind

    def resize(self, size: int) -> None:
        """Changes the number of bytes."""
        self._budget.change(self._kind, self._owner, self.size, size)
        self.size = size

    def release(self) -> None:
        """Gives all bytes back."""
        if self.size:
            self.resize(0)


class _Waiter(NamedTuple):
    """A request for memory that had to wait."""

    kind: MemoryKind
    size: int
    owner: str
    granted: Callable[[Hold], None]


class MemoryBudget:
    """Bytes by kind, in total no more than `size_max`. For the event loop's thread alone.

    Small requests are counted and never wait, so that heartbeats, commits and health checks always pass. Large ones
    wait for room, first come, first served. Three rules keep one client from taking everything: an owner (a user, or an
    address without one) has a share of the whole; the largest pieces together have a share; and so does the memory that
    stays between requests. A piece that is larger than the share of an owner is admitted when requests and answers hold
    nothing large, and is counted in full, even above the limit.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max, self.size, self.kept = size_max, 0, 0
        """The limit, the bytes that are held, and those of them that stay until a client or a timeout ends them."""
        self.sizes: dict[MemoryKind, int] = dict.fromkeys(MemoryKind, 0)
        self.waits = self.refusals = self.drops = 0
        """How often a request had to wait for memory, was refused, or a connection that held memory was closed."""
        self.is_full = False
        self._owners: Counter[str] = Counter()
        self._kept_by_owner: Counter[str] = Counter()
        self._large = 0
        self._large_from = size_max // MEMORY_LARGE_PART
        self._kept_max = size_max // MEMORY_KEPT_PART
        self._answers_max = size_max // MEMORY_ANSWERS_PART
        self.is_crowded = False
        """Whether unread answers hold twice their share. Then no more large answers are built."""
        self._waiting: dict[object, _Waiter] = {}
        self._held_back: dict[object, Callable[[], None]] = {}
        self._given_back = 0

    @property
    def is_waited_for(self) -> bool:
        """Returns whether a request waits for room."""
        return bool(self._waiting or self._held_back)

    @property
    def is_short_of_answers(self) -> bool:
        """Returns whether unread answers keep other clients from getting theirs."""
        return self.is_waited_for or self.sizes[MemoryKind.ANSWERS] >= self._answers_max // 2

    # --- Small requests: counted, never delayed ---

    def take(self, size: int) -> None:
        """Counts `size` bytes of requests that wait for their answer."""
        self.sizes[MemoryKind.REQUESTS] += size
        self.size = size = self.size + size
        self.is_full = size >= self.size_max

    def give_back(self, size: int) -> None:
        """Gives back `size` bytes that `take` counted."""
        self.sizes[MemoryKind.REQUESTS] -= size
        self.size -= size
        self.is_full = self.size >= self.size_max
        if self._waiting:
            # Many small pieces are given back for each large request that waits, so that not every one triggers a
            # check.
            self._given_back += size
            if self._given_back >= MEMORY_SMALL_SIZE_MAX or not self.sizes[MemoryKind.REQUESTS]:
                self._given_back = 0
                self._serve()

    # --- Large or lasting pieces ---

    def change(self, kind: MemoryKind, owner: str, before: int, size: int) -> None:
        """Counts `size` bytes of a hold instead of `before`. Called by `Hold`, without a check for room."""
        self.sizes[kind] += size - before
        self.size += size - before
        self.is_full = self.size >= self.size_max
        if kind in KEPT:
            owners = self._kept_by_owner
            self.kept += size - before
        else:
            owners = self._owners
            self._large += self._large_size(size) - self._large_size(before)
        owners[owner] += size - before
        if not owners[owner]:
            del owners[owner]
        if kind is MemoryKind.ANSWERS:
            self._see_answers()
        if size < before and self._waiting:
            self._serve()

    def hold(self, kind: MemoryKind, size: int, owner: str) -> Hold:
        """Counts bytes that are allocated already, even if there is no room for them."""
        return Hold(self, kind, size, owner)

    def ask(self, who: object, kind: MemoryKind, size: int, owner: str, granted: Callable[[Hold], None]) -> Hold | None:
        """Takes `size` bytes before they are allocated.

        Returns None if there is no room; then `granted` is called when there is.
        """
        waiter = _Waiter(kind, size, owner, granted)
        # A waiting request must succeed in the end, so later ones wait behind it.
        must_wait = self._waits_for_others(waiter) or self._waits_for_room(waiter)
        if not must_wait and not any(map(self._waits_for_room, self._waiting.values())):
            return Hold(self, kind, size, owner)
        self.waits += 1
        self._waiting[who] = waiter
        return None

    def forget(self, who: object) -> None:
        """Cancels the wait of `who`."""
        self._held_back.pop(who, None)
        if self._waiting.pop(who, None) is not None:
            self._serve()

    def keep(self, kind: MemoryKind, size: int, owner: str) -> Hold:
        """Takes bytes that stay between requests. Raises TooMany, which may be tried again, if there is no room.

        Small holds have a separate part, which neither one owner nor large holds can use up.
        """
        if not self.may_keep(size, owner):
            self.refusals += 1
            raise TooMany(f"bytes of {kind}", self._kept_max)
        return Hold(self, kind, size, owner)

    def may_keep(self, size: int, owner: str) -> bool:
        """Returns whether there is room for `size` more bytes that stay between requests."""
        total = self.kept + size
        if size <= MEMORY_KEPT_SMALL_SIZE_MAX:
            return total <= self._kept_max
        owned = self._kept_by_owner.get(owner, 0) + size
        return max(total, owned * MEMORY_OWNER_PART) <= self._kept_max - self._kept_max // MEMORY_LARGE_PART

    def answer_size_max(self, size: int) -> int:
        """Returns how many of `size` bytes an answer may hold now: fewer while clients do not read their answers."""
        return max(min(size, self._answers_max - self.sizes[MemoryKind.ANSWERS]), min(size, MEMORY_SMALL_SIZE_MAX))

    def hold_back(self, who: object, resume: Callable[[], None]) -> None:
        """Calls `resume` once, when unread answers hold less than their share again."""
        self.waits += 1
        self._held_back[who] = resume

    def _see_answers(self) -> None:
        self.is_crowded = self.sizes[MemoryKind.ANSWERS] >= 2 * self._answers_max
        if self._held_back and not self.is_crowded:
            held_back, self._held_back = self._held_back, {}
            for resume in held_back.values():
                resume()

    # --- Waiting requests ---

    def _large_size(self, size: int) -> int:
        return size if size > self._large_from else 0

    def _waits_for_others(self, waiter: _Waiter) -> bool:
        """Returns whether the share of its owner, or of large pieces, is used up. Others need not wait behind it."""
        part = self.size_max // MEMORY_OWNER_PART
        owned = self._owners.get(waiter.owner, 0)
        if owned and owned + waiter.size > part:
            return True
        return bool(self._large and self._large_size(waiter.size) and self._large + waiter.size > part)

    def _waits_for_room(self, waiter: _Waiter) -> bool:
        """Returns whether there is no room for it, although its owner has not used up its share."""
        is_alone = self._others() <= self._large_from if self._is_oversized(waiter) else self.size == self.kept
        return not is_alone and self.size + waiter.size > self.size_max and not self._waits_for_others(waiter)

    def _is_oversized(self, waiter: _Waiter) -> bool:
        return waiter.size > self.size_max // MEMORY_OWNER_PART

    def _others(self) -> int:
        """Returns the bytes that end with their request, without those of small requests, some of which always wait."""
        return self.size - self.kept - self.sizes[MemoryKind.REQUESTS]

    def _serve(self) -> None:
        """Grants memory to the requests that there is room for now, in the order in which they came."""
        for who, waiter in list(self._waiting.items()):
            if self._waits_for_others(waiter):
                continue
            if self._waits_for_room(waiter):
                return
            if self._waiting.pop(who, None) is not None:
                waiter.granted(Hold(self, waiter.kind, waiter.size, waiter.owner))
