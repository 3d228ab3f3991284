"""Ledgers: a state that many processes change, equal for all, which survives them and does not grow
with its history.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import QUICK_DISK, WatchedDisk
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedFileSystem
from warren.clock import SYSTEM_CLOCK
from warren.errors import StorageFull
from warren.queue.state import ledger as module
from warren.queue.state.ledger import SNAPSHOT, Ledger


class Words:
    """A state for tests: words in their order."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.applied = 0
        self.fails_at = ""

    def apply(self, kind: str, event: dict[str, Any]) -> None:
        self.applied += 1
        if event["word"] == self.fails_at:
            self.words.append("half of it")
            raise KeyboardInterrupt
        self.words.append(f"{kind} {event['word']}")

    def snapshot(self) -> dict[str, Any]:
        return {"said": self.words}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.words = list(snapshot.get("said", ()))


class Count(Words):
    """A state that stays small for any number of events."""

    def snapshot(self) -> dict[str, Any]:
        return {"said": self.words[-1:]}


class Verbose(Words):
    """A state whose snapshot is far larger than its events."""

    def snapshot(self) -> dict[str, Any]:
        return {"said": self.words, "more": "x" * 200_000}


def quick_ledger(path: Path, state: Words | None = None) -> tuple[Ledger, Words]:
    state = state or Words()
    return Ledger(str(path / "ledger"), state, QUICK_DISK, SYSTEM_CLOCK), state


def say(ledger: Ledger, *words: str) -> None:
    for word in words:
        with ledger.changing():
            ledger.add("say", {"word": word})


def read_words(ledger: Ledger, state: Words) -> list[str]:
    ledger.look()
    return state.words


@pytest.fixture
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are written after every fifth event."""
    monkeypatch.setattr(module, "EVENTS_PER_SNAPSHOT", 5)
    monkeypatch.setattr(module, "SNAPSHOT_SHARE_MAX", 0)


def test_every_process_sees_the_same_state(tmp_path: Path) -> None:
    (one, first), (two, second) = quick_ledger(tmp_path), quick_ledger(tmp_path)

    say(one, "a")
    say(two, "b")
    say(one, "c")

    assert read_words(one, first) == read_words(two, second) == ["say a", "say b", "say c"]
    assert read_words(*quick_ledger(tmp_path)) == ["say a", "say b", "say c"]


def test_within_a_change_the_state_is_up_to_date(tmp_path: Path) -> None:
    (one, first), (two, _) = quick_ledger(tmp_path), quick_ledger(tmp_path)
    say(two, "a")

    with one.changing():
        before = list(first.words)
        one.add("say", {"word": "b"})
        after = list(first.words)

    assert (before, after) == (["say a"], ["say a", "say b"])
    assert one.next_number == one.log.end == 2


def test_no_other_process_changes_the_state_during_a_change(tmp_path: Path) -> None:
    (one, _), (two, state) = quick_ledger(tmp_path), quick_ledger(tmp_path)
    with one.changing():
        thread = threading.Thread(target=say, args=(two, "b"))
        thread.start()
        one.add("say", {"word": "a"})
    thread.join(20)

    assert read_words(two, state) == ["say a", "say b"]


def test_an_error_within_a_change_releases_the_lock(tmp_path: Path) -> None:
    ledger, state = quick_ledger(tmp_path)
    say(ledger, "a")
    with pytest.raises(TypeError), ledger.changing():
        ledger.add("say", {"word": b"not for JSON"})

    say(ledger, "b")

    assert read_words(ledger, state) == ["say a", "say b"]


def test_an_interrupted_state_is_rebuilt(tmp_path: Path) -> None:
    ledger, state = quick_ledger(tmp_path)
    say(ledger, "a")
    state.fails_at = "b"
    with pytest.raises(KeyboardInterrupt):
        say(ledger, "b")
    state.fails_at = ""

    assert read_words(ledger, state) == ["say a", "say b"]


def test_an_interrupted_replay_starts_again(tmp_path: Path) -> None:
    (one, _), (two, state) = quick_ledger(tmp_path), quick_ledger(tmp_path)
    say(two, "a")
    say(one, "b", "c", "d")
    state.fails_at = "c"
    with pytest.raises(KeyboardInterrupt):
        two.look()
    state.fails_at = ""

    assert read_words(two, state) == ["say a", "say b", "say c", "say d"]


def test_an_event_that_has_no_room_did_not_happen() -> None:
    disk, state = SimulatedFileSystem(), Words()
    ledger = Ledger("/ledger", state, disk, SimulatedClock())
    say(ledger, "a")
    disk.size_max = 0

    with pytest.raises(StorageFull):
        say(ledger, "b" * 100_000)
    disk.size_max = None

    assert read_words(ledger, state) == ["say a"]
    say(ledger, "c")
    assert read_words(ledger, state) == ["say a", "say c"]


@pytest.mark.usefixtures("few_events")
def test_a_snapshot_that_has_no_room_waits() -> None:
    disk, state = SimulatedFileSystem(map_capacity=1 << 21), Verbose()
    ledger = Ledger("/ledger", state, disk, SimulatedClock())
    say(ledger, *"abcd")
    disk.size_max = 0

    say(ledger, "e", "f")
    assert ledger.log.read(0, tag=SNAPSHOT) == []
    disk.size_max = None
    say(ledger, "g")

    assert [message.number for message in ledger.log.read(0, tag=SNAPSHOT)] == [7]
    assert read_words(ledger, state) == [f"say {word}" for word in "abcdefg"]


@pytest.mark.usefixtures("few_events")
def test_a_snapshot_replaces_the_events_before_it(tmp_path: Path) -> None:
    ledger, _ = quick_ledger(tmp_path)
    words = [str(number) for number in range(13)]
    say(ledger, *words)

    late, state = quick_ledger(tmp_path)

    assert read_words(late, state) == [f"say {word}" for word in words]
    assert state.applied == 3
    assert [message.number for message in ledger.log.read(0, tag=SNAPSHOT)] == [5, 11]


@pytest.mark.usefixtures("few_events")
def test_a_process_that_follows_the_ledger_needs_no_snapshot(tmp_path: Path) -> None:
    (one, _), (two, state) = quick_ledger(tmp_path), quick_ledger(tmp_path)
    for number in range(20):
        say(one, str(number))
        two.look()

    assert state.words == [f"say {number}" for number in range(20)]
    assert state.applied == 20


@pytest.mark.usefixtures("few_events")
def test_events_before_a_snapshot_are_retired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEDGER_BLOCK_SIZE", 4096)
    ledger, _ = quick_ledger(tmp_path, Count())
    follower, state = quick_ledger(tmp_path)
    follower.look()

    say(ledger, *(str(number) for number in range(500)))

    assert ledger.log.end - ledger.log.first < 100
    assert read_words(follower, state)[-1] == "say 499"


def test_a_large_state_is_not_written_with_every_few_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_PER_SNAPSHOT", 5)
    ledger, state = quick_ledger(tmp_path)
    say(ledger, "x" * 1000, *"abcd")
    assert [message.number for message in ledger.log.read(0, tag=SNAPSHOT)] == [5]

    say(ledger, *"efghijklmnop" * 10)

    assert len(ledger.log.read(0, tag=SNAPSHOT)) == 1
    assert len(read_words(ledger, state)) == 125


def test_a_snapshot_is_on_disk_before_events_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_PER_SNAPSHOT", 3)
    disk = WatchedDisk()
    ledger = Ledger(str(tmp_path / "ledger"), Words(), disk, SYSTEM_CLOCK)
    say(ledger, "a")
    disk.syncs.clear()

    say(ledger, "b")
    assert disk.syncs == []
    say(ledger, "c")

    assert [name for name in disk.syncs if name.endswith(".block")] == ["0" * 20 + ".block"]


def test_events_survive_a_kill_and_after_a_sync_a_power_cut() -> None:
    disk = SimulatedFileSystem()
    ledger = Ledger("/ledger", Words(), disk, SimulatedClock())
    say(ledger, "a")
    ledger.sync()
    say(ledger, "b")

    for survivor, least in ((disk.after_process_kill(), 2), *((disk.after_power_cut(seed), 1) for seed in range(20))):
        state = Words()
        assert ["say a", "say b"][:least] == read_words(Ledger("/ledger", state, survivor, SimulatedClock()), state)[
            :least
        ]


def test_a_child_takes_the_lock_for_itself(tmp_path: Path) -> None:
    ledger, state = quick_ledger(tmp_path)
    ledger.after_fork()
    say(ledger, "a")

    assert read_words(ledger, state) == ["say a"]
    ledger.close()
