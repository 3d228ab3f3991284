"""Reading a little out of much: only the requested parts come from disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, quick_log
from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import PICKING_FILE_SYSTEM

START_US = START_NS // 1000
RANDOM = "rr"
"""The system's name for a map of which it loads only the touched pages."""


def test_pages_of_a_sparse_read_that_are_not_touched_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "picked").write_bytes(b"x" * 10_000)

    view = PICKING_FILE_SYSTEM.open(str(tmp_path / "picked"), writable=False).map(10_000, writable=False)

    assert view[:3] == b"xxx"
    assert RANDOM in flags_of_map("picked")


def flags_of_map(name: str) -> list[str]:
    """Returns the madvise calls for the map of the file of this name."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.endswith(f"/{name}"))
    return next(line for line in lines[first:] if line.startswith("VmFlags:")).split()[1:]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_scan_prefetches_only_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    fetched: list[tuple[int, int]] = []
    monkeypatch.setattr(Block, "will_need", lambda block, start, end: fetched.append((start, end)))
    with quick_log(tmp_path / "log", version=version) as log:
        for number in range(100):
            log.append(b"%01000d" % number)

        list(log.scan(40, 50))

        assert fetched == [(log.standing(40).position, log.standing(50).position)]


def test_a_scan_by_tag_fetches_only_matching_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[tuple[int, int]] = []
    monkeypatch.setattr(Block, "will_need", lambda block, start, end: fetched.append((start, end)))
    with quick_log(tmp_path / "log") as log:
        for batch in range(10):
            log.append_many([b"%01000d" % number for number in range(100)], tag="rare" if batch == 7 else "common")

        list(log.scan(tag="rare", skips=True))

        assert fetched == [(log.standing(700).position, log.standing(800).position)]


def test_a_message_is_found_by_time_without_reading_a_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    with quick_log(tmp_path / "log", clock=clock) as log:
        for _ in range(10):
            log.append_many([b"x" * 1000] * 100)
            clock.pass_ns(1_000_000_000)
        monkeypatch.delattr(Block, "read")

        numbers = [log.find_time(START_US + second * 1_000_000) for second in range(12)]

        assert numbers == [*range(0, 1000, 100), 1000, 1000]
