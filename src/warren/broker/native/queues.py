"""Durable queues for Warren's own clients."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from queue import Full
from typing import Final

from warren.broker.native.call import Call
from warren.broker.native.handler import awaited, checked_choice, in_memory, session_of, wait_of
from warren.broker.native.sessions import ClientSession, HeldObject
from warren.broker.security.broker_view import HandleNames
from warren.errors import GONE, BadInput, NeedsMemory, NoSuchTopic, NotAQueue
from warren.protocol.native.calls import ANY, settings_of
from warren.protocol.native_messages import OpenQueueRequest, OpenQueueResponse, UseQueueRequest, UseQueueResponse
from warren.queue.standalone.codec import codec_of
from warren.queue.standalone.durable_queue import DurableQueue
from warren.queue.state.settings import TOPIC_SETTINGS

ACTIONS: Final = ("put", "get", "back", "skip", "done", "join", "size")
LOOK_S: Final = 0.05
"""How often a request that waits for room, or in a join, polls the queue."""
GOT_REMEMBERED: Final = 1024
"""How many items, the latest ones, a client may give back: it does so as soon as it fails to read one."""
AHEAD_SIZE_MAX: Final = 64 << 10
"""How many bytes of items each client's queue reads ahead: they stay in memory between its requests."""
QueueReply = tuple[bytes, int] | None
"""An item and its number, or None if there is no result yet. Actions without an item give an empty one."""


class HeldQueue(HeldObject):
    """A durable queue that a client has open. Any thread may use it.

    When the client has disconnected, the items that it has received and not marked as done count as done.
    """

    def __init__(self, queue: DurableQueue[bytes]) -> None:
        self.queue = queue
        queue.ahead_size_max = AHEAD_SIZE_MAX
        self._working = 0
        self._recent: deque[int] = deque(maxlen=GOT_REMEMBERED)
        self._mutex = threading.Lock()

    @property
    def names(self) -> HandleNames:
        return HandleNames(str(self.queue.topic.name))

    def put(self, item: bytes, delay: float | None) -> QueueReply:
        try:
            self.queue.put_nowait(item, delay=delay)
        except Full:
            return None
        return (b"", 0)

    def get(self) -> QueueReply:
        entry = self.queue.take()
        if entry is None:
            return None
        with self._mutex:
            self._working += 1
            self._recent.append(entry[1])
        return entry

    def give_back(self, number: int) -> QueueReply:
        """Returns an item that the client cannot read. Raises BadInput if this client did not get it just now."""
        with self._mutex:
            if number not in self._recent or not self._working:
                raise BadInput(f"item {number} is none that this client got just now")
            self._recent.remove(number)
            self._working -= 1
        try:
            returned = self.queue.give_back(number)
        except NeedsMemory:
            # The read is repeated when there is memory for the item.
            with self._mutex:
                self._recent.append(number)
                self._working += 1
            raise
        return (b"", ANY if returned is None else returned)

    def skip(self, number: int) -> QueueReply:
        return (b"", 0) if self.queue.skip_number(number) else None

    def done(self) -> QueueReply:
        with self._mutex:
            # Counted for this client, because the queue does not distinguish the tasks of its clients.
            if not self._working:
                raise BadInput("task_done() was called more often than items were got")
            self._working -= 1
        self.queue.task_done()
        return (b"", 0)

    def join(self) -> QueueReply:
        return (b"", 0) if self.queue.join(0) else None

    def leave(self) -> bool:
        return self._working > 0

    def close(self) -> None:
        while self._working > 0:
            self.done()


async def open_queue(call: Call, request: OpenQueueRequest) -> OpenQueueResponse:
    """Opens the durable queue of this name. Makes it if there is none, unless it must exist."""
    session = session_of(call)
    if request.must_exist:
        queue = await call.broker.in_thread(_existing_queue, call, request)
    else:
        queue = await _made_queue(call, request)
    session.hold(request.handle, HeldQueue(queue))
    return OpenQueueResponse()


def _existing_queue(call: Call, request: OpenQueueRequest) -> DurableQueue[bytes]:
    topic = call.broker.store.existing_topic(request.queue)
    if not topic.is_queue:
        raise NotAQueue(request.queue)
    return DurableQueue(topic, request.maxsize, codec_of("bytes"))


async def _made_queue(call: Call, request: OpenQueueRequest) -> DurableQueue[bytes]:
    settings = settings_of(request.settings)
    TOPIC_SETTINGS.check_names(settings)
    # The broker handles items as bytes and decodes none of them, because the client chooses the codec.
    return await call.broker.allotment.admit(
        call, request.queue, lambda: call.broker.store.queue(request.queue, request.maxsize, codec="bytes", **settings)
    )


async def use_queue(call: Call, request: UseQueueRequest) -> UseQueueResponse:
    """Puts or gets an item, marks one as done, joins or counts. `is_done` is false if that was not possible in time."""
    session = session_of(call)
    held = session.find(request.handle, HeldQueue)
    try:
        return await _used(call, request, session, held)
    except GONE as error:
        raise NoSuchTopic(held.queue.topic.name) from error


async def _used(call: Call, request: UseQueueRequest, session: ClientSession, held: HeldQueue) -> UseQueueResponse:
    action = checked_choice("action", request.action, ACTIONS)
    if action == "size":
        return UseQueueResponse(is_done=True, count=await call.broker.in_thread(held.queue.qsize))
    delay = None if request.delay == ANY else request.delay / 1_000_000
    works: Mapping[str, Callable[[], QueueReply]] = {
        "put": lambda: held.put(request.item, delay),
        "get": held.get,
        "back": lambda: held.give_back(request.number),
        "skip": lambda: held.skip(request.number),
        "done": held.done,
        "join": held.join,
    }
    work = works[action]

    async def attempt(is_rung: bool) -> QueueReply:
        return await in_memory(call, work)

    logs = held.queue.topic.logs
    if action == "get":
        entry = await awaited(call, request, wait_of(request), lambda: logs, attempt, session)
    else:
        entry = await awaited(call, request, wait_of(request), lambda: (), attempt, session, lambda: LOOK_S)
    if action in ("put", "back") and entry is not None:
        call.broker.long_polls.ring(logs[0])
    item, number = entry or (b"", 0)
    return UseQueueResponse(is_done=entry is not None, item=item, count=number)
