"""Handles Warren's own calls: decodes a request, calls its handler, and returns errors as a field of the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from warren.broker.native.call import Call
from warren.broker.native.limits import NATIVE_LOOK_S
from warren.broker.native.sessions import ClientSession
from warren.broker.net.request import Answer
from warren.broker.security.needs import check
from warren.broker.security.table import OWN
from warren.broker.services.long_polls import PollResult
from warren.broker.services.turns import LOOP_CARRIED_SIZE_MAX, LOOP_REQUEST_SIZE_MAX, SCANNED_SIZE_MAX, is_long
from warren.errors import BadInput, NoSuchHandle, NotMaster, WarrenError
from warren.protocol.api_keys import served
from warren.protocol.limits import NATIVE_LIMIT_MAX, NATIVE_WAIT_S_MAX
from warren.protocol.native.calls import wire_error
from warren.protocol.native_messages import OpenTopicRequest, ReadRequest, ScanResponse
from warren.protocol.native_schemas import CARRYING, NativeKey
from warren.protocol.schema_codec import message_buffers, read_request
from warren.protocol.wire_struct import AnyRequest, NativeResponse, NumberedRequest, WaitingRequest, WireRequest
from warren.storage import Log
from warren.storage.read.messages import ScanRoom

P = ParamSpec("P")
T = TypeVar("T")
AnswerRequest = Callable[[Call, AnyRequest], NativeResponse | Awaitable[NativeResponse]]
"""Gets the request, returns the response."""
GIVING_MESSAGES: Final = frozenset(
    (NativeKey.READ, NativeKey.SCAN, NativeKey.READ_GROUP, NativeKey.TAKE, NativeKey.LIST_DEAD)
)
"""Calls whose answers have messages. Without messages they say that there is nothing more."""
SHOWING_ENDS: Final = GIVING_MESSAGES | {
    NativeKey.OPEN_TOPIC,
    NativeKey.FIND_TIME,
    NativeKey.LIST_PARKED,
    NativeKey.DESCRIBE_GROUP,
    NativeKey.SEE_GROUP,
    NativeKey.STATISTICS,
}
"""Calls whose answers show where a log ends, a position of a group, or that there is nothing more."""
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
    """Answers a request that was read: checks that the user has the rights for it, and handles it.

    If it names a topic that this process has not opened, a thread opens it first.
    """
    if closed := call.broker.open_topics.closed((getattr(request, "topic", None),)):
        return _opened_first(call, closed, request, handle)
    return _answer_open(call, request, handle)


async def _opened_first(
    call: Call, names: Sequence[str], request: AnyRequest, handle: AnswerRequest[AnyRequest]
) -> Answer:
    await call.broker.open_topics.open(names)
    answer = _answer_open(call, request, handle)
    return await answer if inspect.isawaitable(answer) else answer


def _answer_open(call: Call, request: AnyRequest, handle: AnswerRequest[AnyRequest]) -> Answer | Awaitable[Answer]:
    try:
        check(call, OWN[request.api_key], request)
        if isinstance(request, NumberedRequest) and request.call_number:
            return _numbered(call, request, handle)
        response = handle(call, request)
        if not inspect.isawaitable(response):
            check_ends(call, request, response)
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
            check_ends(call, request, response)
        except WarrenError as error:
            # If the handle holds nothing, nothing was done: the client opens it again, and repeats the call. Nothing
            # was done either if this broker may not say that there is nothing.
            is_done = not isinstance(error, NoSuchHandle | NotMaster)
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
        check_ends(call, request, response)
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


def check_ends(call: Call, request: WireRequest[Any], response: NativeResponse) -> None:
    """Raises NotMaster if the answer says where a log ends, or that there is nothing more, and another broker may lead.

    Messages may be given: what was committed stays committed.
    """
    if request.api_key not in SHOWING_ENDS or response.error is not None:
        return
    if isinstance(request, OpenTopicRequest) and not (request.must_exist or request.is_described):
        # The client begins to use the topic. It gives the ends back with a put, and shows them to no caller.
        return
    error = call.broker.leadership.refusal_of_ends()
    if error is None or (request.api_key in GIVING_MESSAGES and _has_messages(request, response)):
        return
    raise error


def _has_messages(request: WireRequest[Any], response: Any) -> bool:
    if isinstance(request, ReadRequest) and request.is_backwards:
        # The first message is the last one of the log.
        return False
    return bool(response.arrow if isinstance(response, ScanResponse) else response.messages.records)


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

    After each sleep it checks the rights again, because they may have been removed. With a session, raises NoSuchHandle
    if the connection ended during the sleep, because no client is left to get what `attempt` would take.
    """

    def waits(woken: asyncio.Future[bool]) -> None:
        if session is not None:
            call.broker.sessions.park(call.peer, woken)

    def resumes() -> None:
        if session is not None and not call.broker.sessions.has(call.peer):
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
    return await call.broker.read_memory.for_answer(peer, lambda: peer.is_gone, lambda: work(*arguments, **named))


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
