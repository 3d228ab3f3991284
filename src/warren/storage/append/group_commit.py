"""Group commit: puts of many threads that wait at the same time share one commit, and so one sync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from warren.message import Receipt
from warren.storage.format.record import Packed


class Ticket:
    """A put that waits for its sync: its records, and then its receipt or its error."""

    __slots__ = ("batch", "error", "receipt")

    def __init__(self, batch: Sequence[Packed]) -> None:
        self.batch = batch
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None

    def result(self) -> Receipt:
        if self.error is not None:
            raise self.error
        assert self.receipt is not None
        return self.receipt


class TicketGroup:
    """Tickets that are committed together. `settled` is held until they are committed or have failed."""

    __slots__ = ("settled", "tickets")

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.settled = threading.Lock()
        self.settled.acquire()


class GroupCommit:
    """Commits the puts of many threads together, one commit at a time. `commit` settles every ticket it gets.

    Threads that arrive during a sync form the next group. The first of them leads it: when its turn comes, it commits
    for all threads that have joined. Then one thread of the group wakes, and each wakes the next, because only one can
    run at a time.
    """

    def __init__(self, commit: Callable[[Sequence[Ticket]], None]) -> None:
        self._commit = commit
        self._leading, self._joining = threading.Lock(), threading.Lock()
        self._forming = TicketGroup()

    @property
    def waiting_count(self) -> int:
        """How many puts wait to be part of a commit."""
        return len(self._forming.tickets)

    def settle(self, tickets: Sequence[Ticket]) -> None:
        """Returns when all tickets, at least one, have been committed or have failed."""
        with self._joining:
            group = self._forming
            leads = not group.tickets
            group.tickets += tickets
        if leads:
            self._lead(group)
        else:
            with group.settled:
                pass

    def _lead(self, group: TicketGroup) -> None:
        try:
            with self._leading:
                self._form_another(group)
                self._commit(group.tickets)
        except BaseException as error:  # noqa: BLE001  # each of the group raises it in its own thread
            # A signal may have come before our turn. No thread may join a group that has lost its leader.
            self._form_another(group)
            for ticket in group.tickets:
                ticket.error = ticket.error or error
        finally:
            group.settled.release()

    def _form_another(self, group: TicketGroup) -> None:
        """Closes the group: threads that arrive from now on join another one."""
        with self._joining:
            if self._forming is group:
                self._forming = TicketGroup()

    # --- Without a group ---

    def try_lead(self) -> bool:
        """Returns whether the caller may commit by itself. If so, it calls `let_lead` afterwards."""
        return not self._forming.tickets and self._leading.acquire(blocking=False)

    def let_lead(self) -> None:
        """Lets the next group, if one has formed, be committed."""
        self._leading.release()
