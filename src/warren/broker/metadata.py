"""What clients ask before anything else: which brokers there are, which topics, and who coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.kafka_errors import Code, code_of
from warren.broker.topics import NO_ID
from warren.errors import NoSuchTopic, WarrenError
from warren.protocol.kafka_codec import Fields, Values
from warren.queue.topic import Topic

NODE_ID: Final = 0
LEADER_EPOCH: Final = 0
NO_OPERATIONS: Final = -(1 << 31)
"""Stands for "was not asked for" where the rights of a client could be listed."""
TOPIC_IDS_FROM: Final = 10
KEYS_FROM: Final = 4


async def metadata(call: Call, request: Fields) -> Values:
    """The topics that were asked for, or all; those that are missing are made where both sides allow it."""
    broker = call.broker
    may_make = request.allow_auto_topic_creation and broker.settings.auto_create_topics
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        names = await broker.in_thread(broker.topics.names)
        found = [each async for name in broker.turns.over(names) if (each := await _listed(call, name)) is not None]
    else:
        found = [await _asked(call, topic, may_make=may_make) for topic in asked]
    return {
        "brokers": [_node(call)],
        "cluster_id": broker.cluster_id,
        "controller_id": NODE_ID,
        "topics": found,
        "cluster_authorized_operations": NO_OPERATIONS,
    }


async def _listed(call: Call, name: str) -> dict[str, Any] | None:
    """A topic; None if it was deleted since all were listed."""
    with suppress(NoSuchTopic):
        return _described(call, await call.broker.opened_topic(name))
    return None


async def _asked(call: Call, asked: Fields, *, may_make: bool) -> dict[str, Any]:
    broker, name = call.broker, asked.name
    try:
        if name is None or (call.version >= TOPIC_IDS_FROM and asked.topic_id not in (NO_ID, None)):
            return _described(call, broker.topics.find_by_id(asked.topic_id))
        try:
            return _described(call, await broker.opened_topic(name))
        except NoSuchTopic:
            if not may_make:
                raise
            return _described(call, await broker.allotment.make(call, name, is_strict=False))
    except WarrenError as error:
        code = Code.UNKNOWN_TOPIC_ID if name is None else code_of(error)
        return {"error_code": code, "name": name, "topic_id": asked.topic_id or NO_ID, "partitions": []}


def _described(call: Call, topic: Topic) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": number,
            "leader_id": NODE_ID,
            "leader_epoch": LEADER_EPOCH,
            "replica_nodes": [NODE_ID],
            "isr_nodes": [NODE_ID],
        }
        for number in range(topic.partition_count)
    ]
    return {
        "error_code": Code.NONE,
        "name": topic.name,
        "topic_id": call.broker.topics.id_of(topic),
        "partitions": partitions,
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _node(call: Call) -> dict[str, Any]:
    host, port = call.broker.advertised
    return {"node_id": NODE_ID, "host": host, "port": port, "rack": None}


def describe_cluster(call: Call, request: Fields) -> Values:
    """The one broker that there is."""
    host, port = call.broker.advertised
    return {
        "cluster_id": call.broker.cluster_id,
        "controller_id": NODE_ID,
        "brokers": [{"broker_id": NODE_ID, "host": host, "port": port}],
        "cluster_authorized_operations": NO_OPERATIONS,
    }


def find_coordinator(call: Call, request: Fields) -> Values:
    """Whoever is asked for: it is this broker."""
    host, port = call.broker.advertised
    keys: Iterable[str] = request.coordinator_keys if call.version >= KEYS_FROM else ()
    return {
        "node_id": NODE_ID,
        "host": host,
        "port": port,
        "coordinators": [{"key": key, "node_id": NODE_ID, "host": host, "port": port} for key in keys],
    }
