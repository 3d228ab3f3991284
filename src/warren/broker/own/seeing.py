"""Groups and dead letters for whoever looks at them: nobody joins, and nothing is made or changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from warren.broker.call import Call
from warren.broker.own.answering import limit_of
from warren.broker.own.reading import size_of
from warren.config import READ_LIMIT_DEFAULT
from warren.message import Message
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import position_values, positions_of, setting_values
from warren.protocol.own_records import carried
from warren.queue.dead_letter import dead_letter_topic
from warren.queue.letters import letters
from warren.queue.topic import Topic


async def see_group(call: Call, asked: Fields) -> Values:
    """The settings of a group, and where it stands, as far as that is asked for; NoSuchGroup where there is none."""
    topic = await call.broker.opened_topic(asked.topic)
    found = await call.broker.in_thread(_seen if asked.is_described else _settings, topic, asked.group)
    if asked.is_put_back_wanted:
        parts = await call.broker.in_thread(topic.put_back, asked.group)
        return {**found, "put_back": [part._asdict() for part in parts]}
    return found


def _settings(topic: Topic, group: str) -> Values:
    return {"settings": setting_values(topic.group_settings(group).to_json())}


def _seen(topic: Topic, group: str) -> Values:
    found = topic.describe_group(group)
    parts = found.partitions
    return {
        "settings": setting_values(found.settings.to_json()),
        "members": list(found.members or ()),
        "positions": position_values({part.partition: part.next for part in parts if part.next is not None}),
        "ends": position_values({part.partition: part.end for part in parts}),
        "lag": position_values({part.partition: part.behind for part in parts}),
        "in_flight": found.leased or 0,
    }


async def list_dead(call: Call, asked: Fields) -> Values:
    """Dead letters of a topic as they lie, from the positions on, without those that were put back."""
    topic = await call.broker.opened_topic(asked.topic)
    name = dead_letter_topic(str(topic.name), topic.settings.dead_letter)
    limit, positions = min(limit_of(asked), READ_LIMIT_DEFAULT), positions_of(asked.positions)
    found = await call.broker.in_thread(_letters, topic, asked.group, positions, limit, size_of(call, asked))
    values, count = carried(found)
    # Letters come partition by partition: of those before the last one nothing is left.
    following = {**positions, **{message.partition: message.number + 1 for message in found[:count]}}
    return {"topic": name, "messages": values, "positions": position_values(following)}


def _letters(topic: Topic, group: str | None, positions: Mapping[int, int], limit: int, size_max: int) -> list[Message]:
    found: list[Message] = []
    for letter in islice(letters(topic, group, positions), limit):
        found.append(letter.message)
        size_max -= len(letter.message.body)
        if size_max <= 0:
            break
    return found
