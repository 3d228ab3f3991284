"""Fixtures of the tests of the broker."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import warren
from tests.support.broker.passwords import QuickCredential
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S
from warren.client.store import RemoteStore


@pytest.fixture
def collected() -> Iterator[None]:
    """Garbage of a test is collected after it, and not in the middle of another test."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords that are set in this process have few iterations. A module about iterations replaces this fixture."""
    monkeypatch.setattr("warren.broker.security.users.Credential", QuickCredential)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[RemoteStore]:
    with warren.connect(broker.address, timeout=WAIT_S) as client:
        yield client
