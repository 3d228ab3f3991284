"""A store whose queue groups give up on messages, for tests of dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.message import Message
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.group_settings import GroupSettings
from warren.queue.store import Store
from warren.storage import Log

LEASE_S = 10.0


class Bench:
    """A store with the topic `orders`, whose groups give up on a message after two attempts."""

    def __init__(self, path: Path, **topic_settings: Any) -> None:
        self.path, self.topic_settings = path, {"durability": "os", "partitions": 2, **topic_settings}
        self.clock, self.disk = SimulatedClock(), QUICK_DISK
        self.store = self.open()
        self.topic = self.store.topic("orders", **self.topic_settings)

    def open(self) -> Store:
        return quick_store(self.path, clock=self.clock, filesystem=self.disk)

    def group(self, store: Store | None = None, name: str = "workers", **settings: Any) -> QueueGroup:
        values = {"mode": "queue", "lease_s": LEASE_S, "attempts_max": 2, "backoff_s": 0.0, **settings}
        topic = (store or self.store).topic("orders")
        return QueueGroup(topic, name, GroupSettings(**values))

    def letters(self, topic: str = "orders.dead") -> list[Message]:
        if not self.store.has_topic(topic):
            return []
        return self.store.topic(topic).partition(0).read(0, limit=10_000)

    def wait(self, seconds: float) -> None:
        self.clock.pass_ns(round(seconds * 1e9))


def fail(group: QueueGroup, reason: str = "no luck") -> None:
    """Takes all messages and gives them back."""
    for message in group.take(100):
        group.nack(message, 0.0, reason)


class Stopped(Exception):
    """Raised where a test stops a move."""


def stop_at(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Every later move of messages stops: before its batch, or after it."""
    append_many = Log.append_many

    def stopping(log: Log, *args: Any, marker: bytes = b"", **options: Any) -> range:
        if marker and where == "before":
            raise Stopped
        numbers = append_many(log, *args, marker=marker, **options)
        if marker:
            raise Stopped
        return numbers

    monkeypatch.setattr(Log, "append_many", stopping)
