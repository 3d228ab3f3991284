"""The stores that the contract is tested on: embedded or behind a broker, synchronous or asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

import warren
import warren.aio
from tests.contract.aio_adapter import adapted
from tests.support.broker.running import running_broker
from tests.support.patience import WAIT_S
from warren import api

Opener = Callable[[], AbstractContextManager[api.Store]]
SYNCHRONOUS = ["embedded", "broker"]
KINDS = [*SYNCHRONOUS, "aio", "aio-broker"]


@pytest.fixture(params=KINDS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same store each time it is called.

    A test of features that only threads have, such as a wait with a timeout, runs on stores without asyncio:
    `@pytest.mark.parametrize("opener", SYNCHRONOUS, indirect=True)`.
    """
    if request.param == "embedded":
        yield partial(warren.open, tmp_path, durability="os")
    elif request.param == "aio":
        yield lambda: adapted(warren.aio.open(tmp_path, durability="os"))
    else:
        with running_broker(tmp_path) as broker:
            if request.param == "broker":
                yield partial(warren.connect, broker.address, timeout=WAIT_S)
            else:
                yield lambda: adapted(warren.aio.connect(broker.address, timeout=WAIT_S))


@pytest.fixture
def store(opener: Opener) -> Iterator[api.Store]:
    with opener() as store:
        yield store
