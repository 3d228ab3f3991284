"""Our own calls as bytes: requests, answers, the errors in them (code, sentence and facts), settings and positions."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from warren.errors import BadInput, MalformedRequest, RemoteError, TooLarge, WarrenError
from warren.protocol.api_keys import APIS
from warren.protocol.headers import Request, read_response_head, request_frame
from warren.protocol.limits import FRAME_SIZE_MAX
from warren.protocol.native.append import read_single_answer, single_append_bytes
from warren.protocol.native.fetch_shard import fetch_shard_bytes, read_fetched_shard
from warren.protocol.native_messages import AppendRequest, FetchShardRequest, WireError, WirePosition, WireSetting
from warren.protocol.primitives import INT32, UNREADABLE
from warren.protocol.schema_codec import message_buffers, read_response
from warren.protocol.wire_struct import NativeResponse, WireRequest, WireStruct

VERSION: Final = 0
ANY: Final = -1
"""Stands for a partition, a limit or a time that the client does not set."""

AnyAnswer = TypeVar("AnyAnswer", bound=NativeResponse)
AnyResponse = TypeVar("AnyResponse", bound=WireStruct)


def request_bytes(request: WireRequest[Any], version: int, correlation_id: int, client_id: str) -> bytes:
    """Returns a request as it is sent, with its size first.

    Raises BadInput if a field has the wrong type, TooLarge if the request is larger than any broker accepts.
    """
    try:
        if isinstance(request, AppendRequest):
            single = single_append_bytes(correlation_id, client_id, request)
            if single is not None:
                return single
        elif isinstance(request, FetchShardRequest):
            return fetch_shard_bytes(correlation_id, client_id, request)
        body = b"".join(message_buffers(request, version))
    except (*UNREADABLE, TypeError, AttributeError, OverflowError) as error:
        raise BadInput(f"the request cannot be sent: {error}") from error
    api_key = request.api_key
    framed = Request(api_key, version, correlation_id, client_id, memoryview(body))
    frame = request_frame(framed, is_flexible=APIS[api_key].is_flexible(version))
    if len(frame) > FRAME_SIZE_MAX:
        raise TooLarge("request", len(frame), FRAME_SIZE_MAX)
    return INT32.pack(len(frame)) + frame


def read_answer(request: WireRequest[AnyResponse], version: int, correlation_id: int, frame: memoryview) -> AnyResponse:
    """Returns the answer in `frame`. Raises MalformedRequest if it is not the answer to this request."""
    if request.api_key == AppendRequest.api_key:
        single = read_single_answer(frame, correlation_id)
        if isinstance(single, request.response):
            return single
    try:
        answered_id, _, position = read_response_head(frame, is_flexible=APIS[request.api_key].is_flexible(version))
    except UNREADABLE as error:
        raise MalformedRequest("the head of an answer", str(error)) from error
    if answered_id != correlation_id:
        raise MalformedRequest("an answer", f"it answers request {answered_id}, not {correlation_id}")
    if request.api_key == FetchShardRequest.api_key:
        fetched = read_fetched_shard(frame[position:])
        if isinstance(fetched, request.response):
            return fetched
    return read_response(request.response, version, frame[position:])


def throttle_of(frame: memoryview) -> float:
    """Returns how many seconds the client should send nothing, according to the answer to one of our own calls."""
    try:
        return read_response_head(frame, is_flexible=True)[1]
    except UNREADABLE:
        # `read_answer` reports the fault of the answer.
        return 0.0


def checked(answer: AnyAnswer) -> AnyAnswer:
    """Returns the answer of one of our own calls. Raises the error in it, if there is one."""
    if answer.error is not None:
        assert isinstance(answer.error, WireError)
        raise error_of(answer.error)
    return answer


# --- Settings and positions ---


def wire_settings(settings: Mapping[str, Any]) -> list[WireSetting]:
    """Returns settings as they are sent: names, and values as JSON."""
    return [WireSetting(name, json.dumps(value)) for name, value in settings.items()]


def settings_of(settings: Sequence[WireSetting]) -> dict[str, Any]:
    """Returns settings by name. Raises MalformedRequest if a value is not JSON."""
    try:
        return {each.name: json.loads(each.value) for each in settings}
    except ValueError as error:
        raise MalformedRequest("a setting", str(error)) from error


def wire_positions(positions: Mapping[int, int]) -> list[WirePosition]:
    """Returns the numbers of partitions as they are sent."""
    return [WirePosition(partition, number) for partition, number in positions.items()]


def positions_of(positions: Sequence[WirePosition]) -> dict[int, int]:
    """Returns the numbers by partition."""
    return {each.partition: each.number for each in positions}


# --- Errors ---


def wire_error(error: WarrenError, clean: Callable[[str], str] = str) -> WireError:
    """Returns an error as it is sent. All text in it goes through `clean`."""
    facts = {
        name: clean(value) if isinstance(value, str) else value
        for name, value in vars(error).items()
        if not name.startswith("_")
    }
    return WireError(error.code, clean(str(error)), json.dumps(facts, default=str), error.retryable)


def error_of(fields: WireError) -> WarrenError:
    """Returns the error that was sent, with its class and attributes.

    Returns a RemoteError if this release has no class with that code.
    """
    kind = error_kinds().get(fields.code)
    if kind is None:
        unknown = RemoteError(fields.code, fields.sentence)
        unknown.retryable = fields.retryable
        return unknown
    error = kind.__new__(kind, fields.sentence)
    # Not by its own constructor, which has its own order of arguments and builds the sentence again.
    Exception.__init__(error, fields.sentence)
    for name, value in json.loads(fields.facts).items():
        setattr(error, name, _restored(value))
    return error


def _restored(value: Any) -> Any:
    """Returns the value with pairs in lists as tuples, because JSON has no tuples."""
    return [tuple(each) if isinstance(each, list) else each for each in value] if isinstance(value, list) else value


@functools.cache
def error_kinds() -> Mapping[str, type[WarrenError]]:
    """Returns every class of error by its code."""
    return MappingProxyType({kind.code: kind for kind in _kinds(WarrenError)})


def _kinds(kind: type[WarrenError]) -> Iterator[type[WarrenError]]:
    """Yields the class and its subclasses, if they have their own code."""
    for child in kind.__subclasses__():
        yield from _kinds(child)
    if "code" in vars(kind):
        yield kind
