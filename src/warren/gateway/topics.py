"""Topics over HTTP: which there are, made, described, changed and removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from warren.broker.security.rights import Kind, Operation
from warren.broker.statistics import topic_document
from warren.config import BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, BODY_SIZE_MAX, NAME_SIZE_MAX, PARTITIONS_MAX
from warren.errors import TopicExists
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.json_messages import NUMBER_MAX
from warren.gateway.shapes import Fields, Listed, Seconds, Shape, Text, Truth, Whole
from warren.queue.description import TopicDescription
from warren.queue.topic import Topic

NAME_PATTERN: Final = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
NAME: Final = Text(NAME_SIZE_MAX, 1, NAME_PATTERN)
AGE_S_MAX: Final = 1e12
LISTED_MAX: Final = 1_000_000

_CHANGED: Final[Mapping[str, Shape]] = {
    "partitions": Whole(1, PARTITIONS_MAX),
    "durability": Text(30, 1, r"^(commit|os|interval:[0-9]{1,9}(\.[0-9]{1,9})?(ms|s))$"),
    "block_size": Whole(BLOCK_SIZE_MIN, BLOCK_SIZE_MAX),
    "compression": Text(4, choices=("none", "zstd", "lz4")),
    "message_size_max": Whole(0, BODY_SIZE_MAX),
    "retention_age_s": Seconds(AGE_S_MAX, 0.001, is_nullable=True),
    "retention_bytes": Whole(1, 1 << 62, is_nullable=True),
    "retention_consumed": Truth(),
    "dead_letter": Text(NAME_SIZE_MAX, 0, "^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$"),
}
CHANGES: Final = Fields(_CHANGED)
CREATION: Final = Fields({"topic": NAME, **_CHANGED}, required=("topic",))
SETTINGS: Final = Fields(
    {**_CHANGED, "version": Whole(1, 2), "retention_age_s": Seconds(AGE_S_MAX, 0, is_nullable=True)},
    required=(*_CHANGED, "version"),
)
_NUMBERS: Final = {name: Whole(0, NUMBER_MAX) for name in ("partition", "first", "end", "bytes")}
_TIMES: Final = {name: Whole(0, NUMBER_MAX) for name in ("created", "updated")}
PARTITION: Final = Fields(_NUMBERS, required=tuple(_NUMBERS))
TOPIC: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "messages": Whole(0, NUMBER_MAX),
        "bytes": Whole(0, NUMBER_MAX),
        "parked": Whole(0, NUMBER_MAX),
        "damage": Text(10_000, is_nullable=True),
        "partitions": Listed(PARTITION, PARTITIONS_MAX),
    },
    required=("topic", "messages", "bytes", "parked", "damage", "partitions"),
)
TOPICS: Final = Fields({"topics": Listed(TOPIC, LISTED_MAX)}, required=("topics",))
DESCRIPTION: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "messages": Whole(0, NUMBER_MAX),
        "bytes": Whole(0, NUMBER_MAX),
        "settings": SETTINGS,
        "partitions": Listed(Fields({**_NUMBERS, **_TIMES}, required=(*_NUMBERS, *_TIMES)), PARTITIONS_MAX),
        "groups": Listed(Text(NAME_SIZE_MAX), LISTED_MAX),
    },
    required=("topic", "messages", "bytes", "settings", "partitions", "groups"),
)


async def list_topics(asked: Asked) -> Reply:
    """All that whoever asks may know of."""
    broker = asked.broker
    standing = await broker.standings.look_now()
    shown = [
        topic
        async for topic in broker.turns.over(standing.topics)
        if asked.may(Operation.DESCRIBE, Kind.TOPIC, topic.topic)
    ]
    return await broker.aside(lambda: json_reply({"topics": [topic_document(topic) for topic in shown]}))


async def create_topic(asked: Asked) -> Reply:
    """Make a topic; TopicExists where there is one of the name."""
    settings: dict[str, Any] = dict(asked.body)
    name = settings.pop("topic")
    if asked.broker.store.has_topic(name):
        raise TopicExists(name)
    topic = await asked.broker.allotment.make(asked, name, settings.pop("partitions", None), settings)
    return json_reply(_document(await asked.broker.in_thread(topic.describe)), 201)


async def describe_topic(asked: Asked) -> Reply:
    found = await asked.broker.in_thread(asked.broker.store.describe, asked.path["topic"])
    return json_reply(_shown(asked, found))


async def configure_topic(asked: Asked) -> Reply:
    """Change settings, for everybody; the others stay as they are."""
    broker, name = asked.broker, asked.path["topic"]
    await broker.allotment.configure(asked, name, asked.body)
    return json_reply(_shown(asked, await broker.in_thread(broker.store.describe, name)))


async def delete_topic(asked: Asked) -> Reply:
    """Remove a topic with all that is in it."""
    await asked.broker.allotment.delete(asked, asked.path["topic"])
    return Reply(status=204)


def topic_of(asked: Asked) -> Topic:
    """The topic that the path names; NoSuchTopic where there is none."""
    return asked.broker.topics.find(asked.path["topic"])


def _shown(asked: Asked, found: TopicDescription) -> dict[str, Any]:
    """A topic, with those of its groups that the user may describe, or may delete."""
    may_alter = asked.may(Operation.ALTER, Kind.TOPIC, found.topic)
    groups = [name for name in found.groups if may_alter or asked.may(Operation.DESCRIBE, Kind.GROUP, name)]
    return {**_document(found), "groups": groups}


def _document(found: TopicDescription) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "messages": found.messages,
        "bytes": found.bytes,
        "settings": found.settings.to_json(),
        "partitions": [dataclasses.asdict(part) for part in found.partitions],
        "groups": list(found.groups),
    }
