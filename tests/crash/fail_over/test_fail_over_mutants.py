"""A store with slaves and without one of its safeguards is noticed."""

from __future__ import annotations

import pytest

from tests.crash.fail_over.mutants import MUTANTS
from tests.crash.mutants import Mutant, hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_missing_safeguard_of_replication_makes_a_test_fail(mutant: Mutant) -> None:
    result = hunt(mutant)

    assert result.killed_by, f"no test noticed {mutant.name!r}"
