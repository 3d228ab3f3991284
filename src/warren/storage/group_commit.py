"""Group commit: the puts of many threads in one commit, so that all who wait share one sync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from warren.message import Receipt
from warren.storage.record import Packed


class Ticket:
    """A put that waits for its sync: what it brings, and what became of it."""

    __slots__ = ("batch", "error", "leads", "receipt", "turn")

    def __init__(self, batch: Sequence[Packed]) -> None:
        self.batch = batch
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.turn = threading.Lock()
        self.turn.acquire()

    def result(self) -> Receipt:
        if self.error is not None:
            raise self.error
        assert self.receipt is not None
        return self.receipt


class GroupCommit:
    """Puts from many threads in one commit. Whoever comes first leads: it commits for all who came until then.

    Those who come during a sync form the next group, and the first of them leads it. `commit` settles every ticket.
    """

    def __init__(self, commit: Callable[[Sequence[Ticket]], None]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._waiting: list[Ticket] = []
        self._has_leader = False

    def put(self, batch: Sequence[Packed]) -> Receipt:
        ticket = Ticket(batch)
        with self._lock:
            self._waiting.append(ticket)
            leads, self._has_leader = not self._has_leader, True
        if not leads:
            ticket.turn.acquire()
            leads = ticket.leads
        if leads:
            self._lead()
        return ticket.result()

    def _lead(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            self._commit(group)
        except BaseException as error:  # noqa: BLE001  # each of the group raises it in its own thread
            for ticket in group:
                ticket.error = ticket.error or error
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._has_leader = following is not None
        for ticket in group[1:]:
            ticket.turn.release()
        if following is not None:
            following.leads = True
            following.turn.release()
