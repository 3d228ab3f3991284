"""The simulation notices if a safeguard of replication is missing.

`python -m tests.crash.replication.mutants` prints after how many runs.
"""

from __future__ import annotations

import pytest

from tests.crash.replication.mutants import MUTANTS, Mutant, hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_missing_safeguard_of_replication_is_noticed(mutant: Mutant) -> None:
    outcome = hunt(mutant)

    assert outcome.seed_count, f"no run noticed {mutant.name!r}"
