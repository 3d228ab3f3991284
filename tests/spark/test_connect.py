"""The format "warren" with Spark Connect: a client that has no JVM, and a server that it starts on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.spark.quiet import complaints
from tests.tidy.source import SOURCE

SCRIPT: Final = """
import os

import warren
import warren.spark

path = os.path.abspath("data")
with warren.open(path) as store:
    store.topic("orders").put_many([b"1", b"2", b"3"], tag="eu.de")
spark = warren.spark.session(master="local[2]", conf={"spark.api.mode": "connect", "spark.driver.memory": "1g"})

orders = spark.read.format("warren").option("topics", "orders").load(path)
doubled = orders.selectExpr("cast(2 * cast(cast(value as string) as int) as string) value", "tag")
doubled.write.format("warren").mode("append").option("topic", "doubled").save(path)
copy = spark.readStream.format("warren").options(topics="orders", startingOffsets="earliest").load(path)
query = copy.select("value").writeStream.format("warren").option("topic", "copies")
query = query.option("checkpointLocation", os.path.abspath("checkpoint")).trigger(availableNow=True).start(path)
query.awaitTermination(120)

print(type(spark).__module__)
print(warren.spark.session(master="sc://localhost:15002").range(3).count())
with warren.open(path) as store:
    for topic in ("doubled", "copies"):
        print(topic, sorted(message.body for message in store.topic(topic).last(10)))
spark.stop()
"""


@pytest.mark.usefixtures("connect_port")
def test_a_connect_client_reads_and_writes(tmp_path: Path) -> None:
    pytest.importorskip("grpc")

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, complaints(done.stderr)) == (0, "")
    assert done.stdout.splitlines() == [
        "pyspark.sql.connect.session",
        "3",
        "doubled [b'2', b'4', b'6']",
        "copies [b'1', b'2', b'3']",
    ]
