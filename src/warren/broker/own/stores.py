"""Sessions, and the topics of the store: made, described, changed and removed."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from warren.broker.call import Call
from warren.broker.own.answering import session_of
from warren.broker.security.rights import Kind, Operation
from warren.errors import BadInput
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import setting_values, settings_of
from warren.queue.topic import Topic

SOFTWARE: Final = "warren"
NO_HANDLE: Final = 0


def open_session(call: Call, asked: Fields) -> Values:
    """The connection belongs to a session: what is opened over it is closed with the session's last connection."""
    call.peer.software = asked.software
    session = call.broker.sessions.join(call.peer, asked.session)
    return {"store_id": call.broker.store.id, "software": SOFTWARE, "incarnation": session.incarnation}


async def close_handle(call: Call, asked: Fields) -> Values:
    """Close what a handle stands for; by NO_HANDLE the session ends with its connections. Once more does nothing."""
    if asked.handle == NO_HANDLE:
        session_of(call).is_leaving = True
        return {}
    await call.broker.in_thread(session_of(call).let_go, asked.handle)
    return {}


async def list_topics(call: Call, asked: Fields) -> Values:
    """The names of all topics that whoever asks may know of, sorted."""
    names = await call.broker.in_thread(call.broker.store.topics)
    return {"topics": [name for name in names if call.may(Operation.DESCRIBE, Kind.TOPIC, name)]}


async def open_topic(call: Call, asked: Fields) -> Values:
    """A topic, made where there is none unless it must exist; with `is_described` all there is to know of it."""
    if not asked.must_exist:
        given: dict[str, Any] = settings_of(asked.settings)
        partitions = given.pop("partitions", None)
        await call.broker.allotment.make(call, asked.topic, partitions, given)
    topic, found = await call.broker.in_thread(_opened, call, asked)
    if "groups" in found and not call.may(Operation.ALTER, Kind.TOPIC, asked.topic):
        found["groups"] = [name for name in found["groups"] if call.may(Operation.DESCRIBE, Kind.GROUP, name)]
    return {**found, "id": call.broker.topics.id_of(topic)}


def _opened(call: Call, asked: Fields) -> tuple[Topic, dict[str, Any]]:
    topic = call.broker.store.existing_topic(asked.topic)
    if asked.must_exist:
        topic.refresh()
    topic.see_partitions()
    return topic, _described(topic) if asked.is_described else _shown(topic)


def _shown(topic: Topic) -> dict[str, Any]:
    parts = [{"partition": number, "first": log.first, "end": log.end} for number, log in enumerate(topic.logs)]
    return {"settings": setting_values(topic.settings.to_json()), "partitions": parts}


def _described(topic: Topic) -> dict[str, Any]:
    found = topic.describe()
    parts = [
        {"size" if name == "bytes" else name: value for name, value in dataclasses.asdict(part).items()}
        for part in found.partitions
    ]
    return {"settings": setting_values(found.settings.to_json()), "partitions": parts, "groups": found.groups}


async def configure_topic(call: Call, asked: Fields) -> Values:
    """Change settings of a topic, for everybody."""
    changes = settings_of(asked.settings)
    changed = await call.broker.allotment.configure(call, asked.topic, changes)
    return {"settings": setting_values(changed.to_json())}


async def delete_topic(call: Call, asked: Fields) -> Values:
    """Remove a topic with all that is in it."""
    await call.broker.allotment.delete(call, asked.topic)
    return {}


async def retire_topic(call: Call, asked: Fields) -> Values:
    """Remove the blocks that the settings of a topic no longer keep, without waiting until the broker does."""
    await call.broker.in_thread((await call.broker.opened_topic(asked.topic)).retire)
    return {}


def topic_of(call: Call, name: str) -> Topic:
    """The topic that a request names; NoSuchTopic where there is none, BadInput for a name that is none."""
    if not name:
        raise BadInput("a topic is needed")
    return call.broker.topics.find(name)
