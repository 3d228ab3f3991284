"""Requests that create topics, add partitions to them, and delete them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from warren.broker.kafka.configs import settings_of, topic_rows
from warren.broker.kafka.errors import Code, code_of
from warren.broker.net.request import Call
from warren.broker.services.topics import NO_ID
from warren.errors import BadInput, TopicExists, WarrenError
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka_messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseResult,
)
from warren.queue.state.settings import TopicSettings

REPLICAS: Final = (-1, 1)
BY_ID_FROM: Final = 6
STRICT_FROM: Final[Mapping[int, int]] = MappingProxyType(
    {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
)
"""The versions from which on clients understand the error of an exceeded quota."""


async def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Creates topics, or only checks whether they could be created."""
    is_tried_only = request.validate_only
    return CreateTopicsResponse(
        topics=[await _created(call, topic, is_tried_only=is_tried_only) for topic in request.topics]
    )


async def _created(call: Call, row: CreateTopicsRequestTopic, *, is_tried_only: bool) -> CreateTopicsResponseTopic:
    store, name = call.broker.store, row.name

    def failed(code: Code, message: str) -> CreateTopicsResponseTopic:
        return CreateTopicsResponseTopic(name, error_code=code, error_message=message)

    try:
        if store.has_topic(name):
            raise TopicExists(name)
        if row.replication_factor not in REPLICAS or any(len(part.broker_ids) != 1 for part in row.assignments):
            return failed(Code.INVALID_REPLICATION_FACTOR, "there is one broker, and each partition exists once")
        partitions = len(row.assignments) or row.num_partitions
        if partitions == 0 or partitions < -1:
            return failed(Code.INVALID_PARTITIONS, f"{partitions} partitions: expected at least 1")
        settings = settings_of({config.name: config.value for config in row.configs})
        chosen = TopicSettings(partitions=1 if partitions == -1 else partitions, **settings)
        if is_tried_only:
            return CreateTopicsResponseTopic(name, num_partitions=chosen.partitions, replication_factor=1)
        is_strict = call.version >= STRICT_FROM[ApiKey.CREATE_TOPICS]
        topic = await call.broker.allotment.make(
            call, name, chosen.partitions, settings, is_strict=is_strict, must_be_new=True
        )
    except BadInput as error:
        code = code_of(error)
        return failed(Code.INVALID_CONFIG if code is Code.INVALID_REQUEST else code, call.client_message(error))
    except WarrenError as error:
        return failed(code_of(error), call.client_message(error))
    return CreateTopicsResponseTopic(
        name=name,
        topic_id=call.broker.topics.id_of(topic),
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=[
            CreateTopicsResponseConfig(
                name=each.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.config_source,
                is_sensitive=each.is_sensitive,
            )
            for each in topic_rows(topic.settings, call.broker.settings.deliver_at)
        ],
    )


async def delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Deletes topics with everything in them."""
    if call.version < BY_ID_FROM:
        return DeleteTopicsResponse(responses=[await _deleted(call, name, NO_ID) for name in request.topic_names])
    return DeleteTopicsResponse(responses=[await _deleted(call, each.name, each.topic_id) for each in request.topics])


async def _deleted(call: Call, name: str | None, topic_id: bytes) -> DeleteTopicsResponseResult:
    try:
        if name is None:
            name = call.broker.topics.find_by_id(topic_id).name
        is_strict = call.version >= STRICT_FROM[ApiKey.DELETE_TOPICS]
        await call.broker.allotment.delete(call, name, is_strict=is_strict)
    except WarrenError as error:
        code = Code.UNKNOWN_TOPIC_ID if name is None else code_of(error)
        return DeleteTopicsResponseResult(name, topic_id, code, call.client_message(error))
    return DeleteTopicsResponseResult(name, topic_id)


async def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Adds partitions to topics. Refuses to remove any."""
    is_tried_only = request.validate_only
    return CreatePartitionsResponse(
        results=[await _extended(call, topic, is_tried_only=is_tried_only) for topic in request.topics]
    )


async def _extended(
    call: Call, row: CreatePartitionsRequestTopic, *, is_tried_only: bool
) -> CreatePartitionsResponseResult:
    name = row.name
    try:
        topic = await call.broker.opened_topic(name)
        if row.count <= topic.partition_count:
            message = f"topic {name!r} has {topic.partition_count} partitions; it can only get more"
            return CreatePartitionsResponseResult(name, Code.INVALID_PARTITIONS, message)
        if not is_tried_only:
            is_strict = call.version >= STRICT_FROM[ApiKey.CREATE_PARTITIONS]
            await call.broker.allotment.configure(call, name, {"partitions": row.count}, is_strict=is_strict)
    except BadInput as error:
        return CreatePartitionsResponseResult(name, Code.INVALID_PARTITIONS, call.client_message(error))
    except WarrenError as error:
        return CreatePartitionsResponseResult(name, code_of(error), call.client_message(error))
    return CreatePartitionsResponseResult(name)
