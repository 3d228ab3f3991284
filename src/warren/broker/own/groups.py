"""Groups of topics for clients of our own: a member at the broker for each that a client opens."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.own.answering import awaited, checked_choice, in_turns, limit_of, none_where, session_of, wait_of
from warren.broker.own.reading import size_of
from warren.broker.own.sessions import Held, Stand
from warren.clock import EPOCH
from warren.config import OWN_ANSWER_SIZE_TARGET, OWN_TAKEN_FIRST, READ_LIMIT_DEFAULT
from warren.errors import BadInput, GroupClosed, LeaseLost, MessageTooLarge, NoSuchHandle, WarrenError
from warren.message import Message, named
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY, position_values, positions_of, setting_values, settings_of
from warren.protocol.own_records import carried
from warren.queue.groups import check_options
from warren.queue.positions import Where
from warren.queue.queue_group import QueueGroup
from warren.queue.stream_group import StreamGroup
from warren.queue.taken import settle_each
from warren.queue.topic import Topic
from warren.storage import END, START
from warren.storage.read import ScanRoom

ACTIONS: Final = ("ack", "nack", "reject", "extend")
DESTINATIONS: Final = ("number", "time", "start", "end", "rewind")
READS_REMEMBERED: Final = 16
"""What so many reads of a member gave is known again."""
TRIES_SWEPT_FROM: Final = 16
"""Of so many tries of reads it is looked which are over."""
TAKEN_SWEPT_FROM: Final = 1024
"""Of so many messages that a worker took it is looked which of them it still has."""
Place = tuple[int, int]


@dataclass(slots=True, eq=False)
class Try:
    """One try of a read; one that is over reads no more."""

    is_over: bool = False


class HeldStream(Held):
    """A member of a stream group that a client has open. Any thread may use it.

    Invariant: what a read gave is known by its serial for a while. One that is asked for again is given again, and an
    earlier try of it that still waits reads nothing any more: so nothing is passed over that the client never got.
    """

    def __init__(self, group: StreamGroup) -> None:
        self.group = group
        self._given: OrderedDict[int, list[Message]] = OrderedDict()
        """By the serial of a read, the first message that it gave of each partition, without its body."""
        self._tries: dict[int, Try] = {}
        self._named: dict[int, int] = {}
        """By partition, the number of the message that the client was told of because it is too large."""
        self._mutex = threading.Lock()

    @property
    def stand(self) -> Stand:
        return Stand(str(self.group.topic.name), self.group.name)

    def begin(self, serial: int, attempt: Try, *, is_retry: bool) -> None:
        """This is the try of the read `serial` that counts."""
        with self._mutex:
            if len(self._tries) >= TRIES_SWEPT_FROM:
                self._tries = {number: other for number, other in self._tries.items() if not other.is_over}
            self._tries[serial] = attempt
            given = self._given.pop(serial, None)
            if given and is_retry:
                # The answer was lost on its way.
                self.group.unread(given)

    def read(self, serial: int, attempt: Try, limit: int, size_max: int, room: ScanRoom) -> Values:
        """The fields of messages of about `size_max` bytes, without a wait; empty if `room` sufficed to find none.

        Raises NoSuchHandle if another try counts by now, and MessageTooLarge if the next message fits into no answer.
        An error moves nothing: what was read for an answer that cannot be built is read again.
        """
        with self._mutex:
            if self._tries.get(serial) is not attempt:
                raise NoSuchHandle(0)
            messages = self.group.read_within(limit, size_max, room)
            try:
                values, given = self._carried(messages, size_max)
            except BaseException:
                self.group.unread(messages)
                raise
            if len(given) < len(messages):
                places = {(message.partition, message.number) for message in given}
                self.group.unread([each for each in messages if (each.partition, each.number) not in places])
            if given:
                first = {message.partition: message.number for message in reversed(given)}
                self._given[serial] = [named(str(self.group.topic.name), *place, 0) for place in first.items()]
                while len(self._given) > READS_REMEMBERED:
                    self._given.popitem(last=False)
            return values

    def _carried(self, messages: Sequence[Message], size_max: int) -> tuple[Values, list[Message]]:
        """The fields of the messages that go into the answer, and these messages."""
        try:
            values, count = carried(messages[: _count_within(messages, size_max)])
            return values, list(messages[:count])
        except MessageTooLarge as error:
            others = [message for message in messages if message.partition != error.partition]
            if not others or self._named.get(error.partition) != error.number:
                self._named[error.partition] = error.number
                raise
        # The client was told of it, and still stands before it: the other partitions do not wait for that.
        return self._carried(others, size_max)

    def close(self) -> None:
        self.group.close()


def _count_within(messages: Sequence[Message], size_max: int) -> int:
    """How many of the messages are not too large together: the first one in any case."""
    size = 0
    for count, message in enumerate(messages):
        size += len(message.body)
        if size > size_max and count:
            return count
    return len(messages)


class HeldWork(Held):
    """A worker of a queue group that a client has open. Any thread may use it.

    Invariant: what was taken and is not settled is in `_taken`, and given back when the client is gone.
    """

    def __init__(self, group: QueueGroup) -> None:
        self.group = group
        self._taken: dict[Place, int] = {}
        self._swept_at = TAKEN_SWEPT_FROM
        self._size_mean = 0.0
        """How many bytes the bodies had on average that were taken last; 0 if none was taken yet."""
        self._mutex = threading.Lock()
        self._is_left = self._is_closed = False

    @property
    def stand(self) -> Stand:
        return Stand(str(self.group.topic.name), self.group.name)

    def take(self, limit: int, size_max: int, room: ScanRoom) -> tuple[Values, list[Message]] | None:
        """Takes messages of about `size_max` bytes, without a wait: their fields, and the messages.

        Returns None if `room` sufficed to find none.

        Raises MessageTooLarge if the first one fits into no answer: that one stays leased to the client, which is to
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
            values, count = carried(messages[: _count_within(messages, size_max)])
        except MessageTooLarge:
            self.give_back(messages[1:])
            raise
        except BaseException:
            self.give_back(messages)
            raise
        self.give_back(messages[count:])
        return values, messages[:count]

    def _take_within(self, limit: int, size_max: int, room: ScanRoom) -> list[Message]:
        """Up to `limit` messages, first few and then as many as `size_max` has room for, by the sizes seen so far."""
        taken: list[Message] = []
        size, step = 0, min(limit, OWN_TAKEN_FIRST)
        if self._size_mean:
            step = min(limit, max(1, int(size_max / self._size_mean)))
        while step > 0:
            try:
                messages = self._take(step, room)
            except WarrenError:
                # What was taken is given; the next call meets the error again.
                if not taken:
                    raise
                break
            taken += messages
            size += sum(len(message.body) for message in messages)
            if not taken or len(messages) < step:
                break
            self._size_mean = max(1.0, size / len(taken))
            step = min(limit - len(taken), int((size_max - size) / self._size_mean))
        return taken

    def _take(self, limit: int, room: ScanRoom) -> list[Message]:
        # The client renews what it has in hand.
        messages = self.group.take_within(limit, room)
        with self._mutex:
            self._taken.update({(message.partition, message.number): message.attempt for message in messages})
            is_late = self._is_closed
        if is_late:
            self.close()
        return messages

    def _sweep(self) -> None:
        """Forget what the worker has no more, whoever settled it: next when it is twice as much as is left."""
        taken = dict(self._taken)
        topic = self.group.topic
        leased = self.group.still_leased([named(topic.name, *place, attempt) for place, attempt in taken.items()])
        kept = {(message.partition, message.number) for message in leased}
        with self._mutex:
            for place, attempt in taken.items():
                # It may have been taken again meanwhile.
                if place not in kept and self._taken.get(place) == attempt:
                    del self._taken[place]
            self._swept_at = max(TAKEN_SWEPT_FROM, 2 * len(self._taken))

    def is_over(self) -> bool:
        """Where the client wants no more of it: whether it has none of the messages any more."""
        if not self._is_left:
            return False
        topic = self.group.topic
        if topic.store.opened_topic(topic.name) is not topic:
            # Deleted, whatever is made in its place.
            return True
        self._sweep()
        return not self._taken

    def give_back(self, messages: Sequence[Message]) -> None:
        """The client did not get these: other workers can take them at once, and the attempt does not count."""
        if messages:
            self.group.give_back(messages)
            self._forget(messages)

    def settle(self, action: str, messages: Sequence[Message], seconds: float | None, reason: str) -> None:
        """Acknowledges, gives back, buries or extends. Raises LeaseLost for all messages that were lost, at the end."""
        group = self.group
        if action == "extend":
            group.extend_many(messages, seconds or 0.0)
            return
        if action == "ack":
            group.ack_many(messages)
        elif action == "nack":
            settle_each(messages, lambda message: group.nack(message, seconds, reason))
        else:
            settle_each(messages, lambda message: group.reject(message, reason))
        self._forget(messages)

    def _forget(self, messages: Sequence[Message]) -> None:
        with self._mutex:
            for message in messages:
                self._taken.pop((message.partition, message.number), None)

    def leave(self) -> bool:
        self._is_left = True
        if self._taken:
            return True
        self.close()
        return False

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            taken, self._taken = self._taken, {}
        for (partition, number), attempt in taken.items():
            # Leased to somebody else meanwhile, or acknowledged in a transaction.
            with suppress(LeaseLost):
                self.group.nack(named(self.group.topic.name, partition, number, attempt), 0.0)
        self.group.close()


def named_all(topic: Topic, places: Fields) -> list[Message]:
    """The messages that a request names; BadInput where it does not say all that it takes of each."""
    if not len(places.partitions) == len(places.numbers) == len(places.attempts):
        raise BadInput("a place is a partition, a number and an attempt")
    columns = zip(places.partitions, places.numbers, places.attempts, strict=True)
    return [named(topic.name, *place) for place in columns]


def options_of(asked: Fields) -> dict[str, Any]:
    """The options of a group that a request gives. Raises BadInput for one that no group has."""
    options = settings_of(asked.settings)
    check_options(options)
    return options


async def open_group(call: Call, asked: Fields) -> Values:
    """A member of a group, which is made where there is none, by a handle of the client's."""
    session = session_of(call)

    def opened() -> Values:
        topic = call.broker.store.existing_topic(asked.topic)
        options = options_of(asked)
        mode: Any = checked_choice("mode", asked.mode, ("stream", "queue"))
        group = topic.group(asked.group, mode=mode, **options)
        session.hold(asked.handle, HeldStream(group) if isinstance(group, StreamGroup) else HeldWork(group))
        member = group.id if isinstance(group, StreamGroup) else ""
        return {"member": member, "settings": setting_values(group.settings.to_json())}

    return await call.broker.in_thread(opened)


async def configure_group(call: Call, asked: Fields) -> Values:
    """Changes settings of a group, and answers with those it has now."""
    topic = await call.broker.opened_topic(asked.topic)
    changes = options_of(asked)
    changed = await call.broker.in_thread(topic.configure_group, asked.group, **changes)
    return {"settings": setting_values(changed.to_json())}


async def delete_group(call: Call, asked: Fields) -> Values:
    """Remove a group with its positions and leases."""
    topic = await call.broker.opened_topic(asked.topic)
    await call.broker.in_thread(topic.delete_group, asked.group)
    return {}


async def describe_group(call: Call, asked: Fields) -> Values:
    """Where a group stands."""
    held = held_group(call, asked.handle)
    return await call.broker.in_thread(_described, held, asked.is_dead_wanted)


def held_group(call: Call, handle: int) -> HeldStream | HeldWork:
    """A group that the client has open, of either mode."""
    held: Any = session_of(call).find(handle, object)  # type: ignore[type-var]
    if not isinstance(held, HeldStream | HeldWork):
        raise BadInput(f"handle {handle} is no group")
    return held


def _described(held: HeldStream | HeldWork, is_dead_wanted: bool) -> Values:
    if isinstance(held, HeldWork):
        work = held.group
        dead = str(work.dead.name) if is_dead_wanted else ""
        return {"lag": position_values(work.lag()), "in_flight": work.in_flight(), "dead": dead}
    group = held.group
    return {
        "positions": position_values(group.positions()),
        "owned": group.partitions,
        "members": group.members(),
        "read": position_values(group.read_positions()),
        "lag": position_values(group.lag()),
    }


async def read_group(call: Call, asked: Fields) -> Values:
    """Messages of the partitions that the member owns; where there is none, waits."""
    session = session_of(call)
    held, serial, this = session.find(asked.handle, HeldStream), asked.serial, Try()
    limit, size, wait_s = min(limit_of(asked), READ_LIMIT_DEFAULT), size_of(call, asked), wait_of(asked)
    await call.broker.in_thread(held.begin, serial, this, is_retry=asked.is_retry)

    async def attempt(is_rung: bool) -> Values:
        return await in_turns(call, asked, lambda room: held.read(serial, this, limit, size, room))

    try:
        values = await awaited(call, asked, wait_s, lambda: held.group.topic.logs, attempt, session)
    finally:
        this.is_over = True
    return {"messages": values, "owned": held.group.partitions}


async def commit_group(call: Call, asked: Fields) -> Values:
    """What was read is done with, or what comes before the positions."""
    held = session_of(call).find(asked.handle, HeldStream)
    positions = None if asked.positions is None else positions_of(asked.positions)
    done = await call.broker.in_thread(held.group.commit, positions)
    return {"positions": position_values(done)}


async def seek_group(call: Call, asked: Fields) -> Values:
    """Go to a number, a time, the start or the end, or back to what is not committed."""
    held = session_of(call).find(asked.handle, HeldStream)
    to = checked_choice("to", asked.to, DESTINATIONS)
    if to == "rewind":
        await call.broker.in_thread(held.group.rewind)
        return {}
    where: Where = _where(to, asked.where)
    numbers: Mapping[int, int] = await call.broker.in_thread(held.group.seek, where, none_where(asked.partition, ANY))
    return {"positions": position_values(numbers)}


def _where(to: str, where: int) -> Where:
    if to in ("start", "end"):
        return START if to == "start" else END
    return where if to == "number" else EPOCH + timedelta(microseconds=where)


async def take(call: Call, asked: Fields) -> Values:
    """Lease messages of a queue group; where there is none, waits."""
    session = session_of(call)
    held = session.find(asked.handle, HeldWork)
    limit, wait_s = min(limit_of(asked), READ_LIMIT_DEFAULT), wait_of(asked)
    size_max = call.broker.budget.answer_size_max(OWN_ANSWER_SIZE_TARGET)
    topic, what = held.group.topic, (str(held.group.topic.name), held.group.name)
    messages: list[Message] = []

    async def attempt(is_rung: bool) -> Values:
        nonlocal messages
        taken = await in_turns(call, asked, lambda room: held.take(limit, size_max, room))
        if taken is None:
            return {}
        values, messages = taken
        if not is_rung:
            # There may be more that nobody has told of.
            for log in topic.logs:
                call.broker.long_polls.ring(log)
        return values

    looks = call.broker.looks
    with looks.waiting(what):
        values = await awaited(call, asked, wait_s, lambda: topic.logs, attempt, session, lambda: looks.pause_s(what))
    if messages and not asked.call_number and not call.broker.sessions.has(call.peer):
        await call.broker.in_thread(held.give_back, messages)
    return {"messages": values}


async def settle(call: Call, asked: Fields) -> Values:
    """Acknowledge, give back, bury or extend messages that were taken. A negative time is that of the group."""
    held = session_of(call).find(asked.handle, HeldWork)
    action = checked_choice("action", asked.action, ACTIONS)
    topic = held.group.topic
    seconds = None if asked.seconds < 0 else asked.seconds

    def settle() -> None:
        held.settle(action, named_all(topic, asked.places), seconds, asked.reason)

    await call.broker.in_thread(settle)
    if action in ("nack", "reject"):
        for log in topic.logs:
            call.broker.long_polls.ring(log)
    return {}


async def redrive(call: Call, asked: Fields) -> Values:
    """Put dead letters of a group back where they came from; how many."""
    held = session_of(call).find(asked.handle, HeldWork)
    limit = none_where(asked.limit, ANY)
    numbers: dict[int, list[int]] = {}
    for partition, number in zip(asked.places.partitions, asked.places.numbers, strict=False):
        numbers.setdefault(partition, []).append(number)
    count = await call.broker.in_thread(lambda: held.group.redrive(limit, numbers=numbers or None))
    for log in held.group.topic.logs:
        call.broker.long_polls.ring(log)
    return {"count": count}
