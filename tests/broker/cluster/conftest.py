"""A ZooKeeper that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.integration.registry.servers import RunningServer, running_server


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    if find_spec("pyspark") is None:
        pytest.skip("the jars of ZooKeeper come with the extra `cluster`")
    with running_server(tmp_path_factory.mktemp("registry") / "zk") as server:
        yield server
