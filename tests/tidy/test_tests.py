"""The tests keep their own rules: each kind is in its folder, and its folder shows its cost."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.tidy.rooms import MODULES_MAX
from tests.tidy.source import ROOT

TESTS: Final = ROOT / "tests"
FROM_A_TEST: Final = re.compile(r"^from (tests\.\S*\.test_\w+) import", re.MULTILINE)
ALLOWED: Final = frozenset({"tests.crash.test_power_cuts"})
"""The README is compared with its number of power cuts."""
SPARED: Final = frozenset({"__init__.py", "conftest.py"})
SLEEP: Final = re.compile(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))")


def sleeps(text: str) -> list[str]:
    """Returns the lines of a module that sleep. `asyncio.sleep(0)` does not: it lets other tasks run."""
    return [line.strip() for line in text.splitlines() if SLEEP.search(line)]


@pytest.mark.parametrize("folder", ["unit", "property"])
def test_no_fast_test_sleeps(folder: str) -> None:
    """Wait for a condition with `tests.support.patience`, use a SimulatedClock, or move to `tests/integration`."""
    assert {path.name: lines for path in (TESTS / folder).rglob("*.py") if (lines := sleeps(path.read_text()))} == {}


def test_no_folder_of_tests_is_a_corridor() -> None:
    folders = [TESTS, *(path for path in TESTS.rglob("*") if path.is_dir())]
    sizes = {folder: sum(each.name not in SPARED for each in folder.glob("*.py")) for folder in folders}

    assert {str(folder): size for folder, size in sizes.items() if size > MODULES_MAX} == {}


def test_no_test_module_imports_another_one() -> None:
    """Code that two of them need is in `tests/support`, or in a module without tests in their folder."""
    imported = {
        str(path.relative_to(ROOT)): names
        for path in TESTS.rglob("test_*.py")
        if (names := [name for name in FROM_A_TEST.findall(path.read_text()) if name not in ALLOWED])
    }

    assert imported == {}


def test_a_sleep_is_recognised() -> None:
    text = "clock.sleep(1)\ntime.sleep(1)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0.05)\n"

    assert sleeps(text) == ["time.sleep(1)", "await asyncio.sleep(0.05)"]
