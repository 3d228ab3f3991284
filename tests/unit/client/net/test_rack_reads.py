"""RackReads: what is read from a replica, what from the master, and when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.client.net import rack_reads
from warren.client.net.call_steps import Hurry, Pause, Steps, run
from warren.client.net.rack_reads import (
    RACK_SIZE_MAX,
    REPLICA_LAG_S_MAX,
    REPLICA_LOOK_S,
    REPLICA_WAIT_S_MAX,
    RackReads,
    ReplicaCalls,
)
from warren.client.net.session import CLIENT_SILENT_S_MAX, Calls, same
from warren.errors import BadInput, ConnectionLost, CorruptRecord, LoginFailed, NotMaster, WarrenError
from warren.protocol.native.calls import positions_of
from warren.protocol.native_messages import (
    AppendRequest,
    AppendResponse,
    FindReplicasRequest,
    FindReplicasResponse,
    OpenTopicRequest,
    OpenTopicResponse,
    OpenTopicResponsePartition,
    ReadRequest,
    ReadResponse,
    ScanRequest,
    ScanResponse,
    WireMessages,
    WirePosition,
    WireRecord,
)

REPLICA, OTHER = "127.0.0.1:2", "127.0.0.1:3"


class FakeBroker(Calls):
    """A broker whose log of partition 0 has messages up to `end`. It notes the requests, and for how long they wait."""

    def __init__(self, address: str, clock: SimulatedClock, end: int) -> None:
        super().__init__(address, timeout_s=10.0, tls=None, login=None, clock=clock)
        self.store_id, self.end = "a store", end
        self.near: list[str] = []
        self.error: WarrenError | None = None
        self.requests: list[tuple[type, float]] = []
        self.grows = 0
        """By how much the log grows during each wait."""
        self.passes_filter = True

    def calling(self, request: Any, *, wait_s: float = 0.0, **options: Any) -> Steps[Any]:
        self.requests.append((type(request), wait_s))
        yield Pause(self.clock, 0.0)
        if self.error is not None:
            raise self.error
        if isinstance(request, FindReplicasRequest):
            return FindReplicasResponse(addresses=self.near)
        if isinstance(request, OpenTopicRequest):
            return OpenTopicResponse(partitions=[OpenTopicResponsePartition(0, 0, self.end)])
        if isinstance(request, ScanRequest):
            return ScanResponse(next=max(request.start, min(request.end, self.end)))
        return self._read(request, wait_s)

    def _read(self, request: ReadRequest, wait_s: float) -> ReadResponse:
        assert request.wait_ms == round(wait_s * 1000)
        (number,) = positions_of(request.positions).values()
        if number >= self.end and wait_s:
            assert isinstance(self.clock, SimulatedClock)
            self.clock.sleep(wait_s)
            self.end += self.grows
        count = max(0, min(self.end - number, request.limit))
        records = [WireRecord(0, count)] if count and self.passes_filter else []
        return ReadResponse(
            messages=WireMessages(records=records),
            positions=[WirePosition(0, number + count)],
            is_more=number + count < self.end,
        )

    @property
    def reads(self) -> list[float]:
        """Returns for how long each read was to wait."""
        return [wait_s for kind, wait_s in self.requests if kind in (ReadRequest, ScanRequest)]

    @property
    def looks(self) -> int:
        return [kind for kind, _ in self.requests].count(FindReplicasRequest)


class Rack:
    """A client with a rack, its master, and the replicas that the master names."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, replica_end: int = 10, end: int = 10, rack: str | None = "b"
    ) -> None:
        self.clock = SimulatedClock()
        self.master = FakeBroker("127.0.0.1:1", self.clock, end)
        self.replicas = {address: FakeBroker(address, self.clock, replica_end) for address in (REPLICA, OTHER)}
        self.replica = self.replicas[REPLICA]
        self.master.near = [REPLICA]
        monkeypatch.setattr(rack_reads, "ReplicaCalls", lambda address, rack, master: self.replicas[address])
        self.reads = RackReads(self.master, rack)

    def read(self, number: int, *, limit: int = 100, wait_s: float = 0.0) -> tuple[int, bool]:
        """Returns how many messages a read gave, and whether it said that there are more."""
        answer = run(self._reading(number, limit, wait_s))
        return sum(each.message_count for each in answer.messages.records), answer.is_more

    def _reading(self, number: int, limit: int, wait_s: float) -> Any:
        request = ReadRequest("orders", [WirePosition(0, number)], limit=limit)

        def is_done(answer: ReadResponse) -> bool:
            request.positions = answer.positions
            return bool(answer.messages.records)

        def is_more(answer: ReadResponse) -> bool:
            return answer.is_more and not answer.messages.records

        return self.reads.waiting(request, wait_s, is_done, is_more=is_more)

    def scan(self, start: int, end: int) -> int:
        def is_progress(answer: ScanResponse) -> bool:
            return answer.next > start

        request = ScanRequest("orders", 0, start, end)
        return run(self.reads.calling(request, is_progress, wait_s=0.001)).next


def hurried(steps: Steps[ReadResponse]) -> ReadResponse:
    """Cuts the wait of the steps short, and returns their result."""
    try:
        steps.throw(Hurry())
        while True:
            next(steps)
    except StopIteration as ended:
        answer: ReadResponse = ended.value
        return answer


@pytest.fixture
def rack_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rack]:
    return lambda **facts: Rack(monkeypatch, **facts)


def test_reads_go_to_the_replica_that_the_master_names(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()

    assert rack.read(0) == (10, False)
    assert rack.read(4, limit=2) == (2, True)
    assert rack.scan(0, 10) == 10

    assert rack.replica.reads == [0.0, 0.0, 0.001]
    assert (rack.master.reads, rack.master.looks) == ([], 1)
    assert rack.reads.address == REPLICA


def test_a_client_without_a_rack_reads_from_the_master_and_asks_for_no_replica(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of(rack=None)

    assert rack.read(0) == (10, False)
    assert rack.scan(0, 10) == 10

    assert (len(rack.master.reads), rack.master.looks) == (2, 0)
    assert rack.replica.requests == []
    assert rack.reads.address == rack.master.address


def test_known_messages_that_the_replica_does_not_show_come_from_the_master(
    rack_of: Callable[..., Rack],
) -> None:
    rack = rack_of(replica_end=6)
    rack.reads.note("orders", {0: 8})

    first = rack.read(0)
    rest = rack.read(6)

    assert first == (6, True)
    assert rest == (4, False)
    assert rack.replica.reads == [0.0, 0.0, REPLICA_LAG_S_MAX]
    assert rack.master.reads == [0.0]
    assert rack.reads.address == REPLICA


def test_a_message_that_this_client_read_before_is_known(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of(replica_end=6)
    rack.replica.end = 10
    assert rack.read(5) == (5, False)
    rack.replica.end = 6

    assert rack.read(9) == (1, False)


def test_a_number_past_the_end_is_not_known_after_a_read_of_it(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()

    assert rack.read(1000) == (0, False)
    assert rack.read(10) == (0, False)

    assert rack.replica.reads == [0.0, 0.0]
    assert rack.master.reads == []


def test_the_end_of_a_put_and_the_ends_that_the_master_names_are_known(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of(replica_end=6)
    request = AppendRequest("orders", records=[WireRecord(0, 2), WireRecord(0, 1)])
    rack.reads.note_put(request, AppendResponse(positions=[WirePosition(0, 5)]))
    assert rack.read(7) == (3, False)
    assert rack.read(8) == (2, False)
    rack.reads.forget("orders")
    assert rack.read(8) == (0, False)

    rack.reads.learn(["orders"])

    assert rack.read(9) == (1, False)


def test_a_transaction_of_a_user_without_the_right_to_describe_is_no_error(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    rack.master.error = CorruptRecord("file", 0, "damaged")

    rack.reads.learn(["orders"])


def test_a_read_waits_at_the_replica_in_parts_up_to_its_own_limit(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()

    assert rack.read(10, wait_s=2.5 * REPLICA_WAIT_S_MAX) == (0, False)

    assert rack.replica.reads[:2] == [REPLICA_WAIT_S_MAX] * 2
    assert sum(rack.replica.reads) == pytest.approx(2.5 * REPLICA_WAIT_S_MAX, abs=0.01)
    assert rack.master.reads == []


def test_a_waiting_read_ends_with_the_first_message(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    rack.replica.grows = 3

    assert rack.read(10, wait_s=60.0) == (3, False)
    assert rack.replica.reads == [REPLICA_WAIT_S_MAX]


@pytest.mark.parametrize(
    "error",
    [ConnectionLost(REPLICA, "reset"), NotMaster(0, 1, "127.0.0.1:1"), LoginFailed(REPLICA, "ann", "wrong password")],
)
def test_a_replica_that_is_lost_is_left_for_the_master_until_the_client_looks_again(
    error: WarrenError, rack_of: Callable[..., Rack]
) -> None:
    rack = rack_of()
    rack.replica.error = error

    assert rack.read(0) == (10, False)
    assert rack.scan(0, 10) == 10
    assert (len(rack.replica.reads), len(rack.master.reads), rack.master.looks) == (1, 2, 1)
    assert rack.replica.is_closed

    rack.clock.sleep(REPLICA_LOOK_S)
    rack.master.near = [REPLICA, OTHER]
    assert rack.read(0) == (10, False)
    assert (len(rack.master.reads), rack.master.looks) == (2, 2)
    assert rack.reads.address == OTHER


def test_a_replica_that_is_lost_during_a_wait_leaves_the_rest_of_the_time_to_the_master(
    rack_of: Callable[..., Rack],
) -> None:
    rack = rack_of()
    steps = rack._reading(10, 100, 3.0)
    next(steps)
    rack.clock.sleep(1.0)
    rack.replica.error = ConnectionLost(REPLICA, "reset")

    answer = run(steps)

    assert not answer.messages.records
    assert rack.master.reads == [2.0]


def test_after_an_error_about_the_topic_the_master_answers_and_the_replica_stays_in_use(
    rack_of: Callable[..., Rack],
) -> None:
    rack = rack_of()
    rack.replica.error = CorruptRecord("file", 0, "damaged")

    assert rack.read(0) == (10, False)
    assert rack.scan(0, 10) == 10
    rack.replica.error = None
    assert rack.read(0) == (10, False)

    assert len(rack.replica.reads) == 3
    assert len(rack.master.reads) == 2


def test_a_scan_continues_at_the_master_if_the_replica_makes_no_progress(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of(replica_end=6)

    assert rack.scan(0, 10) == 6
    assert rack.scan(6, 10) == 10
    assert len(rack.master.reads) == 1


@pytest.mark.parametrize("error", [None, ConnectionLost("127.0.0.1:1", "reset")])
def test_a_client_without_a_replica_asks_the_master_for_one_now_and_then(
    error: WarrenError | None, rack_of: Callable[..., Rack]
) -> None:
    rack = rack_of()
    rack.master.near, rack.master.error = [], error
    with pytest.raises(ConnectionLost) if error else nullcontext():
        rack.read(0)
    rack.master.error = None
    assert rack.read(0) == (10, False)
    assert rack.master.looks == 1

    rack.clock.sleep(REPLICA_LOOK_S)
    rack.master.near = [REPLICA]

    assert rack.read(0) == (10, False)
    assert rack.master.looks == 2
    assert rack.reads.address == REPLICA


def test_a_wait_that_is_cut_short_returns_the_messages_that_have_come(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    steps = rack._reading(10, 100, 60.0)
    next(steps)
    rack.replica.end = 12

    answer = hurried(steps)

    assert rack.replica.reads == [REPLICA_WAIT_S_MAX, 0.0]
    assert answer.messages.records == [WireRecord(0, 2)]


def test_a_wait_that_is_cut_short_at_a_replica_that_is_behind_asks_the_master_without_a_wait(
    rack_of: Callable[..., Rack],
) -> None:
    rack = rack_of(replica_end=6)
    rack.reads.note("orders", {0: 10})
    steps = rack._reading(6, 100, 60.0)
    next(steps)
    next(steps)

    answer = hurried(steps)

    assert (rack.replica.reads, rack.master.reads) == ([0.0, REPLICA_LAG_S_MAX, 0.0], [0.0])
    assert answer.messages.records == [WireRecord(0, 4)]


def test_a_read_whose_filter_no_message_passes_returns_without_a_wait(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    rack.reads.note("orders", {0: 10})
    rack.replica.passes_filter = False

    assert rack.read(4) == (0, False)

    assert (rack.replica.reads, rack.master.reads) == ([0.0], [])


def test_a_closed_client_asks_no_replica(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    rack.read(0)

    rack.reads.close()
    rack.reads.close()

    assert rack.replica.is_closed
    rack.read(0)
    assert (len(rack.replica.reads), len(rack.master.reads), rack.master.looks) == (1, 1, 1)


@pytest.mark.parametrize("rack", ["", 7, b"b", "r" * (RACK_SIZE_MAX + 1)])
def test_a_rack_that_is_no_name_is_refused(rack: Any, rack_of: Callable[..., Rack]) -> None:
    with pytest.raises(BadInput, match=f"expected a text of 1 to {RACK_SIZE_MAX} characters"):
        rack_of(rack=rack)


class FakeConnection:
    """A connection to a replica that has a store, or does not answer in time."""

    address = REPLICA

    def __init__(self, store_id: str) -> None:
        self.store_id, self.is_closed = store_id, False

    def call(self, request: Any, version: int, timeout_s: float) -> FindReplicasResponse:
        assert request == FindReplicasRequest("b")
        assert timeout_s == CLIENT_SILENT_S_MAX
        return FindReplicasResponse(store_id=self.store_id)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("store_id", "is_taken"), [("a store", True), ("another one", False)])
def test_a_broker_with_another_store_is_not_read_from(
    store_id: str, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = FakeConnection(store_id)
    monkeypatch.setattr("warren.client.net.session.Connection", lambda address, tls, timeout_s: connection)
    replica = ReplicaCalls(REPLICA, "b", FakeBroker("127.0.0.1:1", SimulatedClock(), 0))

    if is_taken:
        assert replica._opened_at(REPLICA) is connection  # type: ignore[comparison-overlap]
    else:
        with pytest.raises(ConnectionLost, match="it has the store another one, not a store"):
            replica._opened_at(REPLICA)

    assert connection.is_closed is not is_taken


def replica_calls(monkeypatch: pytest.MonkeyPatch, answer: Any) -> tuple[ReplicaCalls, list[str]]:
    """Returns the connections to a replica, and the addresses at which they are opened. Each opening gives `answer`."""
    replica, opened = ReplicaCalls(REPLICA, "b", FakeBroker("127.0.0.1:1", SimulatedClock(), 0)), []

    def open_at(address: str) -> Any:
        opened.append(address)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(replica, "_opened_at", open_at)
    return replica, opened


@pytest.mark.parametrize("error", [NotMaster(0, 1, "127.0.0.1:1"), ConnectionLost(REPLICA, "reset")])
def test_the_connections_to_a_replica_follow_no_master_and_try_once(
    error: WarrenError, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, opened = replica_calls(monkeypatch, error)
    replica._brokers.note_leader("127.0.0.1:1")

    for _ in range(2):
        with pytest.raises(type(error)):
            run(replica.calling(ReadRequest("orders"), repeat=same, is_tried_once=True))

    assert opened == [REPLICA] * 2


def test_the_connections_to_a_replica_end_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    idle: Any = FakeConnection("a store")
    replica, opened = replica_calls(monkeypatch, idle)
    replica._idle = [idle]

    replica.close()

    assert idle.is_closed
    assert opened == []


def test_the_child_of_a_fork_waits_for_no_thread_of_its_parent(rack_of: Callable[..., Rack]) -> None:
    rack = rack_of()
    rack.reads._mutex.acquire()
    rack.reads._ends._mutex.acquire()

    rack.reads.after_fork()

    assert rack.read(0) == (10, False)
    assert not rack.reads.rest()
