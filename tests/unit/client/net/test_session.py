"""A call whose first connection breaks: tried again as often, and for as long, as any other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.client.net.session import Calls, retried, same
from warren.errors import BadInput, ConnectionLost, OutcomeUnknown
from warren.protocol.native_messages import AppendRequest, DeleteTopicRequest
from warren.protocol.wire_struct import replaced

TIMEOUT_S = 10.0


class SilentConnection:
    """A connection whose broker does not answer within the time of a call."""

    incarnation, throttle_s = 1, 0.0

    def __init__(self, clock: SimulatedClock, error: Exception, takes_s: float) -> None:
        self._clock, self._error, self._takes_s = clock, error, takes_s
        self.requests: list[Any] = []
        self.is_closed = False

    def send(self, request: Any, version: int, timeout_s: float) -> None:
        self.requests.append(replaced(request))
        self._clock.sleep(self._takes_s)
        raise self._error

    def close(self) -> None:
        self.is_closed = True


def calls_over(clock: SimulatedClock, *idle: Any) -> Calls:
    calls = Calls("127.0.0.1:1", timeout_s=TIMEOUT_S, tls=None, login=None, clock=clock)
    calls.store_id, calls._idle = "a store", list(idle)
    return calls


@pytest.mark.parametrize(("repeat", "expected"), [(same, ConnectionLost), (retried, OutcomeUnknown)])
def test_a_broker_that_does_not_answer_costs_the_time_of_a_call_once(
    repeat: Any, expected: type[ConnectionLost]
) -> None:
    clock = SimulatedClock()
    silent = SilentConnection(clock, ConnectionLost("127.0.0.1:1", "timed out"), TIMEOUT_S)
    other = SilentConnection(clock, ConnectionLost("127.0.0.1:1", "timed out"), TIMEOUT_S)
    calls = calls_over(clock, other, silent)

    with pytest.raises(expected) as raised:
        calls.call(AppendRequest("orders"), repeat=repeat)

    assert type(raised.value) is expected
    assert clock.steady_s() == TIMEOUT_S
    assert (silent.requests, other.requests) == ([AppendRequest("orders")], [])
    assert silent.is_closed
    assert other.is_closed


def test_a_broken_connection_is_replaced_and_the_request_marked_as_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    broken, fresh = (SilentConnection(clock, ConnectionLost("127.0.0.1:1", "reset"), 0.0) for _ in range(2))
    calls = calls_over(clock, broken)
    monkeypatch.setattr(calls, "_opened", lambda: fresh)

    with pytest.raises(OutcomeUnknown):
        calls.call(AppendRequest("orders"), repeat=retried)

    assert broken.requests == [AppendRequest("orders")]
    assert fresh.requests
    assert all(request == AppendRequest("orders", is_retry=True) for request in fresh.requests)
    assert TIMEOUT_S / 2 < clock.steady_s() <= TIMEOUT_S


def test_a_request_that_cannot_be_sent_leaves_its_connection_open() -> None:
    clock = SimulatedClock()
    idle = SilentConnection(clock, BadInput("wrong type"), 0.0)
    calls = calls_over(clock, idle)

    with pytest.raises(BadInput, match="wrong type"):
        calls.call(AppendRequest(), repeat=same)

    assert [id(each) for each in calls._idle] == [id(idle)]
    assert not idle.is_closed


def test_a_numbered_call_keeps_its_number_while_it_is_tried_and_gets_another_when_it_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimulatedClock()
    connection = SilentConnection(clock, ConnectionLost("127.0.0.1:1", "reset"), 0.0)
    calls = calls_over(clock)
    monkeypatch.setattr(calls, "_opened", lambda: connection)
    request = DeleteTopicRequest(topic="orders")
    numbers = []

    for _ in range(2):
        connection.requests.clear()
        with pytest.raises(OutcomeUnknown):
            calls.call(request)
        numbers.append({each.call_number for each in connection.requests})
        assert len(connection.requests) > 1

    assert numbers == [{1}, {2}]
    assert request == DeleteTopicRequest(topic="orders", answered_below=2)
