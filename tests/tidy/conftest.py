"""Drops the parsed source after the last of these tests, so that the other tests have a small process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.source import parsed


@pytest.fixture(scope="package", autouse=True)
def trees_are_dropped() -> Iterator[None]:
    yield
    parsed.cache_clear()
