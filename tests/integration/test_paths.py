"""The paths of the most frequent calls stay short: `python -m tools.paths -v` names what each goes through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LONGEST: Final = {
    "put": (17, 10),
    "take and ack": (93, 28),
    "Kafka produce": (67, 32),
    "Kafka fetch": (83, 28),
    "client put": (26, 10),
    "client put, broker": (59, 28),
}
"""How many functions in how many modules. These numbers may only fall.

Those of a broker have room for two functions that run now and then.
"""


@pytest.fixture(scope="module")
def lengths() -> dict[str, tuple[int, int]]:
    walked = subprocess.run(
        [sys.executable, "-m", "tools.paths"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    rows = [line.partition(": ") for line in walked.stdout.splitlines()]
    return {name: (int(text.split()[0]), int(text.split()[3])) for name, _, text in rows}


@pytest.mark.parametrize("name", LONGEST)
def test_a_frequent_call_goes_through_no_more_functions_than_before(
    lengths: dict[str, tuple[int, int]], name: str
) -> None:
    functions, modules = lengths[name]
    functions_max, modules_max = LONGEST[name]

    assert functions <= functions_max
    assert modules <= modules_max


def test_every_path_has_a_limit(lengths: dict[str, tuple[int, int]]) -> None:
    assert lengths.keys() == LONGEST.keys()
