"""A ZooKeeper that the tests of this folder share, and the registries that the contract is tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count
from typing import Final

import pytest

from tests.integration.registry.servers import RunningServer, running_server
from warren.registry.connection import connect_registry
from warren.registry.local import LocalEnsemble
from warren.registry.registry import Create, Registry

Connect = Callable[[], Registry]
"""Opens one more session at the same tree."""
NUMBERS: Final = count()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    if find_spec("pyspark") is None:
        pytest.skip("the jars of ZooKeeper come with the extra `cluster`")
    with running_server(tmp_path_factory.mktemp("registry") / "zk") as server:
        yield server


@pytest.fixture(params=["local", "zookeeper"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    opened: list[Registry] = []
    if request.param == "local":
        ensemble = LocalEnsemble()
        opener: Connect = ensemble.connect
    else:
        address = request.getfixturevalue("zookeeper").address

        def opener() -> Registry:
            return connect_registry(address, session_s=2.0)

    def connect() -> Registry:
        opened.append(opener())
        return opened[-1]

    yield connect
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(connect: Connect) -> Registry:
    return connect()


@pytest.fixture
def root(registry: Registry) -> str:
    """A node below which no other test writes."""
    path = f"/test-{next(NUMBERS)}"
    assert registry.write([Create(path)]).is_done
    return path
