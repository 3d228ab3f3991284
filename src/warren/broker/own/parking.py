"""Delayed messages: parked, listed and cancelled."""

from __future__ import annotations

from typing import Any

from warren.broker.call import Call
from warren.broker.own.answering import limit_of, none_where
from warren.broker.own.reading import size_of
from warren.config import READ_LIMIT_DEFAULT
from warren.errors import BadInput
from warren.message import Message
from warren.protocol.kafka_codec import Fields, Values
from warren.protocol.own_api import ANY
from warren.protocol.own_records import batch_of, carried
from warren.queue.delayed import HORIZONS, Scheduled, parse_handle_id
from warren.queue.topic import Topic
from warren.storage.columns import Batch


def due_options(asked: Fields) -> dict[str, Any]:
    """When the messages of a request are due, as `put` takes it."""
    return {"delay": asked.due / 1_000_000} if asked.is_delay else {"deliver_at": asked.due}


def put_of(topic: Topic, asked: Fields) -> Batch:
    """The messages of a request; BadInput where there is none."""
    if not asked.records:
        raise BadInput("a put has one record at least")
    return batch_of(asked.records, topic.settings.message_size_max)


def columns_of(batch: Batch) -> dict[str, Any]:
    """What `put_many` takes beside the bodies."""
    return {name: column for name, column in batch._asdict().items() if name != "bodies"}


async def park(call: Call, asked: Fields) -> Values:
    """Put messages that are delivered when they are due; the ids by which they can be cancelled."""
    topic = await call.broker.opened_topic(asked.topic)

    def put() -> Values:
        batch, options = put_of(topic, asked), {**due_options(asked), "partition": none_where(asked.partition, ANY)}
        handles: Any = topic.put_many(batch.bodies, **columns_of(batch), **options)
        return {"ids": [handle.id for handle in handles]}

    return await call.broker.in_thread(put)


async def list_parked(call: Call, asked: Fields) -> Values:
    """What is parked in a topic by due time, behind the one with the id `after`."""
    topic = await call.broker.opened_topic(asked.topic)
    limit, size = min(limit_of(asked), READ_LIMIT_DEFAULT), size_of(call, asked)
    after = _order(asked.after) if asked.after else None
    found = await call.broker.in_thread(_listed, topic, after, limit, size)
    values, count = carried([_message(each) for each in found])
    parked = [
        {"id": each.id, "due": _order(each.id)[0], "partition": ANY if each.partition is None else each.partition}
        for each in found[:count]
    ]
    return {"parked": parked, "messages": values}


def _order(id: str) -> tuple[int, int, int]:
    horizon, number, due_us = parse_handle_id(id)
    return due_us, HORIZONS.index(horizon), number


def _listed(topic: Topic, after: tuple[int, int, int] | None, limit: int, size: int) -> list[Scheduled]:
    found: list[Scheduled] = []
    for each in topic.scheduled():
        if after is None or _order(each.id) > after:
            found.append(each)
            size -= len(each.body)
            if len(found) >= limit or size <= 0:
                break
    return found


def _message(parked: Scheduled) -> Message:
    fields = parked.message_id, parked.tag, parked.key, parked.headers, parked.corr_offset, parked.body
    return Message(0, 0, 0, "", 0, *fields, 0)


async def cancel_parked(call: Call, asked: Fields) -> Values:
    """Cancel a delayed message; whether it was in time."""
    topic = await call.broker.opened_topic(asked.topic)
    return {"is_cancelled": await call.broker.in_thread(topic.cancel, asked.id)}
