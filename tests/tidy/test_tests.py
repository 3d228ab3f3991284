"""The tests keep their own rules: each kind is in its folder, and its cost is known by its folder."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.tidy.source import ROOT

TESTS: Final = ROOT / "tests"
SLEEP: Final = re.compile(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))")


def sleeps(text: str) -> list[str]:
    """Returns the lines of a module that sleep. `asyncio.sleep(0)` does not: it lets other tasks run."""
    return [line.strip() for line in text.splitlines() if SLEEP.search(line)]


@pytest.mark.parametrize("folder", ["unit", "property"])
def test_no_fast_test_sleeps(folder: str) -> None:
    """Wait for a condition with `tests.support.patience`, use a SimulatedClock, or move to `tests/integration`."""
    assert {path.name: lines for path in (TESTS / folder).rglob("*.py") if (lines := sleeps(path.read_text()))} == {}


def test_a_sleep_is_recognised() -> None:
    text = "clock.sleep(1)\ntime.sleep(1)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0.05)\n"

    assert sleeps(text) == ["time.sleep(1)", "await asyncio.sleep(0.05)"]
