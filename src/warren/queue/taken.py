"""Checks that the caller still holds the lease of each message before an ack, nack, reject or extend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warren.errors import BadInput, LeaseLost
from warren.message import Message
from warren.queue.leases import LEASED, Leases
from warren.queue.spans import Span, spans_of

Place = tuple[int, int]
"""A partition, and a number in it."""


def still_leased(leases: Leases, topic: str, messages: Sequence[Message]) -> tuple[list[Span], list[Place]]:
    """Those of the messages that are, and the places of those that are not. BadInput for what is of another topic.

    The attempt tells: whenever a message is handed out again, it is another one. A lease that ran out counts for as
    long as nobody else was given the message. Of a message that is named twice only the first counts.
    """
    span = _one_span(leases, topic, messages)
    if span is not None:
        return [span], []
    outstanding = leases.outstanding
    kept: set[Place] = set()
    lost: list[Place] = []
    message: Any
    for message in messages:
        if not isinstance(message, Message) or message.topic != topic or message.partition not in outstanding:
            raise BadInput(f"{message!r} is no message of topic {str(topic)!r}")
        place = message.partition, message.number
        lease = outstanding[message.partition].get(message.number)
        is_leased = lease is not None and lease.attempt == message.attempt and lease.kind == LEASED
        if is_leased and place not in kept:
            kept.add(place)
        else:
            lost.append(place)
    return spans_of(kept), lost


def _one_span(leases: Leases, topic: str, messages: Sequence[Message]) -> Span | None:
    """The messages as one span, where they were taken together, one after the other, and are all still leased.

    That is how most come, and then there is no need to look at them one by one.
    """
    if set(map(type, messages)) != {Message}:
        return None
    columns = list(zip(*messages, strict=True))
    numbers, partition, attempt = columns[0], messages[0].partition, messages[0].attempt
    start, end = numbers[0], numbers[0] + len(numbers)
    if set(columns[2]) != {partition} or set(columns[3]) != {topic} or set(columns[11]) != {attempt}:
        return None
    found = leases.outstanding.get(partition)
    if found is None or numbers != tuple(range(start, end)):
        return None
    lease = found.get(start)
    if lease is None or lease.attempt != attempt or lease.kind != LEASED:
        return None
    return [partition, start, end] if set(map(id, map(found.get, numbers))) == {id(lease)} else None


def settle_each(messages: Sequence[Message], settle: Callable[[Message], None]) -> None:
    """Calls `settle` for every message. Raises one LeaseLost that names all messages whose lease was lost."""
    errors: list[LeaseLost] = []
    for message in messages:
        try:
            settle(message)
        except LeaseLost as error:
            errors.append(error)
    if errors:
        places = [place for error in errors for place in error.places]
        raise LeaseLost(errors[0].topic, errors[0].group, places)
