"""What waits over HTTP: messages that are not due yet, listed and cancelled; and dead letters, listed and put back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.config import HTTP_ANSWER_SIZE_TARGET, HTTP_LIMIT_MAX
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.json_messages import NUMBER_MAX, READ_FIELDS, bytes_document, message_document
from warren.gateway.putting import DUE_FORMAT
from warren.gateway.reading import LIMIT_DEFAULT
from warren.gateway.shapes import Bytes, Fields, Listed, Mapped, Shape, Text, Truth, Whole
from warren.gateway.topics import topic_of
from warren.queue.delayed import Scheduled, parse_handle_id
from warren.queue.topic import Topic

PARKED_ID: Final = Text(100, 1, "^(minute|hour|day|month|later)-[0-9]{1,19}-[0-9]{1,19}$")
_SIZE: Final = 1 << 30
_PARKED: Final[Mapping[str, Shape]] = {
    "id": Text(100),
    "due": Text(64),
    "partition": Whole(0, NUMBER_MAX, is_nullable=True),
    "tag": Text(_SIZE),
    "key": Bytes(_SIZE, is_nullable=True),
    "headers": Mapped(Bytes(_SIZE), _SIZE),
    "body": Bytes(_SIZE),
}
SCHEDULED: Final = Fields(
    {"scheduled": Listed(Fields(_PARKED, required=tuple(_PARKED)), HTTP_LIMIT_MAX)}, required=("scheduled",)
)
CANCELLED: Final = Fields({"is_cancelled": Truth()}, required=("is_cancelled",))
_LETTER: Final[Mapping[str, Shape]] = {
    "message": READ_FIELDS,
    "group": Text(_SIZE),
    "reason": Text(_SIZE),
    "attempts": Whole(0, NUMBER_MAX),
    "partition": Whole(0, NUMBER_MAX),
    "number": Whole(0, NUMBER_MAX),
}
DEAD: Final = Fields({"dead": Listed(Fields(_LETTER, required=tuple(_LETTER)), HTTP_LIMIT_MAX)}, required=("dead",))
REDRIVE: Final = Fields({"limit": Whole(1, NUMBER_MAX)})
REDRIVEN: Final = Fields({"count": Whole(0, NUMBER_MAX)}, required=("count",))


async def list_scheduled(asked: Asked) -> Reply:
    """What is not due yet, by due time, behind the one with the id `after`."""
    return await asked.broker.in_thread(_scheduled, topic_of(asked), asked.query)


def _scheduled(topic: Topic, query: Any) -> Reply:
    limit, size = query.get("limit", LIMIT_DEFAULT), 0
    found: list[dict[str, Any]] = []
    after_us = parse_handle_id(query["after"])[2] if "after" in query else -1
    is_behind = "after" not in query
    for each in topic.scheduled():
        due_us = parse_handle_id(each.id)[2]
        # Those that are due at the same moment come in an order of their own: one is behind when `after` was passed.
        if not is_behind and due_us <= after_us:
            is_behind = each.id == query["after"]
            continue
        found.append(_entry(each))
        size += len(each.body)
        if len(found) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
            break
    return json_reply({"scheduled": found})


def _entry(parked: Scheduled) -> dict[str, Any]:
    return {
        "id": parked.id,
        "due": parked.due.strftime(DUE_FORMAT),
        "partition": parked.partition,
        "tag": parked.tag,
        "key": None if parked.key is None else bytes_document(parked.key, "auto"),
        "headers": {name: bytes_document(value, "auto") for name, value in parked.headers.items()},
        "body": bytes_document(parked.body, "auto"),
    }


async def cancel_scheduled(asked: Asked) -> Reply:
    """Cancel a delayed message; whether that was in time."""
    is_cancelled = await asked.broker.in_thread(topic_of(asked).cancel, asked.path["id"])
    return json_reply({"is_cancelled": is_cancelled})


async def list_dead(asked: Asked) -> Reply:
    """The dead letters of a group that were not put back, the oldest first."""
    return await asked.broker.in_thread(_dead, topic_of(asked), asked.path["group"], asked.query)


def _dead(topic: Topic, group: str, query: Any) -> Reply:
    limit, size = query.get("limit", LIMIT_DEFAULT), 0
    found: list[dict[str, Any]] = []
    topic.group_settings(group)
    for letter in topic.dead_letters(group):
        shown = letter._asdict() | {"message": message_document(letter.message)}
        found.append({name: shown[name] for name in _LETTER})
        size += len(letter.message.body)
        if len(found) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
            break
    return json_reply({"dead": found})


async def redrive(asked: Asked) -> Reply:
    """Put dead letters of a group back where they came from; how many."""
    topic, name, limit = topic_of(asked), asked.path["group"], asked.body.get("limit")

    def put_all_back() -> int:
        topic.group_settings(name)
        with topic.group(name, mode="queue") as group:
            return group.redrive(limit)

    count = await asked.broker.in_thread(put_all_back)
    for log in topic.logs:
        asked.broker.long_polls.ring(log)
    return json_reply({"count": count})
