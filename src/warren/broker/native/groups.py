"""Groups of topics for Warren's own clients: the broker holds one member for each group that a client opens."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from warren.api.values import Where
from warren.broker.native.call import Call
from warren.broker.native.handler import (
    awaited,
    checked_choice,
    checked_limit,
    in_memory,
    in_turns,
    none_where,
    session_of,
    wait_of,
)
from warren.broker.native.held_stream import Attempt, HeldStream, count_within
from warren.broker.native.limits import NATIVE_ANSWER_SIZE_TARGET
from warren.broker.native.read import size_of
from warren.broker.native.sessions import HeldObject
from warren.broker.security.broker_view import HandleNames
from warren.clock import EPOCH
from warren.errors import BadInput, GroupClosed, LeaseLost, MessageTooLarge, NeedsMemory, WarrenError
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message, named
from warren.protocol.native.calls import ANY, positions_of, settings_of, wire_positions, wire_settings
from warren.protocol.native.records import carried
from warren.protocol.native_messages import (
    CommitGroupRequest,
    CommitGroupResponse,
    ConfigureGroupRequest,
    ConfigureGroupResponse,
    DeleteGroupRequest,
    DeleteGroupResponse,
    DescribeGroupRequest,
    DescribeGroupResponse,
    OpenGroupRequest,
    OpenGroupResponse,
    ReadGroupRequest,
    ReadGroupResponse,
    SeekGroupRequest,
    SeekGroupResponse,
    SettleRequest,
    SettleResponse,
    TakeRequest,
    TakeResponse,
    WireLeases,
    WireMessages,
)
from warren.queue.leases.lease_check import Settlement
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.group_settings import GROUP_OPTIONS
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.stream_group import StreamGroup
from warren.storage import END, START
from warren.storage.read.messages import ScanRoom

NATIVE_TAKEN_FIRST: Final = 16
"""How many messages a worker takes first, so that the broker learns their size before it takes more."""
ACTIONS: Final = ("ack", "nack", "reject", "extend")
DESTINATIONS: Final = ("number", "time", "start", "end", "rewind")
TAKEN_SWEPT_FROM: Final = 1024
"""When a worker has taken this many messages, those that it no longer holds are forgotten."""
MessageKey = tuple[int, int]


class HeldWork(HeldObject):
    """A worker of a queue group that a client has open. Any thread may use it.

    Invariant: each message that was taken and is not settled is in `_taken`, and is given back when the client has
    disconnected.
    """

    def __init__(self, group: QueueGroup) -> None:
        self.group = group
        self._taken: dict[MessageKey, int] = {}
        self._swept_at = TAKEN_SWEPT_FROM
        self._size_mean = 0.0
        """The mean body size of the messages that were taken last; 0 if none was taken yet."""
        self._mutex = threading.Lock()
        self._is_left = self._is_closed = False

    @property
    def names(self) -> HandleNames:
        return HandleNames(str(self.group.topic.name), self.group.name)

    def take(self, limit: int, size_max: int, room: ScanRoom) -> tuple[WireMessages, list[Message]] | None:
        """Takes messages of about `size_max` bytes, without a wait. Returns them encoded and as objects.

        Returns None if the scan reached the end and found none.

        Raises MessageTooLarge if the first one fits into no answer. That one stays leased to the client, which has to
        settle it, and the others are given back.
        """
        if self._is_left:
            raise GroupClosed(self.group.topic.name, self.group.name)
        if len(self._taken) >= self._swept_at:
            self._sweep()
        messages = self._take_within(limit, size_max, room)
        if not messages:
            return None
        try:
            sent, count = carried(messages[: count_within(messages, size_max)])
        except MessageTooLarge:
            self.give_back(messages[1:])
            raise
        except BaseException:
            self.give_back(messages)
            raise
        self.give_back(messages[count:])
        return sent, messages[:count]

    def _take_within(self, limit: int, size_max: int, room: ScanRoom) -> list[Message]:
        """Returns up to `limit` messages: first a few, then as many as fit into `size_max` by the mean size so far."""
        result: list[Message] = []
        size, step = 0, min(limit, NATIVE_TAKEN_FIRST)
        if self._size_mean:
            step = min(limit, max(1, int(size_max / self._size_mean)))
        while step > 0:
            try:
                messages = self._take(step, room)
            except NeedsMemory:
                if step == 1 and not result:
                    raise
                # They are large, and are taken one by one. If some were taken before, those are returned.
                step = 0 if result else 1
                continue
            except WarrenError:
                # The messages that were taken are returned. The next call raises the error again.
                if not result:
                    raise
                break
            result += messages
            size += sum(len(message.body) for message in messages)
            if not result or len(messages) < step:
                break
            self._size_mean = max(1.0, size / len(result))
            step = min(limit - len(result), int((size_max - size) / self._size_mean))
        return result

    def _take(self, limit: int, room: ScanRoom) -> list[Message]:
        # The client extends the leases of the messages that it works on.
        messages = self.group.take_within(limit, room)
        with self._mutex:
            self._taken.update({(message.partition, message.number): message.attempt for message in messages})
            is_late = self._is_closed
        if is_late:
            self.close()
        return messages

    def _sweep(self) -> None:
        """Forgets the messages that the worker no longer holds. Runs again when their number has doubled."""
        attempts = dict(self._taken)
        topic = self.group.topic
        leased = self.group.still_leased([named(topic.name, *place, attempt) for place, attempt in attempts.items()])
        places = {(message.partition, message.number) for message in leased}
        with self._mutex:
            for place, attempt in attempts.items():
                # It may have been taken again in between.
                if place not in places and self._taken.get(place) == attempt:
                    del self._taken[place]
            self._swept_at = max(TAKEN_SWEPT_FROM, 2 * len(self._taken))

    def is_over(self) -> bool:
        """Returns whether the client has closed the worker and holds none of its messages any more."""
        if not self._is_left:
            return False
        topic = self.group.topic
        if topic.store.opened_topic(topic.name) is not topic:
            # The group was deleted, even if a new one has its name.
            return True
        self._sweep()
        return not self._taken

    def give_back(self, messages: Sequence[Message]) -> None:
        """Gives back messages that the client did not get, for other workers. The attempt does not count."""
        if messages:
            self.group.give_back(messages)
            self._forget(messages)

    def settle(
        self,
        action: str,
        messages: Sequence[Message],
        one_by_one: Settlement[Message],
        seconds: float | None,
        reason: str,
    ) -> None:
        """Acknowledges, gives back, buries or extends all messages. Raises LeaseLost at the end if some were lost.

        If it raises NeedsMemory, another call with the same `one_by_one` continues with the messages that are left.
        """
        group = self.group
        if action == "extend":
            group.extend_many(messages, seconds or 0.0)
            return
        if action == "ack":
            group.ack_many(messages)
        elif action == "nack":
            one_by_one.settle_rest(lambda message: group.nack(message, seconds, reason))
        else:
            one_by_one.settle_rest(lambda message: group.reject(message, reason))
        self._forget(messages)

    def _forget(self, messages: Sequence[Message]) -> None:
        with self._mutex:
            for message in messages:
                self._taken.pop((message.partition, message.number), None)

    def leave(self) -> bool:
        self._is_left = True
        if self._taken:
            self.group.chooser.forget_ahead()
            return True
        self.close()
        return False

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            attempts, self._taken = self._taken, {}
        for (partition, number), attempt in attempts.items():
            # Another worker may have leased it in between, or a transaction acknowledged it.
            with suppress(LeaseLost):
                self.group.nack(named(self.group.topic.name, partition, number, attempt), 0.0)
        self.group.close()


def named_all(topic: TopicView, places: WireLeases) -> list[Message]:
    """Returns the messages that a request names. Raises BadInput if its columns differ in length."""
    if not len(places.partitions) == len(places.numbers) == len(places.attempts):
        raise BadInput("a place is a partition, a number and an attempt")
    columns = zip(places.partitions, places.numbers, places.attempts, strict=True)
    return [named(topic.name, *place) for place in columns]


def options_of(request: OpenGroupRequest | ConfigureGroupRequest) -> dict[str, Any]:
    """Returns the group options of a request. Raises BadInput for an unknown one."""
    options = settings_of(request.settings)
    GROUP_OPTIONS.check_names(options)
    return options


async def open_group(call: Call, request: OpenGroupRequest) -> OpenGroupResponse:
    """Opens a member of a group by a handle of the client. Creates the group if it does not exist."""
    session = session_of(call)

    def opened() -> OpenGroupResponse:
        topic = call.broker.store.existing_topic(request.topic)
        options = options_of(request)
        mode: Any = checked_choice("mode", request.mode, ("stream", "queue"))
        group = topic.group(request.group, mode=mode, **options)
        session.hold(request.handle, HeldStream(group) if isinstance(group, StreamGroup) else HeldWork(group))
        member = group.id if isinstance(group, StreamGroup) else ""
        return OpenGroupResponse(member=member, settings=wire_settings(group.settings.to_json()))

    return await call.broker.in_thread(opened)


async def configure_group(call: Call, request: ConfigureGroupRequest) -> ConfigureGroupResponse:
    """Changes settings of a group. Returns all its settings."""
    topic = await call.broker.opened_topic(request.topic)
    changes = options_of(request)
    changed = await call.broker.in_thread(topic.configure_group, request.group, **changes)
    return ConfigureGroupResponse(settings=wire_settings(changed.to_json()))


async def delete_group(call: Call, request: DeleteGroupRequest) -> DeleteGroupResponse:
    """Removes a group with its positions and leases."""
    topic = await call.broker.opened_topic(request.topic)
    await call.broker.in_thread(topic.delete_group, request.group)
    return DeleteGroupResponse()


async def describe_group(call: Call, request: DescribeGroupRequest) -> DescribeGroupResponse:
    """Returns the state of a group that the client has open."""
    held = held_group(call, request.handle)
    return await call.broker.in_thread(_described, held, request.is_dead_wanted)


def held_group(call: Call, handle: int) -> HeldStream | HeldWork:
    """Returns a group that the client has open, of either mode. Raises BadInput if the handle is not a group."""
    held: Any = session_of(call).find(handle, object)  # type: ignore[type-var]
    if not isinstance(held, HeldStream | HeldWork):
        raise BadInput(f"handle {handle} is not a group")
    return held


def _described(held: HeldStream | HeldWork, is_dead_wanted: bool) -> DescribeGroupResponse:
    if isinstance(held, HeldWork):
        work = held.group
        dead = str(work.dead.name) if is_dead_wanted else ""
        return DescribeGroupResponse(lag=wire_positions(work.lag()), in_flight=work.in_flight(), dead=dead)
    group = held.group
    return DescribeGroupResponse(
        positions=wire_positions(group.positions()),
        owned=group.partitions,
        members=group.members(),
        read=wire_positions(group.read_positions()),
        lag=wire_positions(group.lag()),
    )


async def read_group(call: Call, request: ReadGroupRequest) -> ReadGroupResponse:
    """Returns messages of the partitions that the member owns. Waits if there is none."""
    session = session_of(call)
    held, serial, this = session.find(request.handle, HeldStream), request.serial, Attempt(request.attempt)
    limit, size = min(checked_limit(request.limit), READ_LIMIT_DEFAULT), size_of(call, request.bytes_max)
    wait_s = wait_of(request)
    await call.broker.in_thread(held.begin, serial, this, request.open_from)

    async def attempt(is_rung: bool) -> WireMessages | None:
        return await in_turns(call, request, lambda room: held.read(serial, this, limit, size, room))

    sent = await awaited(call, request, wait_s, lambda: held.group.topic.logs, attempt, session)
    return ReadGroupResponse(messages=sent, owned=held.group.partitions)


async def commit_group(call: Call, request: CommitGroupRequest) -> CommitGroupResponse:
    """Commits everything that was read, or everything before the positions."""
    held = session_of(call).find(request.handle, HeldStream)
    positions = None if request.positions is None else positions_of(request.positions)
    positions_committed = await call.broker.in_thread(held.group.commit, positions)
    return CommitGroupResponse(positions=wire_positions(positions_committed))


async def seek_group(call: Call, request: SeekGroupRequest) -> SeekGroupResponse:
    """Moves to a number, a time, the start or the end, or back to the committed position."""
    held = session_of(call).find(request.handle, HeldStream)
    to = checked_choice("to", request.to, DESTINATIONS)
    if to == "rewind":
        await call.broker.in_thread(held.group.rewind)
        return SeekGroupResponse()
    where: Where = _where(to, request.where)
    numbers: Mapping[int, int] = await call.broker.in_thread(held.group.seek, where, none_where(request.partition, ANY))
    return SeekGroupResponse(positions=wire_positions(numbers))


def _where(to: str, where: int) -> Where:
    if to in ("start", "end"):
        return START if to == "start" else END
    return where if to == "number" else EPOCH + timedelta(microseconds=where)


async def take(call: Call, request: TakeRequest) -> TakeResponse:
    """Leases messages of a queue group. Waits if there is none."""
    held = (session := session_of(call)).find(request.handle, HeldWork)
    limit, wait_s = min(checked_limit(request.limit), READ_LIMIT_DEFAULT), wait_of(request)
    topic, queue_key = held.group.topic, (str(held.group.topic.name), held.group.name)
    size_max = call.broker.budget.answer_size_max(NATIVE_ANSWER_SIZE_TARGET)
    messages: list[Message] = []

    async def attempt(is_rung: bool) -> WireMessages | None:
        nonlocal messages
        result = await in_turns(call, request, lambda room: held.take(limit, size_max, room))
        await call.broker.ahead_memory.keep(held.group, call.peer.owner)
        if result is None:
            return None
        sent, messages = result
        if not is_rung:
            # No put announced these messages, so there may be more. Wake the other requests that wait.
            for log in topic.logs:
                call.broker.long_polls.ring(log)
        return sent

    sharing = call.broker.poll_sharing
    with sharing.waiting(queue_key):
        sent = await awaited(
            call, request, wait_s, lambda: topic.logs, attempt, session, lambda: sharing.pause_s(queue_key)
        )
    if messages and not request.call_number and not call.broker.sessions.has(call.peer):
        await call.broker.in_thread(held.give_back, messages)
    return TakeResponse(messages=sent)


async def settle(call: Call, request: SettleRequest) -> SettleResponse:
    """Acknowledges, gives back, rejects or extends messages. A negative time means the time of the group's settings."""
    held = session_of(call).find(request.handle, HeldWork)
    action = checked_choice("action", request.action, ACTIONS)
    topic = held.group.topic
    seconds = None if request.seconds < 0 else request.seconds

    one_by_one: Settlement[Message] | None = None

    def settle() -> None:
        nonlocal one_by_one
        messages = named_all(topic, request.places)
        one_by_one = one_by_one or Settlement(messages)
        held.settle(action, messages, one_by_one, seconds, request.reason)

    # A message that becomes a dead letter is read, and may be large.
    await in_memory(call, settle)
    if action in ("nack", "reject"):
        for log in topic.logs:
            call.broker.long_polls.ring(log)
    return SettleResponse()
