"""Members of a stream group are killed, at any moment and repeatedly, while messages are put."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.integration.queue import group_members
from tests.integration.queue.group_history import Event, History, faults, histories
from warren.queue.store import Store

PARTITIONS = 8
MEMBERS = 3
KILLS = 40
BATCHES_BETWEEN_KILLS = 60
END_S = 60.0


class Members:
    """Processes that read, forked from one that has imported everything: they start within milliseconds."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([group_members.__name__])
        self._directory, self._seed = directory, seed
        self._processes: list[tuple[str, BaseProcess]] = []
        self.started = 0
        self._histories = directory / "histories"
        self._histories.mkdir()

    def start(self) -> None:
        self.started += 1
        name = f"member-{self.started}"
        arguments = (str(self._directory / "data"), str(self._histories / name), self._seed + self.started)
        process = self._context.Process(target=group_members.consume, args=arguments, daemon=True)
        process.start()
        self._processes.append((name, process))

    def kill(self, place: int) -> None:
        name, process = self._processes.pop(place)
        assert process.exitcode is None, "a member ended by itself"
        History(self._histories / name).tell("killed")
        process.kill()
        process.join(END_S)

    def kill_all(self) -> None:
        while self._processes:
            self.kill(0)


def test_killed_members_lose_nothing_and_share_nothing(tmp_path: Path) -> None:
    chance = random.Random(1)
    with Store(tmp_path / "data", defaults={"durability": "os"}) as store:
        topic = store.topic("orders", partitions=PARTITIONS)
        members = Members(tmp_path, seed=1000)
        try:
            for _ in range(MEMBERS):
                members.start()
            for _ in range(KILLS):
                for _ in range(BATCHES_BETWEEN_KILLS):
                    topic.put_many([b"x"] * chance.randint(1, 8), partition=chance.randrange(PARTITIONS))
                    time.sleep(0.004)
                members.kill(chance.randrange(MEMBERS))
                members.start()
        finally:
            members.kill_all()
        history = History(tmp_path / "histories" / "last")
        with topic.group("billing") as group:
            deadline_s = time.monotonic() + END_S
            while any(group.lag().values()):
                group_members.step(group, history, chance)
                assert time.monotonic() < deadline_s

        events = histories(tmp_path / "histories")

        assert faults(events, [log.end for log in topic.logs]) == []
        # The test was useful: most members read, and partitions moved between them many times.
        readers = {event.member for event in events if event.kind == "read"}
        assert len(readers) > members.started // 2
        owners = [event.member for event in events if event.kind == "read" and event.partition == 0]
        assert sum(one != two for one, two in itertools.pairwise(owners)) > KILLS // 4


def _history(*events: tuple[str, str, int, int, int]) -> list[Event]:
    return [Event(time_ns, *event) for time_ns, event in enumerate(events)]


FINE = (
    ("a", "ask", -1, -1, -1),
    ("a", "read", 0, 0, 5),
    ("a", "commit", 0, -1, 5),
    ("a", "done", 0, -1, 5),
    ("a", "read", 0, 5, 9),
    ("b", "read", 1, 0, 3),
    ("b", "commit", 1, -1, 3),
    ("b", "done", 1, -1, 3),
    ("a", "commit", 0, -1, 9),
    # Here `a` was killed: the commit that it had begun may have happened or not.
)
REST = (("b", "read", 0, 9, 10), ("b", "commit", 0, -1, 10), ("b", "done", 0, -1, 10))


def test_the_checker_finds_nothing_wrong_with_a_good_history() -> None:
    again = (("b", "read", 0, 5, 10), ("b", "commit", 0, -1, 10), ("b", "done", 0, -1, 10))

    assert faults(_history(*FINE, *REST), [10, 3]) == []
    assert faults(_history(*FINE, *again), [10, 3]) == []


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ((*FINE, *REST[:2]), "only 5 were done with"),
        ((*FINE, ("b", "read", 0, 4, 10), *REST[1:]), "delivered again, though 5"),
        ((*FINE, ("b", "read", 0, 6, 10), *REST[1:]), "neither goes on from"),
        ((*FINE[:5], ("b", "read", 0, 5, 10), *FINE[5:8], *REST[1:]), "a owns the partition as well"),
        ((*FINE[:4], ("a", "read", 0, 6, 9), *FINE[5:], *REST), "neither goes on from"),
        ((*FINE, *REST, ("a", "done", 0, -1, 4)), "commits go back"),
    ],
)
def test_the_checker_finds_faults(events: tuple[tuple[str, str, int, int, int], ...], fault: str) -> None:
    complaints = faults(_history(*events), [10, 3])

    assert len(complaints) == 1
    assert fault in complaints[0]
