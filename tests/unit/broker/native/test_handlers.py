"""The handlers of our own calls: each gets the request of its key, and returns the response to it."""

from __future__ import annotations

import inspect
import typing

import pytest

from warren.broker.cluster.requests import SHARD_HANDLERS, fetch_shard
from warren.broker.native import append
from warren.broker.native.handlers import NATIVE_HANDLERS
from warren.protocol.native_schemas import NUMBERED, NativeKey
from warren.protocol.wire_struct import NumberedRequest, WireRequest


@pytest.mark.parametrize("key", [key for key in NativeKey if key not in SHARD_HANDLERS])
def test_a_handler_gets_the_request_of_its_key_and_returns_the_response_to_it(key: NativeKey) -> None:
    # The handler of appends decides itself which requests are read by the schema.
    handler = append._by_schema if key is NativeKey.APPEND else NATIVE_HANDLERS[key]
    captured = inspect.getclosurevars(handler).nonlocals
    kind: type[WireRequest[typing.Any]] = captured["kind"]
    hints = typing.get_type_hints(captured["handle"])

    assert kind.api_key == key
    assert hints["request"] is kind
    # Some return it immediately or later.
    assert hints["return"] is kind.response or kind.response in typing.get_args(hints["return"])
    assert issubclass(kind, NumberedRequest) == (key in NUMBERED)


def test_the_handler_of_fetches_of_slaves_is_written_by_hand() -> None:
    assert SHARD_HANDLERS[NativeKey.FETCH_SHARD] is fetch_shard
    assert NativeKey.FETCH_SHARD not in NATIVE_HANDLERS


@pytest.mark.parametrize("key", [key for key in SHARD_HANDLERS if key != NativeKey.FETCH_SHARD])
def test_a_handler_of_a_shard_gets_the_request_of_its_key(key: NativeKey) -> None:
    captured = inspect.getclosurevars(SHARD_HANDLERS[key]).nonlocals
    kind: type[WireRequest[typing.Any]] = captured["kind"]
    hints = typing.get_type_hints(captured["handle"])

    assert kind.api_key == key
    assert kind is hints["request"] or kind in typing.get_args(hints["request"])
    assert key not in NATIVE_HANDLERS
