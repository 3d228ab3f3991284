"""RemoteQueue: a durable queue at a broker, with the methods of `queue.Queue`."""

from __future__ import annotations

import math
from collections.abc import Callable
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from warren.client.handle import Handle
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import setting_values
from warren.protocol.own_schemas import OwnKey
from warren.queue.waiting import Deadline, checked_count

if TYPE_CHECKING:
    from warren.client.store import RemoteStore

T = TypeVar("T")


class RemoteQueue(Generic[T]):
    """A queue in the store of a broker. Any thread may put and get.

    An item is in the queue when `put` returns, and out of it, for good, when the broker has given it: where the
    connection breaks at that moment, the item is lost with it. Use a queue group where it must not be.
    """

    def __init__(
        self,
        store: RemoteStore,
        name: str,
        maxsize: int,
        dumps: Callable[[T], bytes],
        loads: Callable[[bytes], T],
        settings: dict[str, Any],
    ) -> None:
        self.name, self.maxsize = name, checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._dumps, self._loads = dumps, loads
        values = {"queue": name, "maxsize": maxsize, "settings": setting_values(settings)}
        self._handle = Handle(store.calls, OwnKey.OPEN_QUEUE, values)

    def _use(self, action: str, wait_s: float = 0.0, item: bytes = b"") -> Fields:
        # Not sent again: an item would be there, or gone, twice.
        return self._handle.waited(
            OwnKey.USE_QUEUE, {"action": action, "item": item}, wait_s, lambda found: bool(found.is_done), repeat=None
        )

    def _wait_s(self, block: bool, timeout: float | None) -> float:
        return Deadline(self._handle.calls.clock, block, timeout).left_s()

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Where the queue is full, waits for room; Full where there is none in time."""
        if not self._use("put", self._wait_s(block, timeout), self._dumps(item)).is_done:
            raise Full

    def put_nowait(self, item: T) -> None:
        """Add an item; Full where there is no room."""
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove the oldest item and return it. Where there is none, waits for one; Empty where none comes in time."""
        found = self._use("get", self._wait_s(block, timeout))
        if not found.is_done:
            raise Empty
        return self._loads(found.item)

    def get_nowait(self) -> T:
        """Remove the oldest item and return it; Empty where there is none."""
        return self.get(block=False)

    def task_done(self) -> None:
        """An item that was got is done with; ValueError where none is left to be."""
        self._use("done")

    def join(self, timeout: float | None = None) -> bool:
        """Wait until every item was got and is done with, by whomever; whether that came in time."""
        return bool(self._use("join", self._wait_s(True, timeout)).is_done)

    def qsize(self) -> int:
        """How many items are in the queue."""
        return int(self._use("size").count)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name}>"
