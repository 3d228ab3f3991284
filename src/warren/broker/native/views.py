"""Read-only views of groups, dead letters and statistics: they join no group, and make and change nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice

from warren.broker.native.call import Call
from warren.broker.native.handler import checked_limit, in_memory
from warren.broker.native.read import size_of
from warren.broker.services.status import document_of, standing_document
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message
from warren.protocol.native.calls import positions_of, wire_positions, wire_settings
from warren.protocol.native.records import carried
from warren.protocol.native_messages import (
    ListDeadRequest,
    ListDeadResponse,
    SeeGroupRequest,
    SeeGroupResponse,
    SeeGroupResponsePutBack,
    StatisticsRequest,
    StatisticsResponse,
)
from warren.queue.leases.dead_letter_views import letters
from warren.queue.leases.dead_letters import dead_letter_topic
from warren.queue.topic import Topic


async def see_group(call: Call, request: SeeGroupRequest) -> SeeGroupResponse:
    """Returns the settings of a group, and its state if requested. Raises NoSuchGroup if there is none."""
    topic = await call.broker.opened_topic(request.topic)
    response = await call.broker.in_thread(_group_state if request.is_described else _settings, topic, request.group)
    if request.is_put_back_wanted:
        parts = await call.broker.in_thread(topic.put_back, request.group)
        response.put_back = [SeeGroupResponsePutBack(*part) for part in parts]
    return response


def _settings(topic: Topic, group: str) -> SeeGroupResponse:
    return SeeGroupResponse(settings=wire_settings(topic.group_settings(group).to_json()))


def _group_state(topic: Topic, group: str) -> SeeGroupResponse:
    description = topic.describe_group(group)
    parts = description.partitions
    return SeeGroupResponse(
        settings=wire_settings(description.settings.to_json()),
        members=list(description.members or ()),
        positions=wire_positions({part.partition: part.next for part in parts if part.next is not None}),
        ends=wire_positions({part.partition: part.end for part in parts}),
        lag=wire_positions({part.partition: part.behind for part in parts}),
        in_flight=description.leased or 0,
    )


async def list_dead(call: Call, request: ListDeadRequest) -> ListDeadResponse:
    """Returns dead letters of a topic in their order, from the positions on, without those that were put back."""
    topic = await call.broker.opened_topic(request.topic)
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    limit, positions = min(checked_limit(request.limit), READ_LIMIT_DEFAULT), positions_of(request.positions)
    size = size_of(call, request.bytes_max)

    def answer() -> ListDeadResponse:
        messages = _letters(topic, request.group, positions, limit, size)
        sent, count = carried(messages)
        # Letters come partition by partition, so the partitions before that of the last letter are read to their ends.
        following = {**positions, **{message.partition: message.number + 1 for message in messages[:count]}}
        return ListDeadResponse(topic=name, messages=sent, positions=wire_positions(following))

    return await in_memory(call, answer)


def _letters(topic: Topic, group: str | None, positions: Mapping[int, int], limit: int, size_max: int) -> list[Message]:
    messages: list[Message] = []
    for letter in islice(letters(topic, group, positions), limit):
        messages.append(letter.message)
        size_max -= len(letter.message.body)
        if size_max <= 0:
            break
    return messages


async def statistics(call: Call, request: StatisticsRequest) -> StatisticsResponse:
    """Returns the statistics of the broker, with `is_standing_wanted` also the state of topics and groups."""
    document = document_of(call.broker)
    if not request.is_standing_wanted:
        return StatisticsResponse(statistics=json.dumps(document))
    standing = await call.broker.standings.look()
    text = await call.broker.aside(lambda: json.dumps({**document, **standing_document(standing)}))
    return StatisticsResponse(statistics=text)
