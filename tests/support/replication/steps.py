"""Puts in steps, as a broker does them: a crash test that is given `settle_in_steps` commits by `ShippedCommit`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from warren.storage.append.commit import Commit
from warren.storage.append.group_commit import Ticket
from warren.storage.append.shipped_commit import ShippedCommit


def settle_in_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes every put that can be done in steps be done in steps. Returns a list that gets their sizes."""
    ordinary, counts = Commit.settle, list[int]()

    def settle(commit: Commit, tickets: Sequence[Ticket]) -> None:
        begun = ShippedCommit.begin(commit, [ticket.batch for ticket in tickets])
        if begun is None:
            ordinary(commit, tickets)
            return
        finish(commit, begun, tickets)
        counts.append(len(tickets))

    monkeypatch.setattr(Commit, "settle", settle)
    return counts


def finish(commit: Commit, begun: ShippedCommit, tickets: Sequence[Ticket]) -> None:
    """Does the steps after `begin`, and fills the tickets."""
    done = threading.Event()
    if begun.sync(done.set) and not done.is_set():
        assert commit.shipping is not None
        commit.shipping.wait(commit.files.directory)
        assert done.is_set()
    for ticket, outcome in zip(tickets, begun.finish(), strict=True):
        if isinstance(outcome, BaseException):
            ticket.error = outcome
        else:
            ticket.receipt = outcome
