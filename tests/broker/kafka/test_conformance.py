"""A short version of `make conformance`, with the clients that come with the tools for development."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rows import COMPRESSIONS, PRODUCE_AND_CONSUME, Check
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.running import RunningBroker, running_broker

of_aiokafka = pytest.importorskip("tests.conformance.of_aiokafka")
of_kafka_python = pytest.importorskip("tests.conformance.of_kafka_python")
pytestmark = LEAVES_SOCKETS


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    path: Path = tmp_path_factory.mktemp("conformance") / "data"
    with running_broker(path) as running:
        yield running


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_aiokafka_consumes_its_own_messages_in_every_compression(broker: RunningBroker, compression: str) -> None:
    check: Check = of_aiokafka.CHECKS[PRODUCE_AND_CONSUME]

    check(broker.address, compression)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_kafka_python_consumes_its_own_messages(broker: RunningBroker, compression: str) -> None:
    check: Check = of_kafka_python.CHECKS[PRODUCE_AND_CONSUME]

    check(broker.address, compression)
