"""Durable queues for clients of our own."""

from __future__ import annotations

import threading
from queue import Empty, Full
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.own.answering import awaited, checked_choice, session_of, wait_of
from warren.broker.own.sessions import Held, Session, Stand
from warren.errors import GONE, BadInput, NoSuchTopic
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY, settings_of
from warren.queue.durable_queue import DurableQueue
from warren.queue.settings import check_known

ACTIONS: Final = ("put", "get", "done", "join", "size")
LOOK_S: Final = 0.05
"""How often whoever waits for room, or for others to finish, looks."""
Found = tuple[Any] | None
"""A result, or None where there is none yet."""


class HeldQueue(Held):
    """A durable queue that a client has open. Any thread may use it.

    What the client has got and is not done with when it is gone is nobody's task any more.
    """

    def __init__(self, queue: DurableQueue[bytes]) -> None:
        self.queue = queue
        self._working = 0
        self._mutex = threading.Lock()

    @property
    def stand(self) -> Stand:
        return Stand(str(self.queue.topic.name))

    def put(self, item: bytes, delay: float | None) -> Found:
        try:
            self.queue.put_nowait(item, delay=delay)
        except Full:
            return None
        return (b"",)

    def get(self) -> Found:
        try:
            item = self.queue.get_nowait()
        except Empty:
            return None
        with self._mutex:
            self._working += 1
        return (item,)

    def done(self) -> Found:
        with self._mutex:
            # Of this client: others have tasks of their own, which the queue does not tell apart.
            if not self._working:
                raise BadInput("task_done() was called more often than items were got")
            self._working -= 1
        self.queue.task_done()
        return (b"",)

    def join(self) -> Found:
        return (b"",) if self.queue.join(0) else None

    def leave(self) -> bool:
        return self._working > 0

    def close(self) -> None:
        while self._working > 0:
            self.done()


async def open_queue(call: Call, asked: Fields) -> Values:
    """The durable queue of this name, made where there is none."""
    session, settings = session_of(call), settings_of(asked.settings)
    check_known(settings)
    # Items are bytes to the broker, which reads none of them: the codec is the client's.
    queue = await call.broker.allotment.admit(
        call, asked.queue, lambda: call.broker.store.queue(asked.queue, asked.maxsize, codec="bytes", **settings)
    )
    session.hold(asked.handle, HeldQueue(queue))
    return {}


async def use_queue(call: Call, asked: Fields) -> Values:
    """Put, get, or tell that an item is done with. `is_done` is false where that was not possible in time."""
    session = session_of(call)
    held = session.find(asked.handle, HeldQueue)
    try:
        return await _used(call, asked, session, held)
    except GONE as error:
        raise NoSuchTopic(held.queue.topic.name) from error


async def _used(call: Call, asked: Fields, session: Session, held: HeldQueue) -> Values:
    action = checked_choice("action", asked.action, ACTIONS)
    if action == "size":
        return {"is_done": True, "count": await call.broker.in_thread(held.queue.qsize)}
    delay = None if asked.delay == ANY else asked.delay / 1_000_000
    work = {"put": lambda: held.put(asked.item, delay), "get": held.get, "done": held.done, "join": held.join}[action]

    async def attempt(is_rung: bool) -> Found:
        return await call.broker.in_thread(work)

    logs = held.queue.topic.logs
    if action == "get":
        found = await awaited(call, asked, wait_of(asked), lambda: logs, attempt, session)
    else:
        found = await awaited(call, asked, wait_of(asked), lambda: (), attempt, session, lambda: LOOK_S)
    if action == "put" and found is not None:
        call.broker.long_polls.ring(logs[0])
    return {"is_done": found is not None, "item": found[0] if found else b""}
