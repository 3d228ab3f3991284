"""Checks that the caller still holds the lease of each message before an ack, nack, reject or extend."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from warren.clock import Duration, seconds_of
from warren.errors import BadInput, LeaseLost
from warren.message import Message
from warren.queue.leases.lease_state import LEASED, Leases, Span, spans_of
from warren.queue.state.group_settings import LEASE_S_MAX

MessageKey = tuple[int, int]
"""A partition and a number in it."""
T = TypeVar("T")


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
    places: set[MessageKey] = set()
    lost: list[MessageKey] = []
    message: Any
    for message in messages:
        if not isinstance(message, Message) or message.topic != topic or message.partition not in outstanding:
            raise BadInput(f"{message!r} is not a message of topic {str(topic)!r}")
        place = message.partition, message.number
        lease = outstanding[message.partition].get(message.number)
        is_leased = lease is not None and lease.attempt == message.attempt and lease.kind == LEASED
        if is_leased and place not in places:
            places.add(place)
        else:
            lost.append(place)
    return spans_of(places), lost


def _one_span(leases: Leases, topic: str, messages: Sequence[Message]) -> Span | None:
    """Returns the messages as one span if they have consecutive numbers and share one lease; otherwise None.

    This is the common case: the messages of one take. It avoids a check of each message.
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


class Settlement(Generic[T]):
    """Messages that are settled one by one. A call that stops at one of them may be repeated and continues with it."""

    def __init__(self, messages: Iterable[T]) -> None:
        self._waiting = deque(messages)
        self._errors: list[LeaseLost] = []

    def settle_rest(self, settle: Callable[[T], None]) -> None:
        """Calls `settle` for every message that is left. Raises one LeaseLost that names all whose lease was lost.

        Raises every other error immediately, such as NeedsMemory.
        """
        while self._waiting:
            try:
                settle(self._waiting[0])
            except LeaseLost as error:
                self._errors.append(error)
            self._waiting.popleft()
        if self._errors:
            places = [place for error in self._errors for place in error.places]
            raise LeaseLost(self._errors[0].topic, self._errors[0].group, places)


def checked_us(duration: Duration) -> int:
    """Returns how long a lease or a delay lasts, in µs. Raises BadInput if it is not valid."""
    seconds: object = seconds_of(duration)
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LEASE_S_MAX:
        raise BadInput(f"seconds {seconds!r}: expected 0 to {LEASE_S_MAX:g}")
    return round(seconds * 1_000_000)
