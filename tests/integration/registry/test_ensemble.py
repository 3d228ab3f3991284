"""Three servers: the leader is killed while a client writes, and then the majority is missing for a while."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.integration.registry.servers import Ensemble, RunningServer, running_ensemble
from tests.support.patience import until
from warren.errors import RegistryUnreached
from warren.registry.connection import connect_registry
from warren.registry.registry import Create, Registry
from warren.registry.zookeeper import ZooKeeperRegistry

WRITES_AFTER_THE_KILL = 100
GAP_S_MAX = 20.0
"""Far more than it takes: 0.6 to 1.8 s on a busy machine."""


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory, zookeeper: RunningServer) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("ensemble")) as ensemble:
        yield ensemble


@pytest.fixture
def registry(ensemble: Ensemble) -> Iterator[ZooKeeperRegistry]:
    registry = connect_registry(ensemble.addresses, session_s=3.0, call_s=GAP_S_MAX)
    yield registry
    registry.close()


class Writer:
    """Creates nodes one after the other, and remembers which of them were acknowledged, and when."""

    def __init__(self, registry: Registry) -> None:
        self.done: list[str] = []
        self.unknown: list[str] = []
        self.refused = 0
        self.times_s = [time.monotonic()]
        self._registry = registry
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join()

    def longest_gap_s(self) -> float:
        return max(after - before for before, after in zip(self.times_s, self.times_s[1:], strict=False))

    def _run(self) -> None:
        number = 0
        while not self._is_stopping:
            name = f"{number:06}"
            number += 1
            try:
                outcome = self._registry.write([Create(f"/written/{name}")])
            except RegistryUnreached:
                continue
            if outcome.is_done:
                self.done.append(name)
                self.times_s.append(time.monotonic())
            elif outcome.is_unknown:
                self.unknown.append(name)
            else:
                self.refused += 1


def is_answered(registry: Registry) -> bool:
    """Reads with a short deadline, which the call has to keep."""
    begun_s = time.monotonic()
    try:
        registry.read("/", within_s=0.3)
    except RegistryUnreached:
        assert time.monotonic() - begun_s < 1.5
        return False
    return True


def test_a_killed_leader_costs_no_acknowledged_write(ensemble: Ensemble, registry: ZooKeeperRegistry) -> None:
    assert sorted(ensemble.modes()) == ["follower", "follower", "leader"]
    assert registry.write([Create("/written")]).is_done
    session = registry.session()
    leader = ensemble.leader()
    writer = Writer(registry)
    until(lambda: len(writer.done) > 50)

    leader.signal(signal.SIGKILL)
    before = len(writer.done)
    until(lambda: len(writer.done) > before + WRITES_AFTER_THE_KILL)
    writer.stop()
    leader.wait_until_serving()

    names = registry.children("/written")
    assert set(writer.done) <= set(names) <= {*writer.done, *writer.unknown}
    assert writer.refused == 0
    assert writer.longest_gap_s() < GAP_S_MAX
    assert registry.session() == session
    # The server that was killed has everything, too.
    other = connect_registry(leader.address)
    assert other.children("/written") == names
    other.close()


def test_without_a_majority_calls_end_in_time_and_the_lease_runs_out(
    ensemble: Ensemble, registry: ZooKeeperRegistry
) -> None:
    assert registry.write([Create("/mine", b"", True)]).is_done
    session = registry.session()
    stopped = [ensemble.leader(), *ensemble.followers()[:1]]
    for server in stopped:
        server.stop()
    begun_s = time.monotonic()

    until(lambda: not is_answered(registry))
    until(lambda: registry.remaining_s() == 0)

    assert time.monotonic() - begun_s < 10
    assert not registry.is_connected()
    assert [bool(mode) for mode in ensemble.modes()] == [False] * 3
    for server in stopped:
        server.start()
    for server in stopped:
        server.wait_until_serving()
    # Sessions do not end while there is no leader to end them.
    node = registry.read("/mine")
    assert node is not None
    assert node.owner == session == registry.session()
    assert registry.is_connected()
