"""Making, changing and removing topics on request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.topic_configs import CONFIGS, settings_of
from warren.broker.topics import NO_ID
from warren.errors import BadInput, WarrenError
from warren.protocol.api import ApiKey
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.settings import TopicSettings

REPLICAS: Final = (-1, 1)
BY_ID_FROM: Final = 6
CONFIG_FROM_TOPIC: Final = 1
STRICT_FROM: Final[Mapping[int, int]] = MappingProxyType(
    {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
)
"""From these versions on clients understand that a request is refused because of a quota."""


async def create_topics(call: Call, request: Fields) -> Values:
    """Make topics, or say whether they could be made."""
    return {"topics": [await _created(call, topic, is_tried_only=request.validate_only) for topic in request.topics]}


async def _created(call: Call, asked: Fields, *, is_tried_only: bool) -> dict[str, Any]:
    store, name = call.broker.store, asked.name
    try:
        if store.has_topic(name):
            return _failed(name, Code.TOPIC_ALREADY_EXISTS, f"there is a topic {name!r} already")
        if asked.replication_factor not in REPLICAS or any(len(part.broker_ids) != 1 for part in asked.assignments):
            return _failed(
                name, Code.INVALID_REPLICATION_FACTOR, "there is one broker, and each partition is there once"
            )
        partitions = len(asked.assignments) or asked.num_partitions
        if partitions == 0 or partitions < -1:
            return _failed(name, Code.INVALID_PARTITIONS, f"{partitions} partitions: expected at least 1")
        settings = settings_of({config.name: config.value for config in asked.configs})
        wanted = TopicSettings(partitions=1 if partitions == -1 else partitions, **settings)
        if is_tried_only:
            return {"name": name, "num_partitions": wanted.partitions, "replication_factor": 1}
        is_strict = call.version >= STRICT_FROM[ApiKey.CREATE_TOPICS]
        topic = await call.broker.allotment.make(call, name, wanted.partitions, settings, is_strict=is_strict)
    except BadInput as error:
        code = code_of(error)
        return _failed(name, Code.INVALID_CONFIG if code is Code.INVALID_REQUEST else code, call.told(error))
    except WarrenError as error:
        return _failed(name, code_of(error), call.told(error))
    shown = [
        {
            "name": kafka,
            "value": config.show(getattr(topic.settings, config.setting)),
            "config_source": CONFIG_FROM_TOPIC,
        }
        for kafka, config in CONFIGS.items()
    ]
    return {
        "name": name,
        "topic_id": call.broker.topics.id_of(topic),
        "num_partitions": topic.partition_count,
        "replication_factor": 1,
        "configs": shown,
    }


def _failed(name: str | None, code: Code, message: str) -> dict[str, Any]:
    return {"name": name, "error_code": code, "error_message": message}


async def delete_topics(call: Call, request: Fields) -> Values:
    """Remove topics with all that is in them."""
    if call.version < BY_ID_FROM:
        return {"responses": [await _deleted(call, name, NO_ID) for name in request.topic_names]}
    return {"responses": [await _deleted(call, topic.name, topic.topic_id) for topic in request.topics]}


async def _deleted(call: Call, name: str | None, topic_id: bytes) -> dict[str, Any]:
    try:
        if name is None:
            name = call.broker.topics.find_by_id(topic_id).name
        is_strict = call.version >= STRICT_FROM[ApiKey.DELETE_TOPICS]
        await call.broker.allotment.delete(call, name, is_strict=is_strict)
    except WarrenError as error:
        code = Code.UNKNOWN_TOPIC_ID if name is None else code_of(error)
        return {**_failed(name, code, call.told(error)), "topic_id": topic_id}
    return {"name": name, "topic_id": topic_id}


async def create_partitions(call: Call, request: Fields) -> Values:
    """Add partitions to topics; there are never fewer than before."""
    return {"results": [await _extended(call, topic, is_tried_only=request.validate_only) for topic in request.topics]}


async def _extended(call: Call, asked: Fields, *, is_tried_only: bool) -> dict[str, Any]:
    try:
        topic = await call.broker.opened_topic(asked.name)
        if asked.count <= topic.partition_count:
            message = f"topic {asked.name!r} has {topic.partition_count} partitions; it can only have more"
            return _failed(asked.name, Code.INVALID_PARTITIONS, message)
        if not is_tried_only:
            is_strict = call.version >= STRICT_FROM[ApiKey.CREATE_PARTITIONS]
            await call.broker.allotment.configure(call, asked.name, {"partitions": asked.count}, is_strict=is_strict)
    except BadInput as error:
        return _failed(asked.name, Code.INVALID_PARTITIONS, call.told(error))
    except WarrenError as error:
        return _failed(asked.name, code_of(error), call.told(error))
    return {"name": asked.name, "error_code": Code.NONE}
