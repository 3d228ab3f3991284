"""The declarative pipeline of examples/: a topic as the source of tables, and as a sink; the second run continues."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import warren
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT, SOURCE
from warren.spark.runtime.java_home import use_java

PROJECT: Final = ROOT / "examples/declarative"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project whose tables are stored next to it."""
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    settings = folder / "spark-pipeline.yml"
    settings.write_text(settings.read_text().replace("file:///tmp/warren-declarative", f"file://{tmp_path}/storage"))
    return folder


def run(project: Path, store: Path) -> None:
    """One run of the pipeline over all existing messages."""
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "WARREN_STORE": str(store),
    }
    use_java(environment)
    conf = ["--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.driver.memory=1g"]
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run", "--remote", "local[2]", *conf],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def large_orders(store: Path) -> list[tuple[str, float]]:
    """Returns the countries and amounts in the topic that the pipeline writes to."""
    with warren.open(str(store)) as opened:
        orders = [json.loads(message.body) for message in opened.topic("large").last(10)]
    return sorted((order["country"], order["amount"]) for order in orders)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("connect_port")
def test_a_pipeline_reads_and_writes_topics_and_continues_at_its_position(project: Path, tmp_path: Path) -> None:
    store = tmp_path / "data"
    with warren.open(str(store)) as opened:
        opened.topic("orders").put_many(
            [
                b'{"country": "de", "amount": 100}',
                b'{"country": "fr", "amount": 5}',
                b'{"country": "us", "amount": 700}',
            ]
        )
        opened.topic("large")

    run(project, store)
    first = large_orders(store)
    with warren.open(str(store)) as opened:
        opened.topic("orders").put(b'{"country": "it", "amount": 300}')
    run(project, store)

    assert first == [("de", 100.0), ("us", 700.0)]
    assert large_orders(store) == [("de", 100.0), ("it", 300.0), ("us", 700.0)]


def test_the_document_contains_the_code_of_the_example() -> None:
    assert (PROJECT / "transformations/orders.py").read_text() in fenced((ROOT / "docs/spark.md").read_text(), "py")
