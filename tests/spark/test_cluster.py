"""Reading and writing on a cluster of real processes, with Warren shipped to it, and while executors are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

import warren
from tests.spark import cluster_jobs
from tests.spark.cluster import LOOK_S, LOOPBACK, Cluster, options, running_cluster
from warren.spark.runtime.shipping import package_zip, submit_command
from warren.spark.store_access.files import FileCatalog

MESSAGES: Final = 3000
AT_ONCE: Final = 150
KILLS: Final = 5
JOB_S_MAX: Final = 500
CONF: Final = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "20",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The directory of a store with orders in three partitions."""
    path = str(tmp_path / "data")
    with warren.open(path) as store:
        orders = store.topic("orders", partitions=3)
        for partition in range(3):
            orders.put_many(bodies()[partition::3], partition=partition)
        store.topic("copies", partitions=2)
        store.topic("written", partitions=2)
    return path


def bodies() -> list[bytes]:
    return [b"%06d" % number for number in range(MESSAGES)]


def conf() -> dict[str, str]:
    return {**CONF, "spark.executor.extraJavaOptions": options()}


def submitted(cluster: Cluster, *jobs: list[str]) -> subprocess.Popen[str]:
    """The driver, which runs the jobs."""
    package = package_zip(str(cluster.folder / "package"))
    program = [cluster_jobs.__file__, json.dumps(jobs)]
    command = submit_command(program, cluster.master, conf(), package=package)
    return subprocess.Popen(
        command, env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer(driver: subprocess.Popen[str]) -> Any:
    """Returns the result of the jobs."""
    output, complained = driver.communicate(timeout=JOB_S_MAX)
    assert driver.returncode == 0, complained
    return json.loads(output.splitlines()[-1])


def written(path: str, name: str) -> list[bytes]:
    """Returns the bodies of a topic, sorted."""
    with warren.open(path) as store:
        topic = store.topic(name)
        return sorted(
            message.body
            for partition in range(len(topic.describe().partitions))
            for message in topic.partition(partition).read(0, limit=10 * MESSAGES)
        )


@pytest.mark.timeout(600)
def test_jobs_on_a_cluster_read_a_topic_and_write_each_message_once(cluster: Cluster, store: str) -> None:
    checkpoint = str(Path(store).parent / "checkpoint")
    copy = ["copy", store, checkpoint, str(MESSAGES // 3)]

    driver = submitted(cluster, ["where"], ["batch", store], copy, copy, ["write", store])
    where, batch, _, _, _ = answer(driver)

    assert len(where["parents"]) == 2
    assert all("warren.zip" in file for file in where["files"])
    assert batch == {"values": [body.decode() for body in bodies()], "partitions": [0, 1, 2]}
    assert written(store, "copies") == bodies()
    assert written(store, "written") == sorted(b"%d" % number for number in range(1000))


@pytest.mark.timeout(600)
def test_executors_that_are_killed_lose_nothing_and_repeat_nothing(cluster: Cluster, store: str) -> None:
    driver = submitted(cluster, ["copy", store, str(Path(store).parent / "checkpoint"), str(AT_ONCE)])
    try:
        killed = kill_executors(cluster, driver, store)
        answer(driver)
    finally:
        driver.kill()
        driver.wait()

    assert len(killed) == KILLS
    assert written(store, "copies") == bodies()


@pytest.mark.timeout(600)
def test_the_example_submits_a_pipeline_with_all_that_it_needs(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [word for name, value in conf().items() for word in ("--conf", f"{name}={value}")]
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)

    rows = import_module("examples.cluster.run").main(cluster.master, tmp_path, *options)

    assert [(row["minute"][11:16], row["page"], row["visits"]) for row in rows] == [("12:00", "/", 100)]


def kill_executors(cluster: Cluster, driver: subprocess.Popen[str], path: str) -> list[int]:
    """Kills one executor each time that a further part of the messages is copied. Returns which ones."""
    killed: list[int] = []
    while len(killed) < KILLS and driver.poll() is None:
        executors = [pid for pid in cluster.executors() if pid not in killed]
        if executors and copied(path) >= MESSAGES * len(killed) // (KILLS + 1):
            with suppress(ProcessLookupError):
                os.kill(executors[len(killed) % len(executors)], signal.SIGKILL)
                killed.append(executors[len(killed) % len(executors)])
        time.sleep(LOOK_S)
    return killed


def copied(path: str) -> int:
    """Returns how many messages are in the topic copies."""
    catalog = FileCatalog(path)
    count = 0
    for partition in range(catalog.settings("copies").partitions):
        with catalog.log("copies", partition) as log:
            count += log.end
    return count
