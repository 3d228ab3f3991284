"""A call whose connection breaks is tried again as often, and for as long, as any other call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.client.net.session import CLIENT_SILENT_S_MAX, Calls, retried, same
from warren.errors import BadInput, ConnectionLost, NotMaster, OutcomeUnknown
from warren.protocol.native_messages import AppendRequest, DeleteTopicRequest
from warren.protocol.wire_struct import replaced

TIMEOUT_S = 10.0


class SilentConnection:
    """A connection whose broker does not answer within the time of a call."""

    incarnation, throttle_s = 1, 0.0
    address = "127.0.0.1:1"

    def __init__(self, clock: SimulatedClock, error: Exception, takes_s: float) -> None:
        self._clock, self._error, self._takes_s = clock, error, takes_s
        self.requests: list[Any] = []
        self.timeouts: list[float] = []
        self.is_closed = False

    def send(self, request: Any, version: int, timeout_s: float) -> None:
        self.requests.append(replaced(request))
        self.timeouts.append(timeout_s)
        self._clock.sleep(self._takes_s)
        raise self._error

    def close(self) -> None:
        self.is_closed = True


def calls_over(clock: SimulatedClock, *idle: Any) -> Calls:
    calls = Calls("127.0.0.1:1", timeout_s=TIMEOUT_S, tls=None, login=None, clock=clock)
    calls.store_id, calls._idle = "a store", list(idle)
    return calls


@pytest.mark.parametrize(("repeat", "expected"), [(same, ConnectionLost), (retried, OutcomeUnknown)])
def test_a_call_waits_only_once_for_a_broker_that_does_not_answer(repeat: Any, expected: type[ConnectionLost]) -> None:
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
    monkeypatch.setattr(calls, "_opened_at", lambda address: fresh)

    with pytest.raises(OutcomeUnknown):
        calls.call(AppendRequest("orders"), repeat=retried)

    assert broken.requests == [AppendRequest("orders")]
    assert fresh.requests
    assert all(request == AppendRequest("orders", is_retry=True) for request in fresh.requests)
    assert TIMEOUT_S / 2 < clock.steady_s() <= TIMEOUT_S


class Brokers:
    """Three addresses, and what each of them does when it is asked for a connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: SimulatedClock, first: SilentConnection) -> None:
        self.attempts: list[str] = []
        """The addresses of all calls to `_opened_at`, in order."""
        self.answers: dict[str, Any] = {}
        brokers = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
        self.calls = Calls(brokers, timeout_s=TIMEOUT_S, tls=None, login=None, clock=clock)
        self.calls.store_id, self.calls._idle = "a store", [first]  # type: ignore[list-item]
        monkeypatch.setattr(self.calls, "_opened_at", self._opened_at)

    def _opened_at(self, address: str) -> Any:
        self.attempts.append(address)
        answer = self.answers[address]
        if isinstance(answer, Exception):
            raise answer
        return answer


def timed_out() -> ConnectionLost:
    error = ConnectionLost("127.0.0.1:1", "timed out")
    error.__cause__ = TimeoutError()
    return error


def test_a_broker_that_is_silent_is_left_for_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    silent = SilentConnection(clock, timed_out(), CLIENT_SILENT_S_MAX)
    brokers = Brokers(monkeypatch, clock, silent)
    brokers.answers = {"127.0.0.1:2": NotMaster(0, 1, ""), "127.0.0.1:3": NotMaster(0, 1, "")}

    with pytest.raises(NotMaster):
        brokers.calls.call(AppendRequest("orders"), repeat=same)

    assert silent.timeouts == [CLIENT_SILENT_S_MAX]
    assert set(brokers.attempts) == {"127.0.0.1:2", "127.0.0.1:3"}


def test_a_broker_that_was_silent_is_asked_again_if_another_one_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    silent, awake = (SilentConnection(clock, timed_out(), CLIENT_SILENT_S_MAX) for _ in range(2))
    brokers = Brokers(monkeypatch, clock, silent)
    named = NotMaster(0, 1, "127.0.0.1:1")
    brokers.answers = {"127.0.0.1:1": awake, "127.0.0.1:2": named, "127.0.0.1:3": named}

    with pytest.raises(ConnectionLost):
        brokers.calls.call(AppendRequest("orders"), repeat=same)

    assert brokers.attempts == ["127.0.0.1:2", "127.0.0.1:1"]
    assert awake.requests == [AppendRequest("orders")]


def test_a_request_that_cannot_be_sent_leaves_its_connection_open() -> None:
    clock = SimulatedClock()
    idle = SilentConnection(clock, BadInput("wrong type"), 0.0)
    calls = calls_over(clock, idle)

    with pytest.raises(BadInput, match="wrong type"):
        calls.call(AppendRequest(), repeat=same)

    assert [id(each) for each in calls._idle] == [id(idle)]
    assert not idle.is_closed


def test_a_numbered_call_keeps_its_number_in_all_tries_and_a_repeated_call_gets_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimulatedClock()
    connection = SilentConnection(clock, ConnectionLost("127.0.0.1:1", "reset"), 0.0)
    calls = calls_over(clock)
    monkeypatch.setattr(calls, "_opened_at", lambda address: connection)
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
