"""From the fields of one of our own requests to its answer: errors travel in it, and waits have an end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from warren.broker.call import Answer, Call, Handler
from warren.broker.error_codes import is_long
from warren.broker.own.sessions import Session
from warren.broker.security.needs import check
from warren.broker.security.table import OWN
from warren.config import (
    LOOP_CARRIED_SIZE_MAX,
    LOOP_REQUEST_SIZE_MAX,
    OWN_LIMIT_MAX,
    OWN_LOOK_S,
    OWN_WAIT_S_MAX,
    SCANNED_SIZE_MAX,
)
from warren.errors import BadInput, NoSuchHandle, WarrenError
from warren.protocol.kafka_codec import Fields, Values, decode_request, encode_response
from warren.protocol.own_errors import error_values
from warren.protocol.own_schemas import CARRYING, NUMBERED
from warren.storage import Log
from warren.storage.read import ScanRoom

T = TypeVar("T")
OwnHandler = Callable[[Call, Fields], Values | Awaitable[Values]]


def own(handle: OwnHandler) -> Handler:
    """A handler of fields as one of bytes, whose errors are told in its answer."""

    def answer(call: Call) -> Answer | Awaitable[Answer]:
        request = call.request
        size_max = LOOP_CARRIED_SIZE_MAX if request.api_key in CARRYING else LOOP_REQUEST_SIZE_MAX
        if len(request.body) > size_max:
            return _answered_aside(call, handle)
        return _answered(call, decode_request(request.api_key, request.version, request.body), handle)

    return answer


async def _answered_aside(call: Call, handle: OwnHandler) -> Answer:
    request = call.request
    asked = await call.broker.aside(decode_request, request.api_key, request.version, request.body)
    found = _answered(call, asked, handle)
    return await found if inspect.isawaitable(found) else found


def _answered(call: Call, asked: Fields, handle: OwnHandler) -> Answer | Awaitable[Answer]:
    request = call.request
    try:
        check(call, OWN[request.api_key], asked)
        if request.api_key in NUMBERED and asked.call_number:
            return _numbered(call, asked, handle)
        found = handle(call, asked)
    except WarrenError as error:
        found = _refused(call, error)
    if inspect.isawaitable(found):
        return _later(call, found)
    return encode_response(request.api_key, request.version, found)


async def _numbered(call: Call, asked: Fields, handle: OwnHandler) -> Answer:
    """The answer to a call that may be sent again."""

    async def work() -> tuple[Answer, bool]:
        is_done = True
        try:
            found = handle(call, asked)
            values = await found if inspect.isawaitable(found) else found
        except WarrenError as error:
            # Where nothing is held by the handle nothing was done: the client opens it again, and asks again.
            is_done = not isinstance(error, NoSuchHandle)
            values = _refused(call, error)
        return await _encoded(call, values), is_done

    try:
        answers = session_of(call).answers
        return await answers.answer(call.request.api_key, asked.call_number, asked.answered_below, work)
    except WarrenError as error:
        return refusal(call, error)


async def _later(call: Call, found: Awaitable[Values]) -> Answer:
    try:
        values = await found
    except WarrenError as error:
        values = _refused(call, error)
    return await _encoded(call, values)


async def _encoded(call: Call, values: Values) -> Answer:
    """The answer as bytes; written by a thread if it is long."""
    api_key, version = call.request.api_key, call.request.version
    if is_long(values):
        return await call.broker.aside(encode_response, api_key, version, values)
    return encode_response(api_key, version, values)


def _refused(call: Call, error: WarrenError) -> Values:
    call.broker.metrics.failed(call.request.api_key)
    return {"error": error_values(error, call.told)}


def refusal(call: Call, error: WarrenError) -> Answer:
    """The answer that tells of an error."""
    return encode_response(call.request.api_key, call.request.version, _refused(call, error))


def session_of(call: Call) -> Session:
    """What the client of this request holds."""
    return call.broker.sessions.of(call.peer)


def limit_of(asked: Fields) -> int:
    """How many messages are wanted, no more than one answer holds; BadInput for none."""
    if asked.limit < 1:
        raise BadInput(f"limit {asked.limit}: expected 1 or more")
    return min(int(asked.limit), OWN_LIMIT_MAX)


def wait_of(asked: Fields) -> float:
    """For how many seconds the request may wait."""
    if asked.wait_ms < 0:
        raise BadInput(f"wait_ms {asked.wait_ms}: expected 0 or more")
    return min(float(asked.wait_ms / 1000), OWN_WAIT_S_MAX)


async def awaited(
    call: Call,
    asked: Fields,
    wait_s: float,
    logs: Callable[[], Sequence[Log]],
    attempt: Callable[[bool], Awaitable[T]],
    session: Session | None = None,
    look_s: Callable[[], float] = lambda: OWN_LOOK_S,
) -> T:
    """What `attempt` gives, tried until it gives something that is true or the time is over.

    In between nothing is held but this coroutine: it sleeps until one of the logs grows, or it is time to look again.
    `attempt` is told whether there is a reason to, or only time has passed. Rights are asked for again after each
    wait, because they may be gone.
    """
    loop = asyncio.get_running_loop()
    deadline, is_rung = loop.time() + wait_s, True
    while True:
        found = await attempt(is_rung)
        left_s = deadline - loop.time()
        if found or left_s <= 0 or call.broker.is_stopping:
            return found
        woken = loop.create_future()
        if session is not None:
            call.broker.sessions.park(call.peer, woken)
        await call.broker.long_polls.wait(logs(), min(left_s, look_s()), woken)
        is_rung = woken.done()
        if session is not None and not call.broker.sessions.has(call.peer):
            # Nobody is there to be answered: what came meanwhile is for others.
            raise NoSuchHandle(0)
        check(call, OWN[call.request.api_key], asked)


async def in_turns(call: Call, asked: Fields, look: Callable[[ScanRoom], T]) -> T:
    """Returns what `look` finds, called by a thread again and again while it finds nothing and uses its room up.

    So a filter is looked for through the whole of a log, and requests of other clients get the thread in between.
    """
    while True:
        room = ScanRoom(SCANNED_SIZE_MAX)
        found = await call.broker.in_thread(look, room)
        if found or not room.is_used_up or call.broker.is_stopping or not call.broker.sessions.has(call.peer):
            return found
        check(call, OWN[call.request.api_key], asked)


def checked_choice(what: str, given: str, known: Sequence[str]) -> str:
    """`given`, where it is one of those that are known; else BadInput."""
    if given not in known:
        raise BadInput(f"{what} {given!r}: expected one of {', '.join(known)}")
    return given


def none_where(value: Any, absent: Any) -> Any:
    """`value`, or None where it stands for what was not given."""
    return None if value == absent else value
