"""The example of a pipeline on a cluster, run on one of real processes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.spark.cluster import LOOPBACK, running_cluster

pytest.importorskip("pyspark")

CONF = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def test_a_pipeline_is_submitted_to_a_cluster_with_all_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]

    with running_cluster(tmp_path) as cluster:
        for name, value in cluster.environment().items():
            monkeypatch.setenv(name, value)
        rows = import_module("examples.cluster.run").main(cluster.master, tmp_path, *options)

    assert [(row["minute"][11:16], row["page"], row["visits"]) for row in rows] == [("12:00", "/", 100)]
