"""Groups over HTTP: their lag, the leases of queue groups (each with a token), and dead letters."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.broker.native.limits import NATIVE_LOOK_S
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.services.long_polls import PollResult
from warren.broker.services.status import group_document
from warren.broker.services.turns import SCANNED_SIZE_MAX
from warren.errors import BadInput, NeedsMemory, TooLargeForHttp
from warren.gateway.handlers.messages import (
    LETTER_FIELDS,
    LIMIT_DEFAULT,
    TAKEN_FIELDS,
    UNBOUNDED,
    in_memory,
    message_document,
    release_memory,
)
from warren.gateway.handlers.topics import LISTED_MAX, topic_of
from warren.gateway.http.limits import HTTP_ANSWER_SIZE_TARGET, HTTP_BODY_SIZE_MAX, HTTP_LIMIT_MAX, HTTP_WAIT_S_MAX
from warren.gateway.http.schemas import NUMBER, NUMBER_MAX, Fields, Listed, Shape, Text, Value
from warren.gateway.http.types import HttpReply, HttpRequest, json_reply
from warren.limits import GROUP_NAME_SIZE_MAX, NAME_SIZE_MAX, PARTITIONS_MAX
from warren.message import NO_CORR_OFFSET, NO_HEADERS, Message
from warren.queue.leases.dead_letters import Redriven
from warren.queue.leases.lease_check import Settlement
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.state.group_settings import EDGES, GROUP_OPTIONS, GROUP_SETTINGS, LEASE_S_MAX
from warren.queue.state.settings import NAME_PATTERN
from warren.queue.topic import Topic
from warren.settings import Count, OneOf, OrNone, Seconds
from warren.storage.read.messages import ScanRoom

SECRET_SIZE: Final = 32
SEAL_SIZE: Final = 12
GROUP_NAME: Final = Text(GROUP_NAME_SIZE_MAX, 1, NAME_PATTERN)
TOKEN: Final = Text(256, 1, "^[A-Za-z0-9_-]+$")
_COUNT: Final = Value(OrNone(Count(0, NUMBER_MAX)))
_PART: Final = Fields(
    {"partition": NUMBER, "next": _COUNT, "end": NUMBER, "behind": NUMBER},
    required=("partition", "next", "end", "behind"),
)
GROUP: Final = Fields(
    {
        "topic": Text(NAME_SIZE_MAX),
        "group": Text(NAME_SIZE_MAX),
        "mode": Value(GROUP_SETTINGS["mode"].kind),
        "tag": Text(NAME_SIZE_MAX, is_nullable=True),
        "members": _COUNT,
        "leased": _COUNT,
        "behind": NUMBER,
        "partitions": Listed(_PART, LISTED_MAX),
    },
    required=("topic", "group", "mode", "tag", "members", "leased", "behind", "partitions"),
)
GROUPS: Final = Fields({"groups": Listed(GROUP, LISTED_MAX)}, required=("groups",))
SETTINGS: Final = Fields(
    {**{name: Value(each.kind) for name, each in GROUP_OPTIONS.items()}, "start": Value(OneOf(EDGES))}
)
TAKE: Final = Fields({"limit": Value(Count(1, HTTP_LIMIT_MAX)), "wait_s": Value(Seconds(0, HTTP_WAIT_S_MAX))})
TAKEN: Final = Fields({"messages": Listed(TAKEN_FIELDS, HTTP_LIMIT_MAX)}, required=("messages",))
_LEASES: Final = Listed(TOKEN, HTTP_LIMIT_MAX, 1)
ACK: Final = Fields({"leases": _LEASES}, required=("leases",))
NACK: Final = Fields(
    {"leases": _LEASES, "delay_s": Value(Seconds(0, LEASE_S_MAX)), "reason": Text(1000)}, required=("leases",)
)
REJECT: Final = Fields(
    {"partition": Value(Count(0, PARTITIONS_MAX - 1)), "number": NUMBER, "reason": Text(1000)},
    required=("partition", "number"),
)
EXTEND: Final = Fields({"leases": _LEASES, "seconds": Value(Seconds(0, LEASE_S_MAX))}, required=("leases", "seconds"))

_LETTER: Final[Mapping[str, Shape]] = {
    "message": LETTER_FIELDS,
    "group": Text(UNBOUNDED),
    "reason": Text(UNBOUNDED),
    "attempts": NUMBER,
    "partition": NUMBER,
    "number": NUMBER,
}
DEAD: Final = Fields({"dead": Listed(Fields(_LETTER, required=tuple(_LETTER)), HTTP_LIMIT_MAX)}, required=("dead",))
REDRIVE: Final = Fields({"limit": Value(Count(1, NUMBER_MAX))})
REDRIVEN: Final = Fields({"count": NUMBER}, required=("count",))


async def list_groups(request: HttpRequest) -> HttpReply:
    """Lists the groups of all topics, or of one, that the user may describe."""
    broker = request.broker
    standing = await broker.standings.look_now()
    topic = request.path.get("topic")
    if topic is not None:
        topic_of(request)
    groups = [
        group
        async for group in broker.turns.over(standing.groups)
        if topic in (None, group.topic)
        and request.may(Operation.DESCRIBE, ResourceKind.GROUP, group.group)
        and request.may(Operation.DESCRIBE, ResourceKind.TOPIC, group.topic)
    ]
    return await broker.aside(lambda: json_reply({"groups": [group_document(group) for group in groups]}))


async def describe_group(request: HttpRequest) -> HttpReply:
    """Returns the lag of one group by partition."""
    description = await request.broker.in_thread(topic_of(request).describe_group, request.path["group"])
    return json_reply(group_document(description))


async def configure_group(request: HttpRequest) -> HttpReply:
    """Creates a queue group with these settings, or changes those of an existing group."""
    topic, name = topic_of(request), request.path["group"]
    may_change = request.may(Operation.ALTER_CONFIGS, ResourceKind.GROUP, name)

    def opened() -> dict[str, Any]:
        is_change = may_change and name in topic.groups()
        # Raises SettingsDiffer if it is a stream group, or if the user may not change it and another user has just
        # created it.
        topic.group(name, mode="queue", **({} if is_change else request.body)).close()
        if is_change:
            topic.configure_group(name, **request.body)
        return group_document(topic.describe_group(name))

    return json_reply(await request.broker.in_thread(opened))


async def delete_group(request: HttpRequest) -> HttpReply:
    """Deletes a group with its positions and leases."""
    topic, name = topic_of(request), request.path["group"]
    await request.broker.in_thread(topic.delete_group, name)
    request.broker.positions.drop(topic, name)
    return HttpReply(status=204)


class Tokens:
    """Makes and reads tokens. A client can settle a message with its token over any connection.

    Only this broker can make a valid token, because each is sealed with a secret of the process. A token names a
    message and its attempt; the group knows whether that lease still holds.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(SECRET_SIZE)

    def make(self, group: str, message: Message) -> str:
        """Returns the token of a message that was taken from `group`."""
        facts = f"{message.partition}.{message.number}.{message.attempt}"
        return base64.urlsafe_b64encode(self._seal(message.topic, group, facts) + facts.encode()).decode().rstrip("=")

    def read(self, topic: str, group: str, token: str) -> Message:
        """Returns the message that a token names, with the fields that its group needs.

        Raises BadInput if the token is invalid.
        """
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            facts = data[SEAL_SIZE:].decode()
        except (binascii.Error, ValueError):
            raise BadInput(f"lease {token[:50]!r}: it is not a lease") from None
        if not hmac.compare_digest(data[:SEAL_SIZE], self._seal(topic, group, facts)):
            raise BadInput(f"lease {token[:50]!r}: it is not a lease of group {group!r} of topic {topic!r}")
        partition, number, attempt = map(int, facts.split("."))
        return Message(number, 0, partition, topic, 0, "", "", None, NO_HEADERS, NO_CORR_OFFSET, b"", attempt)

    def _seal(self, topic: str, group: str, facts: str) -> bytes:
        data = f"{topic}/{group}/{facts}".encode(errors="surrogateescape")
        return hmac.digest(self._secret, data, "sha256")[:SEAL_SIZE]


class Work:
    """Takes and settles messages for clients over HTTP. Only the event loop's thread may use it."""

    def __init__(self) -> None:
        self._tokens = Tokens()

    async def take(self, request: HttpRequest) -> HttpReply:
        """Leases messages of a queue group, and waits if there are none. Creates the group if it does not exist."""
        topic, name, broker = topic_of(request), request.path["group"], request.broker
        limit, deadline_s = request.body.get("limit", 1), request.deadline_s(request.body.get("wait_s", 0.0))

        async def attempt(is_rung: bool) -> PollResult[list[Message]]:
            while True:
                ends, room = [(log, log.end) for log in topic.logs], ScanRoom(SCANNED_SIZE_MAX)
                messages = await in_memory(request, _take, topic, name, limit, room)
                if messages or not room.is_used_up or broker.is_stopping or request.is_gone():
                    break
                # The group remembers how far this search got. The next one, after other requests, continues there.
                request.check()
            return PollResult(messages, bool(messages) or request.is_gone(), any(log.end != end for log, end in ends))

        # Polls, because no log announces a lease that runs out. The right may have been removed during a wait.
        messages = await broker.long_polls.until(
            attempt, lambda: topic.logs, deadline_s, lambda: NATIVE_LOOK_S, resumes=request.check
        )
        if request.is_gone():
            await broker.in_thread(_give_back, topic, name, messages)
            messages = []
        try:
            return await broker.in_thread(self._taken, name, messages)
        finally:
            release_memory(request)

    def _taken(self, group: str, messages: Sequence[Message]) -> HttpReply:
        documents = [
            {**message_document(each), "attempt": each.attempt, "lease": self._tokens.make(group, each)}
            for each in messages
        ]
        return json_reply({"messages": documents})

    async def ack(self, request: HttpRequest) -> HttpReply:
        """Acknowledges messages. Raises LeaseLost if some leases are lost; the others are acknowledged nevertheless."""
        messages = self._leased(request)
        await request.broker.in_thread(_with_group, request, lambda group: group.ack_many(messages))
        return HttpReply(status=204)

    async def nack(self, request: HttpRequest) -> HttpReply:
        """Gives messages back, or buries them after the last attempt.

        Raises LeaseLost if some leases are lost; the other messages are given back nevertheless.
        """
        settlement, body = Settlement(self._leased(request)), request.body

        def give_back(group: QueueGroup) -> None:
            settlement.settle_rest(lambda message: group.nack(message, body.get("delay_s"), body.get("reason", "")))

        # What was handed out over HTTP is small, so no dead letter of it has to wait for memory.
        await request.broker.in_thread(_with_group, request, give_back)
        for log in topic_of(request).logs:
            request.broker.long_polls.ring(log)
        return HttpReply(status=204)

    async def reject(self, request: HttpRequest) -> HttpReply:
        """Buries a message that no worker holds, by its place. Raises LeaseLost if a worker holds it, or it is done."""
        body = request.body
        place, reason = (body["partition"], body["number"]), body.get("reason", "")
        await _with_group_in_memory(request, lambda group: group.reject_waiting(*place, reason))
        return HttpReply(status=204)

    async def extend(self, request: HttpRequest) -> HttpReply:
        """Extends leases to `seconds` from now. Raises LeaseLost if some are lost; the others are extended."""
        messages, seconds = self._leased(request), request.body["seconds"]
        await request.broker.in_thread(_with_group, request, lambda group: group.extend_many(messages, seconds))
        return HttpReply(status=204)

    def _leased(self, request: HttpRequest) -> list[Message]:
        topic, group = str(topic_of(request).name), request.path["group"]
        return [self._tokens.read(topic, group, token) for token in request.body["leases"]]


def _take(topic: Topic, name: str, limit: int, room: ScanRoom) -> list[Message]:
    """Takes up to `limit` messages, but no more than fit into one reply: first one message, to see its size.

    Returns an empty list if `room` is used up before a message is found.
    """
    result: list[Message] = []
    size, step = 0, 1
    with topic.group(name, mode="queue") as group:
        while step > 0:
            try:
                messages = group.take_within(step, room)
            except NeedsMemory:
                if step == 1 and not result:
                    raise
                # They are large, and are taken one by one. If some were taken before, those are returned.
                step = 0 if result else 1
                continue
            if not messages:
                break
            result += messages
            size += sum(len(message.body) for message in messages)
            left = max(0, HTTP_ANSWER_SIZE_TARGET - size)
            step = min(limit - len(result), 2 * step, left * len(result) // max(size, 1))
        return _fitting(group, result)


def _fitting(group: QueueGroup, messages: Sequence[Message]) -> list[Message]:
    """Returns the messages before the first one that is too large for a reply. Gives back that one and the later ones.

    Their attempts do not count, because no worker received them. Raises TooLargeForHttp if the first message is too
    large.
    """
    sizes = [len(message.body) for message in messages]
    count = next((row for row, size in enumerate(sizes) if size > HTTP_BODY_SIZE_MAX), len(messages))
    if count < len(messages):
        group.give_back(messages[count:])
    if messages and not count:
        first = messages[0]
        raise TooLargeForHttp(str(first.topic), group.name, first.partition, first.number, sizes[0], HTTP_BODY_SIZE_MAX)
    return list(messages[:count])


def _give_back(topic: Topic, name: str, messages: Sequence[Message]) -> None:
    """Gives back messages whose client has disconnected, so that other workers can take them immediately.

    No attempt counts.
    """
    if messages:
        with topic.group(name, mode="queue") as group:
            group.give_back(messages)


def _with_group(request: HttpRequest, work: Any) -> None:
    topic, name = topic_of(request), request.path["group"]
    topic.group_settings(name)
    with topic.group(name, mode="queue") as group:
        work(group)


async def _with_group_in_memory(request: HttpRequest, work: Any) -> None:
    """Does what `_with_group` does for work that reads dead letters. Such work is repeated if it needs more memory."""
    try:
        await in_memory(request, _with_group, request, work)
    finally:
        release_memory(request)


async def list_dead(request: HttpRequest) -> HttpReply:
    """Lists the dead letters of a group that were not put back, oldest first."""
    try:
        return await in_memory(request, _dead, topic_of(request), request.path["group"], request.query)
    finally:
        release_memory(request)


def _dead(topic: Topic, group: str, query: Any) -> HttpReply:
    limit, size = query.get("limit", LIMIT_DEFAULT), 0
    letters: list[dict[str, Any]] = []
    topic.group_settings(group)
    for letter in topic.dead_letters(group):
        fields = letter._asdict() | {"message": _letter_document(letter.message)}
        letters.append({name: fields[name] for name in _LETTER})
        size += len(letter.message.body)
        if len(letters) >= limit or size >= HTTP_ANSWER_SIZE_TARGET:
            break
    return json_reply({"dead": letters})


def _letter_document(message: Message) -> dict[str, Any]:
    """Returns a dead letter as JSON, without its body if that is too large, so that one large body does not fail the
    list.
    """
    if len(message.body) <= HTTP_BODY_SIZE_MAX:
        return message_document(message)
    return message_document(message._replace(body=b"")) | {"body": None}


async def redrive(request: HttpRequest) -> HttpReply:
    """Puts dead letters of a group back into the topic, and returns how many."""
    topic, done, limit = topic_of(request), Redriven(), request.body.get("limit")
    await _with_group_in_memory(request, lambda group: group.redrive_on(done, limit))
    for log in topic.logs:
        request.broker.long_polls.ring(log)
    return json_reply({"count": done.count})
