"""Spark that starts in half the time: its classes, as they were loaded once, are mapped by every JVM of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.tidy.source import ROOT, SOURCE
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM

OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for minutes is not worth being compiled twice: starting it takes a third less."""
LOAD_S_MAX: Final = 180
LOOK_S: Final = 0.2


def quick_options(folder: Path) -> str:
    """Options for a JVM, with the archive of classes in `folder`, which the first process makes.

    A JVM other than the one that made the archive prints nothing and works without it.
    """
    archive = folder / f"spark-{version('pyspark')}.jsa"
    lock = SYSTEM_FILE_SYSTEM.lock(str(folder / "lock"))
    deadline_s = time.monotonic() + LOAD_S_MAX
    try:
        while not (is_mine := lock.try_acquire()) and time.monotonic() < deadline_s:
            # Another process of the same tests makes it.
            time.sleep(LOOK_S)
        if is_mine and not archive.exists():
            _make(archive)
    finally:
        lock.close()
    return f"{OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else OPTIONS


def _make(archive: Path) -> None:
    """If this fails, everything works without the archive, but takes longer."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder, suppress(subprocess.TimeoutExpired):
        made = Path(folder) / archive.name
        options = f"{OPTIONS} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        paths = os.pathsep.join([str(ROOT), str(SOURCE)])
        environment = os.environ | {"PYTHONPATH": paths, "SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_DIRS": folder}
        command = [sys.executable, "-m", "tests.spark.quick_start", folder]
        done = subprocess.run(command, env=environment, timeout=LOAD_S_MAX, capture_output=True, check=False)
        if done.returncode == 0 and made.exists():
            made.replace(archive)


def _load_classes(folder: str) -> None:
    """Does what most tests do with Spark, once: a batch, a stream, and a write of each."""
    import warren
    import warren.spark

    store = os.path.join(folder, "loaded")
    with warren.open(store) as opened:
        opened.topic("in", 2).put_many([b'{"id": 1}'] * 10)
        opened.topic("out")
    spark = warren.spark.session("classes", "local[2]", {"spark.driver.memory": "1g"})
    spark.read.format("warren").option("path", store).option("topics", "in").load().createOrReplaceTempView("t")
    spark.sql("select tag, count(*), max(to_json(struct(value))) from t group by tag order by 1").collect()
    stream = spark.readStream.format("warren").option("path", store).option("topics", "in").load()
    written = stream.select("value").writeStream.format("warren").option("path", store).option("topic", "out")
    query = written.option("checkpointLocation", os.path.join(folder, "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(LOAD_S_MAX)
    spark.stop()


if __name__ == "__main__":
    _load_classes(*sys.argv[1:])
