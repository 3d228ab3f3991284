"""Logins: checks passwords on threads of their own, and delays logins after failed ones."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final, TypeVar

from warren.errors import TooManyLogins

AUTHENTICATION_ANSWER_S: Final = 0.25
"""How long the answer to a failed login takes, for any cause."""
LOGIN_THREADS: Final = 2
"""How many passwords are checked at a time."""
LOGINS_WAITING_MAX: Final = 1000
"""How many logins may wait for a thread."""
LOGIN_FAILURES_FREE: Final = 5
"""After this many failed logins of one user from one address, the next ones have to wait."""
LOGIN_FAILURES_FREE_IN_ALL: Final = 50
"""After this many failed logins of all users from one address, the next ones have to wait."""
LOGIN_DELAY_S_MIN: Final = 0.25
"""The first delay. It doubles with each failure."""
LOGIN_DELAY_S_MAX: Final = 5.0
"""The longest delay."""
LOGIN_WAIT_S_MAX: Final = 10.0
"""A login that would have to wait longer for those before it is refused."""
LOGIN_FAILURES_HALVED_S: Final = 60.0
"""After this time a failed login counts half."""
LOGIN_FAILURES_REMEMBERED_MAX: Final = 10_000
"""For how many addresses and users failed logins are remembered."""

T = TypeVar("T")
Key = tuple[str | None, str | None]
"""An address and a user. None for one of them stands for all tries from the address, or for the user."""
DOUBLINGS_MAX: Final = 64


class _Record:
    """The failures of one key: their count, the time of that count, and when the next try may be checked."""

    __slots__ = ("at_s", "failures", "next_s")

    def __init__(self, now_s: float) -> None:
        self.failures, self.at_s, self.next_s = 0.0, now_s, now_s


class Tries:
    """Computes how long a login has to wait because of earlier failures. For the event loop's thread alone.

    A try waits for the failures of its user from its own address. If very many tries from the address failed, for any
    user, all tries from there wait, except for users that have logged in from there before. If very many tries for the
    user failed, from any address, those tries wait that come from an address with failures. So a user is never slowed
    down by the failures of others at other addresses.

    Failures count half after LOGIN_FAILURES_HALVED_S, and the memory is bounded: the oldest record is dropped first.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._records: dict[Key, _Record] = {}
        self._proven: dict[Key, None] = {}

    def wait_s(self, host: str, user: str) -> float:
        """Returns how long this try has to wait, and makes the next one wait longer.

        Raises TooManyLogins, and changes nothing, if that is more than LOGIN_WAIT_S_MAX.
        """
        now_s = self._now()
        delays = [
            (self._records[key], delay_s) for key in self._keys(host, user) if (delay_s := self._delay_s(key, now_s))
        ]
        start_s = max((record.next_s for record, _ in delays), default=now_s)
        if start_s - now_s > LOGIN_WAIT_S_MAX:
            raise TooManyLogins
        start_s = max(start_s, now_s)
        for record, delay_s in delays:
            record.next_s = start_s + delay_s
        return start_s - now_s

    def rank(self, host: str, user: str) -> float:
        """Returns how many recent tries of this user from this address failed. Tries with fewer failures go first."""
        return self._failures((host, user), self._now())

    def failed(self, host: str, user: str) -> None:
        """Counts a try that failed."""
        now_s = self._now()
        self._proven.pop((host, user), None)
        for key in ((host, user), (host, None), (None, user)):
            failures = self._failures(key, now_s)
            record = self._records.pop(key, None) or _Record(now_s)
            record.failures, record.at_s = failures + 1, now_s
            record.next_s = max(record.next_s, now_s)
            # Moved to the end, because it is the youngest now.
            _remember(self._records, key, record)

    def succeeded(self, host: str, user: str) -> None:
        """Remembers that the user logs in from this address."""
        self._proven.pop((host, user), None)
        _remember(self._proven, (host, user), None)

    def _keys(self, host: str, user: str) -> list[Key]:
        keys: list[Key] = [(host, user)]
        if (host, user) not in self._proven:
            keys.append((host, None))
        if (host, user) in self._records:
            keys.append((None, user))
        return keys

    def _delay_s(self, key: Key, now_s: float) -> float:
        free = LOGIN_FAILURES_FREE_IN_ALL if None in key else LOGIN_FAILURES_FREE
        above = self._failures(key, now_s) - free
        return 0.0 if above < 0 else min(LOGIN_DELAY_S_MIN * 2 ** min(above, DOUBLINGS_MAX), LOGIN_DELAY_S_MAX)

    def _failures(self, key: Key, now_s: float) -> float:
        record = self._records.get(key)
        if record is None:
            return 0.0
        return float(record.failures * 0.5 ** ((now_s - record.at_s) / LOGIN_FAILURES_HALVED_S))


def _remember(records: dict[Key, T], key: Key, value: T) -> None:
    if len(records) >= LOGIN_FAILURES_REMEMBERED_MAX:
        del records[next(iter(records))]
    records[key] = value


class Logins:
    """Checks passwords, LOGIN_THREADS at a time. For the event loop's thread alone.

    Invariant: no more than LOGINS_WAITING_MAX wait for a thread, and users without failures go before those with.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.tries = Tries(now)
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, "warren-login")
        self._free = LOGIN_THREADS
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def check(self, host: str, user: str | None, work: Callable[[], T]) -> T:
        """Calls `work` on a thread, and returns its result. Raises TooManyLogins if too many tries before it failed.

        `user` is None if `work` proves no password. Then the call waits only for a thread.
        """
        wait_s = 0.0 if user is None else self.tries.wait_s(host, user)
        if wait_s:
            await asyncio.sleep(wait_s)
        await self._turn(0.0 if user is None else self.tries.rank(host, user))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._pass_on()

    async def _turn(self, rank: float) -> None:
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= LOGINS_WAITING_MAX:
            raise TooManyLogins
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """Accepts no more logins, and finishes those in progress."""
        self._threads.shutdown()
