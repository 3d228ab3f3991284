"""Delayed messages: parked, listed and cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warren.broker.native.call import Call
from warren.broker.native.handler import checked_limit, in_memory, none_where
from warren.broker.native.read import size_of
from warren.errors import BadInput
from warren.limits import READ_LIMIT_DEFAULT
from warren.message import Message
from warren.protocol.native.calls import ANY
from warren.protocol.native.records import batch_of, carried
from warren.protocol.native_messages import (
    CancelParkedRequest,
    CancelParkedResponse,
    ChangeTransactionRequest,
    ListParkedRequest,
    ListParkedResponse,
    ListParkedResponseParked,
    ParkRequest,
    ParkResponse,
    WireRecord,
)
from warren.queue.delay.handles import HORIZONS, Scheduled, parse_handle_id
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch


def due_options(request: ParkRequest | ChangeTransactionRequest) -> dict[str, Any]:
    """Returns when the messages of a request are due, as options of `put`."""
    return {"delay": request.due / 1_000_000} if request.is_delay else {"deliver_at": request.due}


def put_of(topic: Topic, records: Sequence[WireRecord]) -> Batch:
    """Returns the messages of a request. Raises BadInput if there is none."""
    if not records:
        raise BadInput("a put needs at least one record")
    return batch_of(records, topic.settings.message_size_max)


def columns_of(batch: Batch) -> dict[str, Any]:
    """Returns the arguments of `put_many` other than the bodies."""
    return {name: column for name, column in batch._asdict().items() if name != "bodies"}


async def park(call: Call, request: ParkRequest) -> ParkResponse:
    """Parks messages until they are due. Returns the ids by which they can be cancelled."""
    topic = await call.broker.opened_topic(request.topic)

    def put() -> ParkResponse:
        batch, options = (
            put_of(topic, request.records),
            {**due_options(request), "partition": none_where(request.partition, ANY)},
        )
        handles: Any = topic.put_many(batch.bodies, **columns_of(batch), **options)
        return ParkResponse(ids=[handle.id for handle in handles])

    return await call.broker.in_thread(put)


async def list_parked(call: Call, request: ListParkedRequest) -> ListParkedResponse:
    """Returns parked messages of a topic by due time, starting after the one with the id `after`."""
    topic = await call.broker.opened_topic(request.topic)
    limit, size = min(checked_limit(request.limit), READ_LIMIT_DEFAULT), size_of(call, request.bytes_max)
    after = _order(request.after) if request.after else None
    scheduled = await in_memory(call, _listed, topic, after, limit, size)
    sent, count = carried([_message(each) for each in scheduled])
    parked = [
        ListParkedResponseParked(each.id, _order(each.id)[0], ANY if each.partition is None else each.partition)
        for each in scheduled[:count]
    ]
    return ListParkedResponse(parked=parked, messages=sent)


def _order(id: str) -> tuple[int, int, int]:
    horizon, number, due_us = parse_handle_id(id)
    return due_us, HORIZONS.index(horizon), number


def _listed(topic: Topic, after: tuple[int, int, int] | None, limit: int, size: int) -> list[Scheduled]:
    scheduled: list[Scheduled] = []
    for each in topic.scheduled():
        if after is None or _order(each.id) > after:
            scheduled.append(each)
            size -= len(each.body)
            if len(scheduled) >= limit or size <= 0:
                break
    return scheduled


def _message(parked: Scheduled) -> Message:
    fields = parked.message_id, parked.tag, parked.key, parked.headers, parked.corr_offset, parked.body
    return Message(0, 0, 0, "", 0, *fields, 0)


async def cancel_parked(call: Call, request: CancelParkedRequest) -> CancelParkedResponse:
    """Cancels a delayed message. Returns whether it was in time."""
    topic = await call.broker.opened_topic(request.topic)
    return CancelParkedResponse(is_cancelled=await call.broker.in_thread(topic.cancel, request.id))
