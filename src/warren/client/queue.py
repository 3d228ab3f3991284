"""RemoteQueue: a durable queue at a broker, with the methods of `queue.Queue`."""

from __future__ import annotations

import math
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from warren.client.calls import same
from warren.client.handle import Handle
from warren.client.steps import Steps, run, stepwise
from warren.clock import Duration
from warren.protocol.kafka_codec import Fields
from warren.protocol.own_api import ANY, setting_values
from warren.protocol.own_schemas import OwnKey
from warren.queue.codec import Codec, read_item
from warren.queue.waiting import Deadline, checked_count, checked_delay_s

if TYPE_CHECKING:
    from warren.client.store import RemoteStore

T = TypeVar("T")
CHANGES: Final = frozenset(("put", "get", "done"))
"""What must not be done twice."""


class RemoteQueue(Generic[T]):
    """A queue in the store of a broker. Any thread may put and get.

    An item is in the queue when `put` returns, and out of it, for good, when the broker has given it: a client that
    dies at that moment, or finds that its broker has, takes the item along. Use a queue group where it must not be.
    """

    def __init__(
        self,
        store: RemoteStore,
        name: str,
        maxsize: int,
        codec: Codec,
        settings: dict[str, Any],
    ) -> None:
        self.name, self.maxsize = name, checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._codec = codec
        values = {"queue": name, "maxsize": maxsize, "settings": setting_values(settings)}
        self._handle = Handle(store.calls, OwnKey.OPEN_QUEUE, values)

    def _using(
        self, action: str, wait_s: float = 0.0, item: bytes = b"", delay: Duration | None = None
    ) -> Steps[Fields]:
        delay_us = ANY if delay is None else round(checked_delay_s(delay) * 1_000_000)
        values, repeat = {"action": action, "item": item, "delay": delay_us}, None if action in CHANGES else same
        return self._handle.waiting(OwnKey.USE_QUEUE, values, wait_s, lambda found: bool(found.is_done), repeat=repeat)

    def _wait_s(self, block: bool, timeout: Duration | None) -> float:
        return Deadline(self._handle.calls.clock, block, timeout).left_s()

    # --- Putting ---

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Adds an item. If the queue is full, waits for room, and raises Full if there is none in time.

        With a `delay` in seconds the item can be got that much later at the earliest. It counts in `qsize` from now on.
        """
        if not self.offer(item, self._wait_s(block, timeout), delay):
            raise Full

    @stepwise
    def offer(self, item: T, wait: float, delay: Duration | None = None) -> Steps[bool]:
        """Adds an item if there is room within `wait` seconds. Returns whether there was."""
        found = yield from self._using("put", wait, self._codec.dumps(item), delay)
        return bool(found.is_done)

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Adds an item. Raises Full if there is no room."""
        self.put(item, block=False, delay=delay)

    # --- Getting ---

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Removes the oldest item and returns it. If there is none, waits; raises Empty if none comes in time.

        Raises UnreadableItem if the codec cannot read the item. The broker has removed it; the error holds its bytes.
        """
        found = self.poll(self._wait_s(block, timeout))
        if found is None:
            raise Empty
        return found[0]

    @stepwise
    def poll(self, wait: float) -> Steps[tuple[T] | None]:
        """Remove the oldest item, alone in a tuple; None where none comes within `wait` seconds."""
        found = yield from self._using("get", wait)
        return (read_item(self._codec, self.name, found.item),) if found.is_done else None

    def get_nowait(self) -> T:
        """Remove the oldest item and return it; Empty where there is none."""
        return self.get(block=False)

    # --- Tasks ---

    def task_done(self) -> None:
        """An item that was got is done with; ValueError where none is left to be."""
        run(self._using("done"))

    def join(self, timeout: Duration | None = None) -> bool:
        """Wait until every item was got and is done with, by whomever; whether that came in time."""
        return self.finish(self._wait_s(True, timeout))

    @stepwise
    def finish(self, wait: float) -> Steps[bool]:
        """`join` for at most `wait` seconds."""
        found = yield from self._using("join", wait)
        return bool(found.is_done)

    # --- How many there are ---

    def qsize(self) -> int:
        """How many items are in the queue."""
        return int(run(self._using("size")).count)

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name}>"
