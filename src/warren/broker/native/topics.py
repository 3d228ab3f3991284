"""Sessions, and the topics of the store: made, described, changed and removed."""

from __future__ import annotations

from typing import Any, Final

from warren.broker.native.call import Call
from warren.broker.native.handler import session_of
from warren.broker.security.rights import Operation, ResourceKind
from warren.errors import BadInput
from warren.protocol.native.calls import settings_of, wire_settings
from warren.protocol.native_messages import (
    CloseHandleRequest,
    CloseHandleResponse,
    ConfigureTopicRequest,
    ConfigureTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    OpenSessionRequest,
    OpenSessionResponse,
    OpenTopicRequest,
    OpenTopicResponse,
    OpenTopicResponsePartition,
    RetireTopicRequest,
    RetireTopicResponse,
)
from warren.queue.topic import Topic

SOFTWARE: Final = "warren"
NO_HANDLE: Final = 0


def open_session(call: Call, request: OpenSessionRequest) -> OpenSessionResponse:
    """Adds the connection to a session. What is opened over it is closed with the session."""
    call.peer.software = request.software
    session = call.broker.sessions.join(call.peer, request.session)
    return OpenSessionResponse(store_id=call.broker.store.id, software=SOFTWARE, incarnation=session.incarnation)


async def close_handle(call: Call, request: CloseHandleRequest) -> CloseHandleResponse:
    """Closes what a handle stands for. NO_HANDLE ends the session with its connections. A second call does nothing."""
    if request.handle == NO_HANDLE:
        session_of(call).is_leaving = True
        return CloseHandleResponse()
    await call.broker.in_thread(session_of(call).let_go, request.handle)
    return CloseHandleResponse()


async def list_topics(call: Call, request: ListTopicsRequest) -> ListTopicsResponse:
    """Returns the names of all topics that the user may describe, sorted."""
    names = await call.broker.in_thread(call.broker.store.topics)
    return ListTopicsResponse(topics=[name for name in names if call.may(Operation.DESCRIBE, ResourceKind.TOPIC, name)])


async def open_topic(call: Call, request: OpenTopicRequest) -> OpenTopicResponse:
    """Opens a topic. Makes it if there is none, unless it must exist. With `is_described` returns its description."""
    if not request.must_exist:
        settings: dict[str, Any] = settings_of(request.settings)
        partitions = settings.pop("partitions", None)
        await call.broker.allotment.make(call, request.topic, partitions, settings)
    topic, response = await call.broker.in_thread(_opened, call, request)
    if response.groups and not call.may(Operation.ALTER, ResourceKind.TOPIC, request.topic):
        response.groups = [name for name in response.groups if call.may(Operation.DESCRIBE, ResourceKind.GROUP, name)]
    response.id = call.broker.topics.id_of(topic)
    return response


def _opened(call: Call, request: OpenTopicRequest) -> tuple[Topic, OpenTopicResponse]:
    topic = call.broker.store.existing_topic(request.topic)
    if request.must_exist:
        topic.refresh()
    topic.see_partitions()
    return topic, _described(topic) if request.is_described else _topic_state(topic)


def _topic_state(topic: Topic) -> OpenTopicResponse:
    parts = [OpenTopicResponsePartition(number, log.first, log.end) for number, log in enumerate(topic.logs)]
    return OpenTopicResponse(settings=wire_settings(topic.settings.to_json()), partitions=parts)


def _described(topic: Topic) -> OpenTopicResponse:
    description = topic.describe()
    parts = [
        OpenTopicResponsePartition(part.partition, part.first, part.end, part.bytes, part.created, part.updated)
        for part in description.partitions
    ]
    return OpenTopicResponse(
        settings=wire_settings(description.settings.to_json()), partitions=parts, groups=description.groups
    )


async def configure_topic(call: Call, request: ConfigureTopicRequest) -> ConfigureTopicResponse:
    """Changes settings of a topic, for all clients."""
    changes = settings_of(request.settings)
    changed = await call.broker.allotment.configure(call, request.topic, changes)
    return ConfigureTopicResponse(settings=wire_settings(changed.to_json()))


async def delete_topic(call: Call, request: DeleteTopicRequest) -> DeleteTopicResponse:
    """Removes a topic with all that is in it."""
    await call.broker.allotment.delete(call, request.topic)
    return DeleteTopicResponse()


async def retire_topic(call: Call, request: RetireTopicRequest) -> RetireTopicResponse:
    """Removes the blocks that the settings of a topic no longer keep, without waiting until the broker does."""
    await call.broker.in_thread((await call.broker.opened_topic(request.topic)).retire)
    return RetireTopicResponse()


def topic_of(call: Call, name: str) -> Topic:
    """Returns the topic that a request names. Raises NoSuchTopic if there is none, BadInput for an invalid name."""
    if not name:
        raise BadInput("a topic is needed")
    return call.broker.topics.find(name)
