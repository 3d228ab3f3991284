"""Puts dead letters back for Warren's own clients."""

from __future__ import annotations

from warren.broker.native.call import Call
from warren.broker.native.groups import HeldWork
from warren.broker.native.handler import in_memory, none_where, session_of
from warren.protocol.native.calls import ANY
from warren.protocol.native_messages import RedriveRequest, RedriveResponse
from warren.queue.leases.dead_letters import Redriven


async def redrive(call: Call, request: RedriveRequest) -> RedriveResponse:
    """Puts dead letters of a group back into their topic. Returns their count."""
    held = session_of(call).find(request.handle, HeldWork)
    limit = none_where(request.limit, ANY)
    numbers: dict[int, list[int]] = {}
    for partition, number in zip(request.places.partitions, request.places.numbers, strict=False):
        numbers.setdefault(partition, []).append(number)
    done = Redriven()
    await in_memory(call, held.group.redrive_on, done, limit, numbers=numbers or None)
    for log in held.group.topic.logs:
        call.broker.long_polls.ring(log)
    return RedriveResponse(count=done.count)
