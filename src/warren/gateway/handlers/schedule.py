"""Parked (delayed) messages over HTTP: list and cancel those that are not due yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.gateway.handlers.messages import (
    DUE_FORMAT,
    LIMIT_DEFAULT,
    UNBOUNDED,
    bytes_document,
    in_memory,
    release_memory,
)
from warren.gateway.handlers.topics import topic_of
from warren.gateway.http.limits import HTTP_ANSWER_SIZE_TARGET, HTTP_LIMIT_MAX
from warren.gateway.http.schemas import NUMBER_MAX, Bytes, Fields, Listed, Mapped, Shape, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.queue.delay.handles import Scheduled, parse_handle_id
from warren.queue.topic import Topic
from warren.settings import Count, Flag, OrNone

PARKED_ID: Final = Text(100, 1, "^(minute|hour|day|month|later)-[0-9]{1,19}-[0-9]{1,19}$")
_PARKED: Final[Mapping[str, Shape]] = {
    "id": Text(100),
    "due": Text(64),
    "partition": Value(OrNone(Count(0, NUMBER_MAX))),
    "tag": Text(UNBOUNDED),
    "key": Bytes(UNBOUNDED, is_nullable=True),
    "headers": Mapped(Bytes(UNBOUNDED), UNBOUNDED),
    "body": Bytes(UNBOUNDED),
}
SCHEDULED: Final = Fields(
    {"scheduled": Listed(Fields(_PARKED, required=tuple(_PARKED)), HTTP_LIMIT_MAX)}, required=("scheduled",)
)
CANCELLED: Final = Fields({"is_cancelled": Value(Flag())}, required=("is_cancelled",))


async def list_scheduled(request: HttpRequest) -> HttpReply:
    """Lists the parked messages by due time, starting after the one with the id `after`."""
    try:
        return await in_memory(request, _scheduled, topic_of(request), request.query)
    finally:
        release_memory(request)


def _scheduled(topic: Topic, query: Any) -> HttpReply:
    limit, size = query.get("limit", LIMIT_DEFAULT), 0
    entries: list[dict[str, Any]] = []
    after_us = parse_handle_id(query["after"])[2] if "after" in query else -1
    is_behind = "after" not in query
    for each in topic.scheduled():
        due_us = parse_handle_id(each.id)[2]
        # Messages that are due at the same moment are not ordered by id: they follow after `after` itself.
        if not is_behind and due_us <= after_us:
            is_behind = each.id == query["after"]
            continue
        entries.append(_entry(each))
        size += len(each.body)
        if len(entries) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
            break
    return json_reply({"scheduled": entries})


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


async def cancel_scheduled(request: HttpRequest) -> HttpReply:
    """Cancels a parked message, and reports whether that was in time."""
    is_cancelled = await request.broker.in_thread(topic_of(request).cancel, request.path["id"])
    return json_reply({"is_cancelled": is_cancelled})
