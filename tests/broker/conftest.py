"""What tests of the broker share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import warren
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.patience import WAIT_S
from warren.client.store import RemoteStore


@pytest.fixture
def collected() -> Iterator[None]:
    """What the test leaves to the garbage collector is collected behind it, and not in the midst of another."""
    yield
    gc.collect()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def store(broker: RunningBroker) -> Iterator[RemoteStore]:
    with warren.connect(broker.address, timeout=WAIT_S) as client:
        yield client
