"""The long mixed run, for a short time: `make soak` runs it with a thousand kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.run import run

KILLS = 120


@pytest.mark.parametrize("seed", [1])
def test_a_mixed_run_with_kills_keeps_every_promise(tmp_path: Path, seed: int) -> None:
    outcome = run(tmp_path, KILLS, seed)

    errors = [path.read_text() for path in sorted(tmp_path.glob("*.error"))]
    assert (outcome.faults, errors) == ([], [])
    assert outcome.kills == KILLS
    assert outcome.messages > KILLS
