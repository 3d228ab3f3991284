"""Reading over HTTP: by number, by time, backwards and by tag; nothing is taken away, and no position is kept."""

from __future__ import annotations

import asyncio
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
        page = await asked.broker.in_thread(_read_all, topic, query)
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


def _read_all(topic: Topic, query: Any) -> Page:
    """Of all partitions by time, from a time on; or the last ones, the latest first."""
    limit, tag = query.get("limit", LIMIT_DEFAULT), query.get("tag")
    if not query.get("backwards", False):
        messages, size = [], 0
        for message in islice(topic.since(query.get("since", 0), tag=tag), limit):
            messages.append(message)
            size += len(message.body)
            if size >= HTTP_ANSWER_SIZE_TARGET:
                break
        return Page(messages, None)
    pages = [_read_back(log, query).messages for log in topic.logs]
    latest = sorted((message for page in pages for message in page), key=lambda message: -message.timestamp)
    return Page(latest[:limit], None)


def _answer(topic: Topic, page: Page, encoding: Any) -> Reply:
    """By a thread: there may be megabytes to be written."""
    parts = [{"partition": number, "first": log.first, "end": log.end} for number, log in enumerate(topic.logs)]
    shown = [message_document(message, encoding) for message in page.messages]
    return json_reply({"messages": shown, "next": page.next, "partitions": parts})
