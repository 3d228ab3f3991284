"""Stores for tests of transactions: their content, and the deaths of their processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_clock import SimulatedClock
from warren.message import Message
from warren.storage.disk.filesystem import FileSystem
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction


class Failed(Exception):
    """Raised by a block to abort its transaction."""


class Killed(BaseException):
    """Stands for the kill of the process at some point."""


def open_store(path: Path, clock: SimulatedClock, filesystem: FileSystem = QUICK_DISK, **defaults: Any) -> Store:
    return Store(path / "store", defaults=defaults, keeps=False, filesystem=filesystem, clock=clock)


def messages(store: Store, topic: str) -> list[Message]:
    return [message for log in store.topic(topic).logs for message in log.read(log.first, limit=1 << 20)]


def bodies(store: Store, topic: str) -> list[bytes]:
    return [message.body for message in messages(store, topic)]


def put_two(transaction: Transaction) -> Transaction:
    """Puts messages into two topics, so that one record is not enough."""
    transaction.put("orders", b"order")
    transaction.put("audit", b"noted")
    return transaction


def journal_size(store: Store) -> int:
    directory = Path(store.path) / "transactions" / "journal"
    return sum(path.stat().st_size for path in directory.glob("*.block"))


def die(store: Store) -> None:
    """Leaves as a killed process does: nothing more is written, and the session is over."""
    store.keeper.stop()
    store.session.close()


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    def killed(*arguments: object, **named: object) -> None:
        raise Killed

    monkeypatch.setattr(owner, name, killed)
