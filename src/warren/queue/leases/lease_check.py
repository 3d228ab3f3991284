"""Checks that the caller still holds the lease of each message before an ack, nack, reject or extend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warren.clock import Duration, seconds_of
from warren.errors import BadInput, LeaseLost
from warren.message import Message
from warren.queue.leases.lease_state import LEASED, Leases, Span, spans_of
from warren.queue.state.group_settings import LEASE_S_MAX

MessageKey = tuple[int, int]
"""A partition and a number in it."""


def still_leased(leases: Leases, topic: str, messages: Sequence[Message]) -> tuple[list[Span], list[MessageKey]]:
    """Returns the spans of messages whose lease the caller still holds, and the places of the other messages.

    Each time a message is handed out its attempt is one higher, so an attempt identifies a lease. A lease that ran out
    still counts until the message is handed out again. If a message is named twice, the second one counts as lost.
    Raises BadInput for a message of another topic.
    """
    span = _one_span(leases, topic, messages)
    if span is not None:
        return [span], []
    outstanding = leases.outstanding
    kept: set[MessageKey] = set()
    lost: list[MessageKey] = []
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
    """Returns the messages as one span if they have consecutive numbers and all share one lease; otherwise None.

    This is the common case: the messages of one take. It saves a look at each message.
    """
    if set(map(type, messages)) != {Message}:
        return None
    # A Message whose fields are columns: `columns.number` is a tuple of all numbers, and so on.
    columns: Any = Message._make(zip(*messages, strict=True))
    partition, attempt, numbers = messages[0].partition, messages[0].attempt, columns.number
    start, end = numbers[0], numbers[0] + len(numbers)
    if set(columns.partition) != {partition} or set(columns.topic) != {topic} or set(columns.attempt) != {attempt}:
        return None
    outstanding = leases.outstanding.get(partition)
    if outstanding is None or numbers != tuple(range(start, end)):
        return None
    lease = outstanding.get(start)
    if lease is None or lease.attempt != attempt or lease.kind != LEASED:
        return None
    return [partition, start, end] if set(map(id, map(outstanding.get, numbers))) == {id(lease)} else None


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


def checked_us(duration: Duration) -> int:
    """Returns how long a lease or a delay lasts, in µs. Raises BadInput if it is not valid."""
    seconds: object = seconds_of(duration)
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LEASE_S_MAX:
        raise BadInput(f"seconds {seconds!r}: expected 0 to {LEASE_S_MAX:g}")
    return round(seconds * 1_000_000)
