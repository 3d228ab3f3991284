"""The registry inside one process: sessions, watches, and every fault that can be requested."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.errors import RegistryClosed, RegistryUnreached
from warren.registry.local import Fault, Faults, LocalEnsemble, LocalRegistry
from warren.registry.registry import DONE, UNKNOWN, Create, Node, Outcome, Reason, Set, refused

LOST = [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE]


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def ensemble(clock: SimulatedClock) -> LocalEnsemble:
    return LocalEnsemble(clock)


@pytest.fixture
def registry(ensemble: LocalEnsemble) -> LocalRegistry:
    return ensemble.connect()


@pytest.fixture
def other(ensemble: LocalEnsemble) -> LocalRegistry:
    return ensemble.connect()


@pytest.mark.parametrize(("fault", "is_made"), [(Fault.LOST_BEFORE, False), (Fault.LOST_AFTER, True)])
def test_a_lost_answer_is_unknown_and_a_read_shows_the_truth(
    ensemble: LocalEnsemble, registry: LocalRegistry, fault: Fault, is_made: bool
) -> None:
    ensemble.plan(registry, fault)

    assert registry.write([Create("/a")]) == UNKNOWN

    assert (registry.read("/a") is not None) is is_made


def test_a_late_change_is_made_before_the_next_call_of_its_session(
    ensemble: LocalEnsemble, registry: LocalRegistry
) -> None:
    ensemble.plan(registry, Fault.LATE)

    assert registry.write([Create("/a")]) == UNKNOWN
    assert registry.write([Create("/a")]) == refused(0, Reason.EXISTS)


def test_others_may_see_a_late_change_immediately_or_later(clock: SimulatedClock) -> None:
    outcomes = set()
    for seed in range(20):
        ensemble = LocalEnsemble(clock, seed=seed)
        registry, other = ensemble.connect(), ensemble.connect()
        ensemble.plan(registry, Fault.LATE)
        registry.write([Create("/a")])
        outcomes.add(other.read("/a") is not None)

    assert outcomes == {True, False}


def test_a_late_change_of_a_session_that_expires_is_never_made(
    ensemble: LocalEnsemble, registry: LocalRegistry, other: LocalRegistry
) -> None:
    ensemble.plan(registry, Fault.LATE)
    registry.write([Create("/a")])

    ensemble.expire(registry)

    assert registry.read("/a") is None
    assert other.read("/a") is None


def test_a_delay_longer_than_the_deadline_is_unknown_and_takes_no_longer(clock: SimulatedClock) -> None:
    ensemble = LocalEnsemble(clock, faults=Faults(delay_s_max=1000.0), seed=1)
    registry = ensemble.connect()
    ensemble.plan(registry, Fault.DELAY)

    assert registry.write([Create("/a")], within_s=2.0) == UNKNOWN

    assert clock.steady_s() == 2
    ensemble.plan(registry, Fault.DELAY)
    with pytest.raises(RegistryUnreached):
        registry.read("/a", within_s=2.0)
    assert clock.steady_s() == 4


def test_a_short_delay_only_takes_time(ensemble: LocalEnsemble, registry: LocalRegistry, clock: SimulatedClock) -> None:
    ensemble.plan(registry, Fault.DELAY)

    assert registry.write([Create("/a")]) == DONE

    assert 0 < clock.steady_s() <= 1


@pytest.mark.parametrize("fault", LOST)
def test_a_read_without_an_answer_is_an_error(ensemble: LocalEnsemble, registry: LocalRegistry, fault: Fault) -> None:
    ensemble.plan(registry, fault)

    with pytest.raises(RegistryUnreached):
        registry.read("/a")


def test_a_call_without_a_connection_waits_for_its_deadline_and_sends_nothing(
    ensemble: LocalEnsemble, registry: LocalRegistry, other: LocalRegistry, clock: SimulatedClock
) -> None:
    ensemble.disconnect(registry)

    with pytest.raises(RegistryUnreached, match="within 3 s"):
        registry.write([Create("/a")], within_s=3.0)

    assert clock.steady_s() == 3
    assert not registry.is_connected()
    assert other.read("/a") is None


def test_a_call_continues_when_the_connection_comes_back_in_time(
    ensemble: LocalEnsemble, registry: LocalRegistry, clock: SimulatedClock
) -> None:
    ensemble.disconnect(registry, for_s=2.0)

    assert registry.write([Create("/a")], within_s=3.0) == DONE

    assert clock.steady_s() == 2


def test_ephemeral_nodes_go_with_their_session_and_not_before(
    ensemble: LocalEnsemble, registry: LocalRegistry, other: LocalRegistry, clock: SimulatedClock
) -> None:
    registry.write([Create("/mine", b"", True)])
    first = registry.session()
    ensemble.disconnect(registry)

    clock.sleep(registry.session_s)
    assert registry.remaining_s() == 0
    assert other.read("/mine") is not None
    clock.sleep(0.1)
    assert other.read("/mine") is None
    ensemble.reconnect(registry)

    assert registry.session() not in (first, other.session())
    assert registry.remaining_s() == registry.session_s


def test_a_session_that_reconnects_in_time_keeps_its_nodes(
    ensemble: LocalEnsemble, registry: LocalRegistry, clock: SimulatedClock
) -> None:
    registry.write([Create("/mine", b"", True)])
    first = registry.session()
    ensemble.disconnect(registry)
    clock.sleep(registry.session_s - 1)
    assert registry.remaining_s() == 1

    ensemble.reconnect(registry)

    node = registry.read("/mine")
    assert node is not None
    assert node.owner == registry.session() == first


def test_a_watch_is_called_after_changes_and_after_each_reconnection(
    ensemble: LocalEnsemble, registry: LocalRegistry, other: LocalRegistry
) -> None:
    calls: list[str] = []
    registry.watch("/a", lambda: calls.append("a"))
    assert calls == ["a"]

    other.write([Create("/a")])
    other.write([Create("/a/b")])
    other.write([Set("/a/b", b"")])
    assert len(calls) == 3
    ensemble.disconnect(registry)
    other.write([Set("/a", b"")])
    assert len(calls) == 3
    ensemble.reconnect(registry)

    assert len(calls) == 4


def test_a_connection_that_comes_back_immediately_calls_watches_too(
    ensemble: LocalEnsemble, registry: LocalRegistry
) -> None:
    calls: list[str] = []
    registry.watch("/other", lambda: calls.append("other"))
    ensemble.plan(registry, Fault.LOST_AFTER)

    registry.write([Create("/a")])

    assert calls == ["other", "other"]


def test_held_callbacks_run_when_they_are_delivered_and_several_changes_are_one_call(clock: SimulatedClock) -> None:
    ensemble = LocalEnsemble(clock, holds_callbacks=True)
    registry = ensemble.connect()
    registry.write([Create("/a")])
    calls: list[object] = []
    registry.watch("/a", lambda: calls.append(registry.read("/a")))

    registry.write([Set("/a", b"1")])
    registry.write([Set("/a", b"2")])
    assert calls == []

    assert ensemble.deliver() == 1
    assert calls == [registry.read("/a")]


def test_a_callback_may_write_and_a_failing_one_harms_no_other(
    ensemble: LocalEnsemble, registry: LocalRegistry, other: LocalRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("a mistake")

    registry.watch("/a", fail)
    registry.watch("/a", lambda: assert_done(other.write([Create("/seen")])))

    assert other.read("/seen") is not None
    assert "the callback of a watch on /a failed" in caplog.text


def test_an_ended_watch_is_not_called(registry: LocalRegistry) -> None:
    calls: list[str] = []

    def callback() -> None:
        calls.append("a")

    registry.watch("/a", callback)
    registry.unwatch("/a", callback)
    registry.write([Create("/a")])

    assert calls == ["a"]


def test_a_closed_registry_refuses_calls_and_its_nodes_are_deleted(
    registry: LocalRegistry, other: LocalRegistry
) -> None:
    registry.write([Create("/mine", b"", True)])

    registry.close()
    registry.close()

    assert other.read("/mine") is None
    assert registry.remaining_s() == 0
    assert not registry.is_connected()
    with pytest.raises(RegistryClosed):
        registry.read("/")
    with pytest.raises(RegistryClosed):
        registry.watch("/", print)


def assert_done(outcome: Outcome) -> None:
    assert outcome.is_done


def run_script(seed: int) -> list[object]:
    """Two sessions under all faults. Returns what they observed."""
    clock = SimulatedClock()
    ensemble = LocalEnsemble(clock, seed=seed, faults=Faults.all(0.1))
    registries = [ensemble.connect(), ensemble.connect()]
    answers: list[object] = []
    for step in range(60):
        registry = registries[step % 2]
        try:
            answers.append(registry.write([Create(f"/n{step}", b"", step % 3 == 0)]))
            answers.append(registry.children("/"))
        except RegistryUnreached as error:
            answers.append(str(error))
        answers.append((clock.steady_s(), registry.session()))
    return answers


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert run_script(1) == run_script(1)
    assert run_script(1) != run_script(2)


@pytest.mark.parametrize("seed", range(60))
def test_a_counter_under_all_faults_loses_and_doubles_nothing(seed: int) -> None:
    """A client that gets UNKNOWN reads, and sees by its own mark whether the change was made."""
    ensemble = LocalEnsemble(SimulatedClock(), seed=seed, faults=Faults.all(0.08))
    clients = [ensemble.connect() for _ in range(3)]
    counted = 0
    while read_until_answered(clients[0], "/counter") is None:
        with suppress(RegistryUnreached):
            clients[0].write([Create("/counter", b"0 start")])
    for step in range(90):
        counted += increment(clients[step % 3], f"mark-{step}")

    node = read_until_answered(clients[0], "/counter")
    assert node is not None
    assert int(node.data.split()[0]) == counted


def read_until_answered(client: LocalRegistry, path: str) -> Node | None:
    while True:
        try:
            return client.read(path)
        except RegistryUnreached:
            continue


def increment(client: LocalRegistry, mark: str) -> bool:
    """Tries once to add 1, and returns whether it did."""
    before = read_until_answered(client, "/counter")
    assert before is not None
    value = int(before.data.split()[0])
    try:
        outcome = client.write([Set("/counter", f"{value + 1} {mark}".encode(), before.version)])
    except RegistryUnreached:
        return False
    if not outcome.is_unknown:
        return outcome.is_done
    after = read_until_answered(client, "/counter")
    assert after is not None
    return after.data.decode().endswith(f" {mark}")
