"""One SparkSession for all tests of this folder, because starting it takes longer than most of them."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import warren.spark
from tests.spark.quick_start import quick_options
from warren.errors import JavaMissing, SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LONGEST = "test_kills.py"
# The port of a Spark Connect server on this machine. Its clients know no other one.
CONNECT_PORT = 15002
CONNECT_PORT_WAIT_S = 120


def is_spark_required() -> bool:
    """Returns whether a test without Spark has failed: `make test` and CI set this, because everything is installed
    there.
    """
    return bool(os.environ.get("CI") or os.environ.get("WARREN_REQUIRE_SPARK"))


IS_LEFT_OUT = find_spec("pyspark") is None and not is_spark_required()
# Most modules here import PySpark, and cannot be collected without it.
collect_ignore_glob = ["test_*.py"] if IS_LEFT_OUT else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IS_LEFT_OUT:
        terminalreporter.write_line(f"tests/spark was left out: {SparkMissing()}", yellow=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests run first: with two processes, one would otherwise be idle while the other ends."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session", autouse=True)
def quick_start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every JVM of these tests starts quickly, in any process. The archive is kept for the next run."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    folder = tmp_path_factory.mktemp("quick-start") if cache is None else cache.mkdir("spark-classes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", quick_options(folder))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine. Tests share it, so they must not change its settings."""
    folder: Path = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder),
    }
    try:
        session = warren.spark.session("tests", "local[2]", conf)
    except (SparkMissing, JavaMissing) as error:
        if is_spark_required():
            raise
        pytest.skip(str(error))
    yield session
    session.stop()


@pytest.fixture
def connect_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of Spark Connect, for one test at a time: a second server would take the next port, and its client would
    ask the first one.
    """
    with open(tmp_path_factory.getbasetemp().parent / "connect-port.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait_until_free(CONNECT_PORT)
        yield CONNECT_PORT


def wait_until_free(port: int) -> None:
    """Waits until no server listens on `port` of this machine."""
    end = time.monotonic() + CONNECT_PORT_WAIT_S
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) != 0:
                return
        assert time.monotonic() < end, f"port {port} is in use"
        time.sleep(0.1)
