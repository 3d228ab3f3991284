"""Logins: passwords are checked on threads of their own, and the more tries fail, the slower the next ones are."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final, TypeVar

from warren.errors import TooManyLogins

AUTHENTICATION_ANSWER_S: Final = 0.25
"""How long the answer to a wrong password takes, whatever was wrong."""
LOGIN_THREADS: Final = 2
LOGINS_WAITING_MAX: Final = 1000
"""How many passwords are checked at a time, and how many wait for that."""
LOGIN_FAILURES_FREE: Final = 5
LOGIN_FAILURES_FREE_IN_ALL: Final = 50
"""After so many failed logins of one user from one address, or of all users from it, the next ones have to wait."""
LOGIN_DELAY_S_MIN: Final = 0.25
LOGIN_DELAY_S_MAX: Final = 5.0
LOGIN_WAIT_S_MAX: Final = 10.0
"""How long they wait at first, doubled with each failure, and at last; one that would wait longer is refused."""
LOGIN_FAILURES_HALVED_S: Final = 60.0
"""After this time a failed login counts half."""
LOGIN_FAILURES_REMEMBERED_MAX: Final = 10_000
"""Of how many addresses and users failed logins are remembered."""

T = TypeVar("T")
Key = tuple[str | None, str | None]
"""An address and a user; with None in the place of one of them, all tries from the address, or for the user."""
DOUBLINGS_MAX: Final = 64


class _Record:
    """What is remembered of one key: how many tries failed, by when, and when the next one may be checked."""

    __slots__ = ("at_s", "failures", "next_s")

    def __init__(self, now_s: float) -> None:
        self.failures, self.at_s, self.next_s = 0.0, now_s, now_s


class Tries:
    """How long a login has to wait for the failures before it. For the event loop's thread alone.

    A try waits for the failures of its user from its own address. If very many tries from the address failed,
    whatever the user, all tries from there wait, but for users that have logged in from there before. If very many
    tries for the user failed, from wherever, those tries wait that have failed from their address before: so a user
    is never slowed down by the failures of others at other addresses.

    Failures count half after LOGIN_FAILURES_HALVED_S, and what is remembered is bounded: the oldest goes first.
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
        """Returns how many tries of this user from this address failed of late: those with fewer go first."""
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
            # It is the youngest now.
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
        """Returns what `work` returns, done by a thread; TooManyLogins if too many tries before it failed.

        `user` is None if `work` proves no password: then only the threads are waited for.
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
        """Takes no more; what is being checked is finished first."""
        self._threads.shutdown()
