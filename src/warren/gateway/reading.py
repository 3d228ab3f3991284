"""Reading over HTTP: by number, by time, backwards and by tag; nothing is taken away, and no position is kept."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import islice
from typing import Any, Final, NamedTuple

from warren.config import (
    HTTP_ANSWER_SIZE_TARGET,
    HTTP_LIMIT_MAX,
    HTTP_SCANNED_MAX,
    HTTP_SCANNED_SIZE_MAX,
    PARTITIONS_MAX,
    SCANNED_SIZE_MAX,
)
from warren.errors import BadInput, NoSuchMessage
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.json_messages import NUMBER_MAX, READ_FIELDS, message_document
from warren.gateway.shapes import Fields, Listed, Whole
from warren.gateway.topics import topic_of
from warren.message import Message
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.read import ScanRoom
from warren.storage.tags import TagFilter

LIMIT_DEFAULT: Final = 100
_PART: Final = {name: Whole(0, NUMBER_MAX) for name in ("partition", "first", "end")}
READ_ANSWER: Final = Fields(
    {
        "messages": Listed(READ_FIELDS, HTTP_LIMIT_MAX),
        "next": Whole(0, NUMBER_MAX, is_nullable=True),
        "partitions": Listed(Fields(_PART, required=tuple(_PART)), PARTITIONS_MAX),
    },
    required=("messages", "next", "partitions"),
)


class Page(NamedTuple):
    """Messages, and the number to go on from; None where there is none, or several partitions were read."""

    messages: list[Message]
    next: int | None


async def read(asked: Asked) -> Reply:
    """Messages of one partition from a number or a time on, or back from it; of all partitions by time."""
    topic, query = topic_of(asked), asked.query
    if "number" in query and "since" in query:
        raise BadInput("query: give either number or since")
    partition = query.get("partition", 0 if topic.partition_count == 1 else None)
    if partition is None:
        if "number" in query:
            raise BadInput(f"query: number needs a partition, of which {str(topic.name)!r} has {topic.partition_count}")
        if query.get("wait_s"):
            raise BadInput("query: wait_s needs a partition")
        page = await (_latest if query.get("backwards", False) else _since)(asked, topic)
    else:
        page = await _read_one(asked, topic.partition(partition))
    return await asked.broker.in_thread(_answer, topic, page, query.get("encoding", "auto"))


async def read_one(asked: Asked) -> Reply:
    """One message by its place."""
    topic = topic_of(asked)
    partition, number = int(asked.path["partition"]), int(asked.path["number"])
    log, encoding = topic.partition(partition), asked.query.get("encoding", "auto")

    def answer() -> Reply:
        message = log.at(number)
        if message is None:
            raise NoSuchMessage(str(topic.name), partition, number)
        return json_reply(message_document(message, encoding))

    return await asked.broker.in_thread(answer)


async def _read_one(asked: Asked, log: Log) -> Page:
    query, broker = asked.query, asked.broker
    if query.get("backwards", False):
        return await broker.in_thread(_read_back, log, query)
    loop = asyncio.get_running_loop()
    deadline_s = asked.deadline_s(query.get("wait_s", 0.0))
    start = await broker.in_thread(_start, log, query)
    while True:
        page = await broker.in_thread(_read_on, log, start, query)
        assert page.next is not None
        start, left_s = page.next, deadline_s - loop.time()
        if page.messages or left_s <= 0 or broker.is_stopping or asked.is_gone():
            return page
        # What was put since the look does not ring any more.
        if log.end <= start:
            await broker.long_polls.wait((log,), left_s)
            # The right may be gone after so long.
            asked.check()


def _start(log: Log, query: Any) -> int:
    if "since" in query:
        return log.find_time(query["since"])
    return int(query.get("number", log.first))


def _read_on(log: Log, start: int, query: Any) -> Page:
    tag = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
    sizes = {"bytes_max": HTTP_ANSWER_SIZE_TARGET, "scanned_max": SCANNED_SIZE_MAX}
    page = log.page(start, tag, limit=query.get("limit", LIMIT_DEFAULT), **sizes)
    return Page(page.messages, max(start, page.next_number))


def _read_back(log: Log, query: Any) -> Page:
    """From a number down, the latest first: as many as pass the filter, of those that are looked at."""
    start = log.find_time(query["since"]) if "since" in query else query.get("number")
    wanted = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
    limit, size, found, number = query.get("limit", LIMIT_DEFAULT), 0, [], log.end
    scanned = 0
    for message in islice(log.backwards(start), HTTP_SCANNED_MAX):
        number, scanned = message.number, scanned + len(message.body)
        if wanted is None or wanted.matches(message.tag):
            found.append(message)
            size += len(message.body)
            if len(found) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
                break
        if scanned >= HTTP_SCANNED_SIZE_MAX:
            break
    return Page(found, number - 1 if log.first < number < log.end else None)


async def _latest(asked: Asked, topic: Topic) -> Page:
    """The last messages of all partitions by time, the latest first. Each partition is looked through in its turn."""
    query, found = asked.query, list[Message]()
    for log in topic.logs:
        if asked.is_gone():
            break
        found += (await asked.broker.in_thread(_read_back, log, query)).messages
        found = sorted(found, key=lambda message: -message.timestamp)[: query.get("limit", LIMIT_DEFAULT)]
    return Page(found, None)


async def _since(asked: Asked, topic: Topic) -> Page:
    """The messages of all partitions from a time on, by time. Looked for in turns: requests of others come between."""
    broker = asked.broker
    merge = await broker.in_thread(Merge, topic, asked.query)
    while not await broker.in_thread(merge.look, ScanRoom(SCANNED_SIZE_MAX)):
        if broker.is_stopping or asked.is_gone():
            break
        asked.check()
    return Page(merge.messages, None)


class Ahead:
    """Messages of one partition that were found and not given yet, and the number to look on from."""

    __slots__ = ("_end", "_log", "_number", "messages")

    def __init__(self, log: Log, since: Any) -> None:
        self._log, self._number, self._end = log, log.find_time(since), log.end
        self.messages: deque[Message] = deque()

    def reach(self, tag: TagFilter | None, limit: int, bytes_max: int, room: ScanRoom) -> bool:
        """Looks for messages. Returns False if `room` was used up before one was found."""
        while not self.messages and self._number < self._end:
            if room.is_used_up:
                return False
            number = max(self._number, self._log.first)
            page = self._log.page(number, tag, limit=limit, bytes_max=bytes_max, scanned_max=room.left)
            room.use(page)
            self.messages += (message for message in page.messages if message.number < self._end)
            self._number = max(number, page.next_number)
        return True


class Merge:
    """The first messages of all partitions from a time on that pass the filter, by time; found in several looks."""

    def __init__(self, topic: Topic, query: Any) -> None:
        self.messages: list[Message] = []
        self._limit, self._size_left = query.get("limit", LIMIT_DEFAULT), HTTP_ANSWER_SIZE_TARGET
        self._tag = TagFilter.parse(query["tag"]) if query.get("tag") is not None else None
        self._aheads = [Ahead(log, query.get("since", 0)) for log in topic.logs]
        # What is held for all partitions together is about one answer.
        self._bytes_max = max(1, HTTP_ANSWER_SIZE_TARGET // len(self._aheads))
        self._unseen = list(range(len(self._aheads)))
        self._heads: list[tuple[int, int]] = []
        """The time of the next message of each partition that has one, and the partition: a heap."""

    def look(self, room: ScanRoom) -> bool:
        """Looks through as much as `room` allows. Returns whether all was found that is wanted."""
        while len(self.messages) < self._limit and self._size_left > 0:
            while self._unseen:
                ahead = self._aheads[self._unseen[-1]]
                if not ahead.reach(self._tag, self._limit, self._bytes_max, room):
                    return False
                self._push(self._unseen.pop())
            if not self._heads:
                return True
            _, partition = heapq.heappop(self._heads)
            message = self._aheads[partition].messages.popleft()
            self.messages.append(message)
            self._size_left -= len(message.body)
            if self._aheads[partition].messages:
                self._push(partition)
            else:
                self._unseen.append(partition)
        return True

    def _push(self, partition: int) -> None:
        messages = self._aheads[partition].messages
        if messages:
            heapq.heappush(self._heads, (messages[0].timestamp, partition))


def _answer(topic: Topic, page: Page, encoding: Any) -> Reply:
    """By a thread: there may be megabytes to be written."""
    parts = [{"partition": number, "first": log.first, "end": log.end} for number, log in enumerate(topic.logs)]
    shown = [message_document(message, encoding) for message in page.messages]
    return json_reply({"messages": shown, "next": page.next, "partitions": parts})
