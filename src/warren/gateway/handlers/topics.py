"""Topics over HTTP: list, create, describe, configure and delete them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.status import topic_document
from warren.gateway.http.schemas import NUMBER, Fields, Listed, Shape, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.limits import NAME_SIZE_MAX, PARTITIONS_MAX
from warren.queue.state.description import TopicDescription
from warren.queue.state.settings import FIXED, NAME_PATTERN, TOPIC_SETTINGS
from warren.queue.topic import Topic

NAME: Final = Text(NAME_SIZE_MAX, 1, NAME_PATTERN)
LISTED_MAX: Final = 1_000_000

_SETTINGS: Final[Mapping[str, Shape]] = {name: Value(each.kind) for name, each in TOPIC_SETTINGS.items()}
_CHANGED: Final = {name: shape for name, shape in _SETTINGS.items() if name not in FIXED}
CHANGES: Final = Fields(_CHANGED)
CREATION: Final = Fields({"topic": NAME, **_CHANGED}, required=("topic",))
SETTINGS: Final = Fields(_SETTINGS, required=tuple(_SETTINGS))
_NUMBERS: Final = dict.fromkeys(("partition", "first", "end", "bytes"), NUMBER)
_TIMES: Final = dict.fromkeys(("created", "updated"), NUMBER)
PARTITION: Final = Fields(_NUMBERS, required=tuple(_NUMBERS))
TOPIC: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "messages": NUMBER,
        "bytes": NUMBER,
        "parked": NUMBER,
        "damage": Text(10_000, is_nullable=True),
        "partitions": Listed(PARTITION, PARTITIONS_MAX),
    },
    required=("topic", "messages", "bytes", "parked", "damage", "partitions"),
)
TOPICS: Final = Fields({"topics": Listed(TOPIC, LISTED_MAX)}, required=("topics",))
DESCRIPTION: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "messages": NUMBER,
        "bytes": NUMBER,
        "settings": SETTINGS,
        "partitions": Listed(Fields({**_NUMBERS, **_TIMES}, required=(*_NUMBERS, *_TIMES)), PARTITIONS_MAX),
        "groups": Listed(Text(NAME_SIZE_MAX), LISTED_MAX),
    },
    required=("topic", "messages", "bytes", "settings", "partitions", "groups"),
)


async def list_topics(request: HttpRequest) -> HttpReply:
    """Lists the topics that the user may describe."""
    broker = request.broker
    standing = await broker.standings.look_now()
    topics = [
        topic
        async for topic in broker.turns.over(standing.topics)
        if request.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.topic)
    ]
    return await broker.aside(lambda: json_reply({"topics": [topic_document(topic) for topic in topics]}))


async def create_topic(request: HttpRequest) -> HttpReply:
    """Creates a topic. Raises TopicExists if the name is in use."""
    settings: dict[str, Any] = dict(request.body)
    name = settings.pop("topic")
    partitions = settings.pop("partitions", None)
    topic = await request.broker.allotment.make(request, name, partitions, settings, must_be_new=True)
    return json_reply(_document(await request.broker.in_thread(topic.describe)), 201)


async def describe_topic(request: HttpRequest) -> HttpReply:
    """Returns the settings, the partitions and the groups of a topic."""
    description = await request.broker.in_thread(request.broker.store.describe, request.path["topic"])
    return json_reply(_visible_document(request, description))


async def configure_topic(request: HttpRequest) -> HttpReply:
    """Changes the settings that the body names, and no others."""
    broker, name = request.broker, request.path["topic"]
    await broker.allotment.configure(request, name, request.body)
    return json_reply(_visible_document(request, await broker.in_thread(broker.store.describe, name)))


async def delete_topic(request: HttpRequest) -> HttpReply:
    """Deletes a topic with its messages and groups."""
    await request.broker.allotment.delete(request, request.path["topic"])
    return HttpReply(status=204)


def topic_of(request: HttpRequest) -> Topic:
    """Returns the topic that the path names. Raises NoSuchTopic if it does not exist."""
    return request.broker.topics.find(request.path["topic"])


def _visible_document(request: HttpRequest, description: TopicDescription) -> dict[str, Any]:
    """Returns the topic as JSON, with only those groups that the user may describe or delete."""
    may_alter = request.may(Operation.ALTER, ResourceKind.TOPIC, description.topic)
    groups = [
        name for name in description.groups if may_alter or request.may(Operation.DESCRIBE, ResourceKind.GROUP, name)
    ]
    return {**_document(description), "groups": groups}


def _document(description: TopicDescription) -> dict[str, Any]:
    return {
        "topic": description.topic,
        "messages": description.messages,
        "bytes": description.bytes,
        "settings": description.settings.to_json(),
        "partitions": [dataclasses.asdict(part) for part in description.partitions],
        "groups": list(description.groups),
    }
