"""What tests of the broker share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def collected() -> Iterator[None]:
    """What the test leaves to the garbage collector is collected behind it, and not in the midst of another."""
    yield
    gc.collect()
