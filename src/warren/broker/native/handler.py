"""Handles Warren's own calls: decodes a request, calls its handler, and returns errors as a field of the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from warren.broker.native.call import Call
from warren.broker.native.limits import NATIVE_LOOK_S
from warren.broker.native.sessions import ClientSession
from warren.broker.net.request import Answer
from warren.broker.security.needs import check
from warren.broker.security.table import OWN
from warren.broker.services.long_polls import PollResult
from warren.broker.services.turns import LOOP_CARRIED_SIZE_MAX, LOOP_REQUEST_SIZE_MAX, SCANNED_SIZE_MAX, is_long
from warren.errors import BadInput, NoSuchHandle, WarrenError
from warren.protocol.api_keys import served
from warren.protocol.limits import NATIVE_LIMIT_MAX, NATIVE_WAIT_S_MAX
from warren.protocol.native.calls import wire_error
from warren.protocol.native_schemas import CARRYING
from warren.protocol.schema_codec import message_buffers, read_request
from warren.protocol.wire_struct import AnyRequest, NativeResponse, NumberedRequest, WaitingRequest, WireRequest
from warren.storage import Log
from warren.storage.read.messages import ScanRoom

P = ParamSpec("P")
T = TypeVar("T")
AnswerRequest = Callable[[Call, AnyRequest], NativeResponse | Awaitable[NativeResponse]]
"""Gets the request, returns the response."""
Handler = Callable[[Call], Answer | Awaitable[Answer]]


def own(kind: type[AnyRequest], handle: AnswerRequest[AnyRequest]) -> Handler:
    """Wraps a handler of decoded requests as a handler of bytes. Errors become a field of the answer."""

    def answer(call: Call) -> Answer | Awaitable[Answer]:
        request = call.request
        size_max = LOOP_CARRIED_SIZE_MAX if request.api_key in CARRYING else LOOP_REQUEST_SIZE_MAX
        if len(request.body) > size_max:
            return _answered_aside(call, kind, handle)
        return answer_request(call, _read(call, kind), handle)

    return answer


def _read(call: Call, kind: type[AnyRequest]) -> AnyRequest:
    request = call.request
    served(request.api_key, request.version)
    return read_request(kind, request.version, request.body)


async def _answered_aside(call: Call, kind: type[AnyRequest], handle: AnswerRequest[AnyRequest]) -> Answer:
    answer = answer_request(call, await call.broker.aside(_read, call, kind), handle)
    return await answer if inspect.isawaitable(answer) else answer


def answer_request(call: Call, request: AnyRequest, handle: AnswerRequest[AnyRequest]) -> Answer | Awaitable[Answer]:
    """Answers a request that was read: checks that the user has the rights for it, and handles it."""
    try:
        check(call, OWN[request.api_key], request)
        if isinstance(request, NumberedRequest) and request.call_number:
            return _numbered(call, request, handle)
        response = handle(call, request)
    except WarrenError as error:
        response = _refused(call, request.response, error)
    if inspect.isawaitable(response):
        return _later(call, request, response)
    return message_buffers(response, call.request.version)


async def _numbered(
    call: Call, request: NumberedRequest[Any], handle: Callable[[Call, Any], NativeResponse | Awaitable[NativeResponse]]
) -> Answer:
    """Returns the answer to a call that may be sent again."""

    async def work() -> tuple[Answer, bool]:
        is_done = True
        try:
            response = handle(call, request)
            response = await response if inspect.isawaitable(response) else response
        except WarrenError as error:
            # If the handle holds nothing, nothing was done: the client opens it again, and repeats the call.
            is_done = not isinstance(error, NoSuchHandle)
            response = _refused(call, request.response, error)
        return await _encoded(call, response), is_done

    try:
        answers = session_of(call).answers
        return await answers.answer(request.api_key, request.call_number, request.answered_below, work)
    except WarrenError as error:
        return refusal(call, request.response, error)


async def _later(call: Call, request: WireRequest[Any], coming: Awaitable[NativeResponse]) -> Answer:
    try:
        response = await coming
    except WarrenError as error:
        response = _refused(call, request.response, error)
    return await _encoded(call, response)


async def _encoded(call: Call, response: NativeResponse) -> Answer:
    """Returns the answer as bytes. A thread encodes it if it is long."""
    if is_long(response):
        return await call.broker.aside(message_buffers, response, call.request.version)
    return message_buffers(response, call.request.version)


def _refused(call: Call, kind: type[NativeResponse], error: WarrenError) -> NativeResponse:
    call.broker.metrics.failed(call.request.api_key)
    return kind(error=wire_error(error, call.client_message))


def refusal(call: Call, kind: type[NativeResponse], error: WarrenError) -> Answer:
    """Returns the answer for an error, as a response of class `kind`."""
    return message_buffers(_refused(call, kind, error), call.request.version)


def session_of(call: Call) -> ClientSession:
    """Returns the session of the client. Raises BadInput if it has not begun one."""
    return call.broker.sessions.of(call.peer)


def checked_limit(limit: int) -> int:
    """Returns the limit of a request, capped at what one answer holds. Raises BadInput if it is below 1."""
    if limit < 1:
        raise BadInput(f"limit {limit}: expected 1 or more")
    return min(limit, NATIVE_LIMIT_MAX)


def wait_of(request: WaitingRequest[Any]) -> float:
    """Returns for how many seconds the request may wait."""
    if request.wait_ms < 0:
        raise BadInput(f"wait_ms {request.wait_ms}: expected 0 or more")
    return min(request.wait_ms / 1000, NATIVE_WAIT_S_MAX)


async def awaited(
    call: Call,
    request: WireRequest[Any],
    wait_s: float,
    logs: Callable[[], Sequence[Log]],
    attempt: Callable[[bool], Awaitable[T]],
    session: ClientSession | None = None,
    poll_s: Callable[[], float] | None = lambda: NATIVE_LOOK_S,
) -> T:
    """Repeats `attempt`, as a long poll, until its result is true or the wait ends. Returns the last result.

    After each sleep it checks the rights again, because they may be gone. With a session, raises NoSuchHandle if the
    connection ended during the sleep, because no client is left to get what `attempt` would take.
    """
    sessions = call.broker.sessions

    def waits(woken: asyncio.Future[bool]) -> None:
        if session is not None:
            sessions.park(call.peer, woken)

    def resumes() -> None:
        if session is not None and not sessions.has(call.peer):
            raise NoSuchHandle(0)
        check(call, OWN[request.api_key], request)

    async def result(is_rung: bool) -> PollResult[T]:
        value = await attempt(is_rung)
        return PollResult(value, bool(value))

    deadline_s = asyncio.get_running_loop().time() + wait_s
    return await call.broker.long_polls.until(result, logs, deadline_s, poll_s, waits=waits, resumes=resumes)


async def in_memory(call: Call, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Calls `work`, which reads messages, on a thread. Waits for memory first if they are large.

    The memory is held until the answer is given to the transport, which counts what the client has not read.
    """
    peer = call.peer
    result, hold = await call.broker.read_memory.run(
        peer.owner, lambda: peer.is_gone, lambda: work(*arguments, **named)
    )
    if hold is not None:
        peer.answer_memory.append(hold.release)
    return result


async def in_turns(call: Call, request: WireRequest[Any], look: Callable[[ScanRoom], T]) -> T:
    """Repeats `look` on a thread while it finds nothing and uses its room up. Returns its last result.

    So a filter can scan a whole log, and requests of other clients get the thread in between.
    """
    while True:
        room = ScanRoom(SCANNED_SIZE_MAX)
        result = await in_memory(call, look, room)
        if result or not room.is_used_up or call.broker.is_stopping or not call.broker.sessions.has(call.peer):
            return result
        check(call, OWN[request.api_key], request)


def checked_choice(what: str, word: str, words: Sequence[str]) -> str:
    """Returns `word` if it is one of `words`. Raises BadInput otherwise."""
    if word not in words:
        raise BadInput(f"{what} {word!r}: expected one of {', '.join(words)}")
    return word


def none_where(value: Any, absent: Any) -> Any:
    """Returns `value`, or None if it equals `absent`, which stands for no value."""
    return None if value == absent else value
