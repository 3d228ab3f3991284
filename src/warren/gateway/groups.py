"""Groups over HTTP: how far behind they are, and taking messages of queue groups by leases that a token stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from warren.broker.security.rights import Kind, Operation
from warren.broker.statistics import group_document
from warren.config import (
    FILTER_SIZE_MAX,
    GROUP_NAME_SIZE_MAX,
    HTTP_ANSWER_SIZE_TARGET,
    HTTP_BODY_SIZE_MAX,
    HTTP_LIMIT_MAX,
    HTTP_WAIT_S_MAX,
    NAME_SIZE_MAX,
    OWN_LOOK_S,
    SCANNED_SIZE_MAX,
)
from warren.errors import LeaseLost, TooLarge
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.json_messages import NUMBER_MAX, TAKEN_FIELDS, message_document
from warren.gateway.leases import Tokens
from warren.gateway.shapes import Fields, Listed, Seconds, Text, Truth, Whole
from warren.gateway.topics import LISTED_MAX, NAME_PATTERN, topic_of
from warren.message import Message
from warren.queue.group_settings import ATTEMPTS_MAX_MAX, BACKOFF_S_MAX, LEASE_S_MAX, LEASE_S_MIN
from warren.queue.queue_group import QueueGroup
from warren.queue.taken import settle_each
from warren.queue.topic import Topic
from warren.storage.read import ScanRoom

GROUP_NAME: Final = Text(GROUP_NAME_SIZE_MAX, 1, NAME_PATTERN)
TOKEN: Final = Text(256, 1, "^[A-Za-z0-9_-]+$")
_COUNT: Final = Whole(0, NUMBER_MAX, is_nullable=True)
_PART: Final = Fields(
    {"partition": Whole(0, NUMBER_MAX), "next": _COUNT, "end": Whole(0, NUMBER_MAX), "behind": Whole(0, NUMBER_MAX)},
    required=("partition", "next", "end", "behind"),
)
GROUP: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "group": Text(NAME_SIZE_MAX),
        "mode": Text(6, choices=("stream", "queue")),
        "tag": Text(NAME_SIZE_MAX, is_nullable=True),
        "members": _COUNT,
        "leased": _COUNT,
        "behind": Whole(0, NUMBER_MAX),
        "partitions": Listed(_PART, LISTED_MAX),
    },
    required=("topic", "group", "mode", "tag", "members", "leased", "behind", "partitions"),
)
GROUPS: Final = Fields({"groups": Listed(GROUP, LISTED_MAX)}, required=("groups",))
GROUP_OPTIONS: Final = Fields(
    {
        "tag": Text(FILTER_SIZE_MAX, 1),
        "start": Text(5, choices=("start", "end")),
        "lease": Seconds(LEASE_S_MAX, LEASE_S_MIN),
        "attempts_max": Whole(0, ATTEMPTS_MAX_MAX),
        "backoff": Seconds(BACKOFF_S_MAX),
        "backoff_max": Seconds(BACKOFF_S_MAX),
        "ordered_by_key": Truth(),
        "renew_max": Seconds(LEASE_S_MAX),
    }
)
TAKE: Final = Fields({"limit": Whole(1, HTTP_LIMIT_MAX), "wait_s": Seconds(HTTP_WAIT_S_MAX)})
TAKEN: Final = Fields({"messages": Listed(TAKEN_FIELDS, HTTP_LIMIT_MAX)}, required=("messages",))
_LEASES: Final = Listed(TOKEN, HTTP_LIMIT_MAX, 1)
ACK: Final = Fields({"leases": _LEASES}, required=("leases",))
NACK: Final = Fields({"leases": _LEASES, "delay_s": Seconds(LEASE_S_MAX), "reason": Text(1000)}, required=("leases",))
EXTEND: Final = Fields({"leases": _LEASES, "seconds": Seconds(LEASE_S_MAX)}, required=("leases", "seconds"))


async def list_groups(asked: Asked) -> Reply:
    """All groups of all topics, or of one, that whoever asks may know of."""
    broker = asked.broker
    standing = await broker.standings.look_now()
    topic = asked.path.get("topic")
    if topic is not None:
        topic_of(asked)
    shown = [
        group
        async for group in broker.turns.over(standing.groups)
        if topic in (None, group.topic)
        and asked.may(Operation.DESCRIBE, Kind.GROUP, group.group)
        and asked.may(Operation.DESCRIBE, Kind.TOPIC, group.topic)
    ]
    return await broker.aside(lambda: json_reply({"groups": [group_document(group) for group in shown]}))


async def describe_group(asked: Asked) -> Reply:
    found = await asked.broker.in_thread(topic_of(asked).describe_group, asked.path["group"])
    return json_reply(group_document(found))


async def configure_group(asked: Asked) -> Reply:
    """Makes a queue group with these settings, or changes the settings of the group there is."""
    topic, name = topic_of(asked), asked.path["group"]
    may_change = asked.may(Operation.ALTER_CONFIGS, Kind.GROUP, name)

    def opened() -> dict[str, Any]:
        is_change = may_change and name in topic.groups()
        # SettingsDiffer if it is a stream group, or if the user may not change it and another user made it just now.
        topic.group(name, mode="queue", **({} if is_change else asked.body)).close()
        if is_change:
            topic.configure_group(name, **asked.body)
        return group_document(topic.describe_group(name))

    return json_reply(await asked.broker.in_thread(opened))


async def delete_group(asked: Asked) -> Reply:
    """Remove a group with its positions and leases."""
    topic, name = topic_of(asked), asked.path["group"]
    await asked.broker.in_thread(topic.delete_group, name)
    asked.broker.positions.drop(topic, name)
    return Reply(status=204)


class Work:
    """Taking and settling, for all who ask over HTTP. On the event loop; the tokens are of this broker alone."""

    def __init__(self) -> None:
        self._tokens = Tokens()

    async def take(self, asked: Asked) -> Reply:
        """Lease messages of a queue group, which is made where there is none; where there is no message, wait."""
        topic, name, broker = topic_of(asked), asked.path["group"], asked.broker
        limit, loop = asked.body.get("limit", 1), asyncio.get_running_loop()
        deadline_s = asked.deadline_s(asked.body.get("wait_s", 0.0))
        while True:
            ends, room = [(log, log.end) for log in topic.logs], ScanRoom(SCANNED_SIZE_MAX)
            messages = await broker.in_thread(_take, topic, name, limit, room)
            if messages or broker.is_stopping or asked.is_gone():
                break
            if room.is_used_up:
                # The group knows how far this look came: the next one, after requests of others, goes on from there.
                asked.check()
                continue
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                break
            if all(log.end == end for log, end in ends):
                # Leases that run out ring nobody: they are looked for.
                await broker.long_polls.wait([log for log, _ in ends], min(left_s, OWN_LOOK_S))
                # The right may be gone after so long.
                asked.check()
        if asked.is_gone():
            await broker.in_thread(_give_back, topic, name, messages)
            messages = []
        return await broker.in_thread(self._taken, name, messages)

    def _taken(self, group: str, messages: Sequence[Message]) -> Reply:
        shown = [
            {**message_document(each), "attempt": each.attempt, "lease": self._tokens.make(group, each)}
            for each in messages
        ]
        return json_reply({"messages": shown})

    async def ack(self, asked: Asked) -> Reply:
        """These are done with, for good. LeaseLost where some are leased no more; the others are acknowledged."""
        messages = self._leased(asked)
        await asked.broker.in_thread(_with_group, asked, lambda group: group.ack_many(messages))
        return Reply(status=204)

    async def nack(self, asked: Asked) -> Reply:
        """Gives messages back, or buries them after the last attempt.

        LeaseLost if some are no longer leased; the others are given back nevertheless.
        """
        messages, body = self._leased(asked), asked.body

        def give_back(group: QueueGroup) -> None:
            settle_each(messages, lambda message: group.nack(message, body.get("delay_s"), body.get("reason", "")))

        await asked.broker.in_thread(_with_group, asked, give_back)
        for log in topic_of(asked).logs:
            asked.broker.long_polls.ring(log)
        return Reply(status=204)

    async def extend(self, asked: Asked) -> Reply:
        """The leases run out `seconds` from now. LeaseLost if some are lost; the others are extended nevertheless."""
        messages, seconds = self._leased(asked), asked.body["seconds"]
        await asked.broker.in_thread(_with_group, asked, lambda group: group.extend_many(messages, seconds))
        return Reply(status=204)

    def _leased(self, asked: Asked) -> list[Message]:
        topic, group = str(topic_of(asked).name), asked.path["group"]
        return [self._tokens.read(topic, group, token) for token in asked.body["leases"]]


def _take(topic: Topic, name: str, limit: int, room: ScanRoom) -> list[Message]:
    """Up to `limit` messages, no more than one answer holds: one first, to see how large they are.

    None if `room` does not suffice to find one.
    """
    taken: list[Message] = []
    size, step = 0, 1
    with topic.group(name, mode="queue") as group:
        while step > 0 and (messages := group.take_within(step, room)):
            taken += messages
            size += sum(len(message.body) for message in messages)
            left = max(0, HTTP_ANSWER_SIZE_TARGET - size)
            step = min(limit - len(taken), 2 * step, left * len(taken) // max(size, 1))
        return _fitting(group, taken)


def _fitting(group: QueueGroup, taken: Sequence[Message]) -> list[Message]:
    """Those that an answer can hold; the others are given back, for workers that come by other ways.

    TooLarge where none is left.
    """
    over = [message for message in taken if len(message.body) > HTTP_BODY_SIZE_MAX]
    for message in over:
        group.nack(message, reason="too large for HTTP")
    if over and len(over) == len(taken):
        raise TooLarge(
            f"message {over[0].number} for an answer over HTTP: a body", len(over[0].body), HTTP_BODY_SIZE_MAX
        )
    return [message for message in taken if len(message.body) <= HTTP_BODY_SIZE_MAX]


def _give_back(topic: Topic, name: str, messages: Sequence[Message]) -> None:
    """Nobody got these: they are for others at once."""
    with topic.group(name, mode="queue") as group:
        for message in messages:
            with suppress(LeaseLost):
                group.nack(message, 0.0)


def _with_group(asked: Asked, work: Any) -> None:
    topic, name = topic_of(asked), asked.path["group"]
    topic.group_settings(name)
    with topic.group(name, mode="queue") as group:
        work(group)
