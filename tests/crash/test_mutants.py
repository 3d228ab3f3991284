"""An engine without one of its safeguards is noticed.

`python -m tests.crash.mutants` prints by which test, and how soon.
"""

from __future__ import annotations

import pytest

from tests.crash.mutants import MUTANTS, Mutant, hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_missing_safeguard_makes_a_test_fail(mutant: Mutant) -> None:
    result = hunt(mutant)

    assert result.killed_by, f"no test noticed {mutant.name!r}"
