"""One of our own calls as bytes: for the client the request and its answer, for both the settings in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.config import FRAME_SIZE_MAX
from warren.errors import BadInput, MalformedRequest, TooLarge
from warren.protocol.api import APIS
from warren.protocol.codec import INT32, UNREADABLE
from warren.protocol.heads import Request, read_response_head, request_frame
from warren.protocol.kafka_codec import Fields, Values, decode_response, encode_request
from warren.protocol.own_append import LoneAppend, lone_append_bytes, read_lone_answer
from warren.protocol.own_errors import error_of
from warren.protocol.own_schemas import OwnKey

VERSION: Final = 0
ANY: Final = -1
"""Where a partition, a limit or a time could be given and is not."""


Asked = Values | LoneAppend
"""What is asked for: the fields of a request, or the one that has a form of its own."""


def request_bytes(api_key: int, version: int, correlation_id: int, client_id: str, values: Asked) -> bytes:
    """A request as it goes over the wire, its size first; BadInput where a field is not of its type.

    TooLarge where no broker would take it.
    """
    if isinstance(values, LoneAppend):
        return lone_append_bytes(correlation_id, client_id, values)
    try:
        body = encode_request(api_key, version, values)
    except (*UNREADABLE, TypeError, AttributeError, OverflowError) as error:
        raise BadInput(f"what was given cannot be sent: {error}") from error
    request = Request(api_key, version, correlation_id, client_id, memoryview(body))
    frame = request_frame(request, is_flexible=APIS[api_key].is_flexible(version))
    if len(frame) > FRAME_SIZE_MAX:
        raise TooLarge("request", len(frame), FRAME_SIZE_MAX)
    return INT32.pack(len(frame)) + frame


def read_answer(api_key: int, version: int, correlation_id: int, frame: memoryview) -> Any:
    """The answer in `frame`. MalformedRequest where it is not the one to this request."""
    if api_key == OwnKey.APPEND and (lone := read_lone_answer(frame, correlation_id)) is not None:
        return lone
    try:
        found, _, position = read_response_head(frame, is_flexible=APIS[api_key].is_flexible(version))
    except UNREADABLE as error:
        raise MalformedRequest("the head of an answer", str(error)) from error
    if found != correlation_id:
        raise MalformedRequest("an answer", f"it is to request {found}, and {correlation_id} was asked")
    return decode_response(api_key, version, frame[position:])


def throttle_of(frame: memoryview) -> float:
    """Returns for how many seconds the answer to one of our own calls asks its client to send nothing."""
    try:
        return read_response_head(frame, is_flexible=True)[1]
    except UNREADABLE:
        # Who reads the answer says what is wrong with it.
        return 0.0


def checked(answer: Any) -> Any:
    """The answer of one of our own calls; what it tells of an error is raised."""
    if answer.error is not None:
        raise error_of(answer.error)
    return answer


def setting_values(settings: Mapping[str, Any]) -> list[Values]:
    """Names and values, these as JSON."""
    return [{"name": name, "value": json.dumps(value)} for name, value in settings.items()]


def settings_of(given: Sequence[Fields]) -> dict[str, Any]:
    """Settings by name; MalformedRequest for what is no JSON."""
    try:
        return {each.name: json.loads(each.value) for each in given}
    except ValueError as error:
        raise MalformedRequest("a setting", str(error)) from error


def position_values(positions: Mapping[int, int]) -> list[Values]:
    """Numbers by partition."""
    return [{"partition": partition, "number": number} for partition, number in positions.items()]


def positions_of(given: Sequence[Fields]) -> dict[int, int]:
    """The same from the wire."""
    return {each.partition: each.number for each in given}
