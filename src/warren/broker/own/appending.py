"""Append: records as the client packed them, checked and stamped; one that is sent again is written once."""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from warren.broker.call import Call
from warren.config import LOOP_CARRIED_SIZE_MAX, LOOP_ROWS_AT_ONCE, MARKER_SIZE_MAX, OWN_RETRIED_MAX
from warren.errors import BadInput, TooLarge
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import position_values, positions_of
from warren.protocol.own_records import batch_of, is_compressed, packed_of
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.record import Packed

Parts = dict[int, list[Packed]]
NO_TIME: Final = -1


class Appends:
    """The appends that are under way, and those that were repeated. For the event loop's thread alone.

    Invariant: of an append that was repeated every try looks for what others of it have written, whichever of them
    arrives first; and no two of them are under way at once.
    """

    def __init__(self) -> None:
        self.under_way: dict[bytes, asyncio.Future[None]] = {}
        self.repeated: OrderedDict[bytes, None] = OrderedDict()

    @contextmanager
    def doing(self, marker: bytes) -> Iterator[None]:
        """While this append is under way."""
        ended = self.begin(marker)
        try:
            yield
        finally:
            ended()

    def begin(self, marker: bytes) -> Callable[[], None]:
        """This append is under way from now on, until what is given is called."""
        done = self.under_way[marker] = asyncio.get_running_loop().create_future()

        def ended() -> None:
            if self.under_way.get(marker) is done:
                del self.under_way[marker]
            done.set_result(None)

        return ended

    def is_repeat(self, marker: bytes, *, is_retry: bool) -> bool:
        """Whether something of this append may have been written."""
        if is_retry:
            self.repeated[marker] = None
            while len(self.repeated) > OWN_RETRIED_MAX:
                self.repeated.popitem(last=False)
        return marker in self.repeated


def append(call: Call, asked: Fields) -> Values | Awaitable[Values]:
    """Append to one topic; answered when all of it is as durable as the topic's settings say.

    The first number in each partition, in the order of the records; of a single message also offset and time.
    """
    topic = call.broker.topics.find(asked.topic)
    topic.check_takes_puts()
    if topic.settings.version == 1:
        return _plain(call, topic, asked)
    is_long = len(asked.records) > LOOP_ROWS_AT_ONCE or len(call.request.body) > LOOP_CARRIED_SIZE_MAX
    if is_long or any(is_compressed(fields.payload) for fields in asked.records):
        return _checked_aside(call, topic, asked)
    return _appended(call, topic, asked, _parts(topic, asked))


async def _checked_aside(call: Call, topic: Topic, asked: Fields) -> Values:
    """Much is checked by a thread, and so is what is compressed: that may unpack to any size."""
    found = _appended(call, topic, asked, await call.broker.aside(_parts, topic, asked))
    return await found if inspect.isawaitable(found) else found


def _appended(call: Call, topic: Topic, asked: Fields, parts: Parts) -> Values | Awaitable[Values]:
    appends = call.broker.appends
    if len(asked.marker) > MARKER_SIZE_MAX:
        raise TooLarge("marker", len(asked.marker), MARKER_SIZE_MAX)
    if asked.marker and appends.is_repeat(asked.marker, is_retry=asked.is_retry):
        return _repeated(call, topic, asked, parts)
    if topic.settings.durability == "commit":
        return _stored(call, topic, asked, parts)
    firsts = {number: call.broker.door.put_now(topic.partition(number), part).start for number, part in parts.items()}
    return _answer(topic, asked, firsts)


def _parts(topic: Topic, asked: Fields) -> Parts:
    parts: Parts = {}
    for fields in asked.records:
        topic.partition(fields.partition)
        parts.setdefault(fields.partition, []).append(packed_of(fields, topic.settings.message_size_max))
    if not parts:
        raise BadInput("an append has one record at least")
    return parts


async def _stored(call: Call, topic: Topic, asked: Fields, parts: Parts) -> Values:
    with call.broker.appends.doing(asked.marker):
        return _answer(topic, asked, await _put(call, topic, parts))


async def _put(call: Call, topic: Topic, parts: Parts) -> dict[int, int]:
    """The first number that the records of each partition got."""
    door = call.broker.door
    if topic.settings.durability != "commit":
        return {number: door.put_now(topic.partition(number), part).start for number, part in parts.items()}
    numbers = await asyncio.gather(*(door.put(topic.partition(number), part) for number, part in parts.items()))
    return {number: found.start for number, found in zip(parts, numbers, strict=True)}


async def _repeated(call: Call, topic: Topic, asked: Fields, parts: Parts) -> Values:
    """Append what is not there yet."""
    appends, since = call.broker.appends, positions_of(asked.since)
    while (other := appends.under_way.get(asked.marker)) is not None:
        await other
    with appends.doing(asked.marker):
        firsts: dict[int, int] = {}
        missing: Parts = {}
        for number, part in parts.items():
            found = await call.broker.in_thread(_written, topic.partition(number), asked.marker, since.get(number, 0))
            firsts |= {number: found[0]} if found else {}
            # What was written is always the first records.
            missing |= {number: part[len(found) :]} if len(found) < len(part) else {}
        # What was there keeps its number.
        firsts = (await _put(call, topic, missing) if missing else {}) | firsts
    return _answer(topic, asked, {number: firsts[number] for number in parts})


async def _plain(call: Call, topic: Topic, asked: Fields) -> Values:
    """For a topic of version 1, which takes no packed records, and whose puts cannot be told apart."""

    def put() -> dict[int, int]:
        firsts: dict[int, int] = {}
        for fields in asked.records:
            batch = batch_of([fields], topic.settings.message_size_max)
            columns = {name: column for name, column in batch._asdict().items() if name != "bodies"}
            numbers = topic.partition(fields.partition).append_many(batch.bodies, **columns)
            firsts.setdefault(fields.partition, numbers.start)
        return firsts

    if not asked.records:
        raise BadInput("an append has one record at least")
    return _answer(topic, asked, await call.broker.in_thread(put))


def _written(log: Log, marker: bytes, since: int) -> list[int]:
    """The numbers of the records with this marker."""
    return [marked.number for marked in log.markers(max(since, log.first)) if marked.marker == marker]


def _answer(topic: Topic, asked: Fields, firsts: dict[int, int]) -> Values:
    found = {"positions": position_values(firsts), "partition_count": topic.partition_count}
    partition, number = next(iter(firsts.items()))
    message = topic.partition(partition).at(number) if asked.is_receipt_wanted else None
    if message is None:
        return {**found, "offset": NO_TIME, "timestamp": NO_TIME}
    return {**found, "offset": message.offset, "timestamp": message.timestamp}
