"""The power is cut, or the process killed, at any call and any line of a transaction: all of it happens, or nothing.

Checked after every crash, over several topics and partitions of both format versions, with puts (delayed ones too),
positions and acknowledgements: what was answered holds, what was not answered happened wholly or not at all, nothing
happened twice, and what was prepared can still be decided.
"""

from __future__ import annotations

import pytest

from tests.crash.transaction_life import TransactionLife

PARTS = 8
LIVES_PER_PART = 3
CRASHES_PER_LIFE = 14


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest) -> int:
    """The same crashes in every run of `make test`; another seed draws others."""
    return int(request.config.getoption("--hypothesis-seed") or 0) * 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
def test_a_transaction_happens_wholly_or_not_at_all(part: int, first_seed: int) -> None:
    for life in range(LIVES_PER_PART):
        seed = first_seed + part * LIVES_PER_PART + life
        try:
            TransactionLife(seed).run(CRASHES_PER_LIFE)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
