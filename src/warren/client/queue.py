"""RemoteQueue: a durable queue at a broker, with the methods of `queue.Queue`."""

from __future__ import annotations

import math
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from warren.client.handle import Handle
from warren.client.net.call_steps import Steps, run, stepwise
from warren.client.net.session import same
from warren.clock import Duration
from warren.errors import UnreadableItem
from warren.protocol.native.calls import ANY, wire_settings
from warren.protocol.native_messages import OpenQueueRequest, UseQueueRequest, UseQueueResponse
from warren.queue.standalone.codec import Codec, read_item
from warren.queue.state.waits import Deadline, checked_count, checked_delay_s

if TYPE_CHECKING:
    from warren.client.remote_view import RemoteStoreView

T = TypeVar("T")
CHANGES: Final = frozenset(("put", "get", "done", "back", "skip"))
"""Actions that must not be carried out twice."""


class RemoteQueue(Generic[T]):
    """A queue in the store of a broker. Any thread may put and get.

    An item is in the queue when `put` returns. It is out of the queue, permanently, when the broker has handed it to a
    client. If that client or the broker dies at that moment, the item is lost. Use a queue group if no item may be
    lost.
    """

    def __init__(
        self,
        store: RemoteStoreView[object],
        name: str,
        maxsize: int,
        codec: Codec,
        settings: dict[str, Any],
    ) -> None:
        self.name, self.maxsize = name, checked_count("maxsize", maxsize, -math.inf, math.inf)
        self._codec = codec
        sent = wire_settings(settings)
        self._handle = Handle(
            store.calls,
            lambda number: OpenQueueRequest(number, name, maxsize, sent),
            # A queue that was deleted while the connections were lost is not created again.
            lambda number: OpenQueueRequest(number, name, maxsize, must_exist=True),
        )

    def _using(
        self, action: str, wait_s: float = 0.0, item: bytes = b"", delay: Duration | None = None, number: int = ANY
    ) -> Steps[UseQueueResponse]:
        delay_us = ANY if delay is None else round(checked_delay_s(delay) * 1_000_000)
        request = UseQueueRequest(handle=self._handle.number, action=action, item=item, delay=delay_us, number=number)
        repeat = None if action in CHANGES else same
        return self._handle.waiting(request, wait_s, lambda answer: answer.is_done, repeat=repeat)

    def _wait_s(self, block: bool, timeout: Duration | None) -> float:
        return Deadline(self._handle.calls.clock, block, timeout).left_s()

    # --- Putting ---

    def put(
        self, item: T, block: bool = True, timeout: Duration | None = None, *, delay: Duration | None = None
    ) -> None:
        """Adds an item. If the queue is full, waits for room, and raises Full if there is none in time.

        With a `delay`, the item can be got that many seconds later at the earliest. It counts in `qsize` immediately.
        """
        if not self.offer(item, self._wait_s(block, timeout), delay):
            raise Full

    @stepwise
    def offer(self, item: T, wait: float, delay: Duration | None = None) -> Steps[bool]:
        """Adds an item if there is room within `wait` seconds. Returns whether there was."""
        answer = yield from self._using("put", wait, self._codec.dumps(item), delay)
        return answer.is_done

    def put_nowait(self, item: T, *, delay: Duration | None = None) -> None:
        """Adds an item. Raises Full if there is no room."""
        self.put(item, block=False, delay=delay)

    # --- Getting ---

    def get(self, block: bool = True, timeout: Duration | None = None) -> T:
        """Removes the oldest item and returns it. If there is none, waits; raises Empty if none comes in time.

        Raises UnreadableItem if the codec cannot read the item. The item then stays in the queue until `skip` removes
        it.
        """
        item = self.poll(self._wait_s(block, timeout))
        if item is None:
            raise Empty
        return item[0]

    @stepwise
    def poll(self, wait: float) -> Steps[tuple[T] | None]:
        """Removes the oldest item and returns it in a tuple; None if none comes within `wait` seconds."""
        answer = yield from self._using("get", wait)
        if not answer.is_done:
            return None
        try:
            return (read_item(self._codec, self.name, answer.item, answer.count),)
        except UnreadableItem as error:
            # Only the client can decode items, so the broker had removed this one before anyone could know that it is
            # unreadable.
            returned = yield from self._using("back", number=answer.count)
            error.number = returned.count
            raise

    @stepwise
    def skip(self, error: UnreadableItem) -> Steps[bool]:
        """Removes the item that the codec could not read, if it is still the oldest one. Returns whether it was."""
        answer = yield from self._using("skip", number=error.number)
        return answer.is_done

    def get_nowait(self) -> T:
        """Removes the oldest item and returns it. Raises Empty if there is none."""
        return self.get(block=False)

    # --- Tasks ---

    def task_done(self) -> None:
        """Marks one item that this client got as done. Raises ValueError if no such item is left."""
        run(self._using("done"))

    def join(self, timeout: Duration | None = None) -> bool:
        """Waits until every item was got and marked as done, by any client. Returns whether that happened in time."""
        return self.finish(self._wait_s(True, timeout))

    @stepwise
    def finish(self, wait: float) -> Steps[bool]:
        """Waits as `join` does, for at most `wait` seconds."""
        answer = yield from self._using("join", wait)
        return answer.is_done

    # --- How many there are ---

    def qsize(self) -> int:
        """Returns how many items are in the queue."""
        return run(self._using("size")).count

    def empty(self) -> bool:
        return not self.qsize()

    def full(self) -> bool:
        return 0 < self.maxsize <= self.qsize()

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name}>"
