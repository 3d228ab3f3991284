"""For any input of a stranger, the broker stays up and small, and others are served; `make fuzz`
runs without an end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.run import fuzz


@pytest.mark.parametrize(("seed", "is_secured", "rounds"), [(1, False, 100), (2, True, 40)])
def test_other_clients_do_not_notice_a_hostile_one(tmp_path: Path, seed: int, is_secured: bool, rounds: int) -> None:
    outcome = fuzz(tmp_path, seed, rounds=rounds, is_secured=is_secured)

    assert outcome.faults == [], f"seed {seed}"
    assert outcome.witnessed >= rounds
