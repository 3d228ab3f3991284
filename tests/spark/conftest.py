"""One SparkSession for all tests of this folder: starting it is dearer than most of them."""

from __future__ import annotations

import os
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


LONGEST = "test_pipeline_kills.py"


def is_spark_required() -> bool:
    """Whether a test that finds no Spark has failed: `make test` and CI say so, where everything is installed."""
    return bool(os.environ.get("CI") or os.environ.get("WARREN_REQUIRE_SPARK"))


IS_LEFT_OUT = find_spec("pyspark") is None and not is_spark_required()
# Most modules here import PySpark, and cannot so much as be looked at without it.
collect_ignore_glob = ["test_*.py"] if IS_LEFT_OUT else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if IS_LEFT_OUT:
        terminalreporter.write_line(f"tests/spark was left out: {SparkMissing()}", yellow=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest is begun first: with two processes, one has nothing to do while the other ends."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.fixture(scope="session", autouse=True)
def quick_start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every JVM of these tests starts quickly, whichever process starts it. The archive is kept for the next run."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    folder = tmp_path_factory.mktemp("quick-start") if cache is None else cache.mkdir("spark-classes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", quick_options(folder))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine. Tests share it, so they leave its settings as they were."""
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
