"""The option `servers` under Spark itself: tables, streams and pipelines through a broker that stops and starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import warren
import warren.spark
from tests.support.broker.running import RunningBroker, running_broker
from tests.tidy.documents import fenced
from tests.tidy.source import ROOT
from warren.broker.settings import BrokerSettings
from warren.spark.jobs.dead_letters import redrive, summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 120.0
SECRET = "open sesame"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "store") as running:
        yield running


def put(broker: RunningBroker, *bodies: bytes) -> None:
    with warren.connect(broker.address) as store:
        store.topic("orders", partitions=2).put_many(bodies, keys=list(bodies), tag="eu.de")


def bodies(path: Path, topic: str) -> list[bytes]:
    with warren.open(path, keeps=False) as store:
        return sorted(message.body for message in store.existing_topic(topic).since(0))


def test_the_example_of_the_document_reads_and_writes_through_a_broker(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = (each for each in fenced((ROOT / "docs/spark.md").read_text(), "py") if "servers=" in each)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    exec(example.replace("localhost:9092", broker.address).replace("checkpoints/", f"{tmp_path}/"), names)

    through: DataFrame = names["orders"]
    files = spark.read.format("warren").options(topics="orders", tag="eu.#").load(str(tmp_path / "store"))
    assert sorted(through.collect()) == sorted(files.collect())
    assert bodies(tmp_path / "store", "shouted") == [b"2 LEEKS", b"3 CARROTS"]


def test_a_query_outlives_its_broker_and_writes_every_message_once(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with running_broker(store) as broker:
        port = int(broker.address.rpartition(":")[2])
        put(broker, b"a", b"b", b"c")
        query = (
            spark.readStream.format("warren")
            .options(servers=broker.address, topics="orders", startingOffsets="earliest", group="copying")
            .load()
            .select("key", "value", "tag")
            .writeStream.format("warren")
            .options(servers=broker.address, topic="copy", checkpointLocation=str(tmp_path / "checkpoint"))
            .start()
        )
        query.processAllAvailable()
    with running_broker(store, port=port) as broker:
        put(broker, b"d", b"e")
        query.processAllAvailable()
        query.stop()
        table = spark.read.format("warren").options(servers=broker.address, topics="copy").load()
        for _ in range(2):
            once = {"servers": broker.address, "topic": "twice", "txnAppId": "job", "txnVersion": "7"}
            table.select("value").write.format("warren").options(**once).mode("append").save()

    assert bodies(store, "copy") == bodies(store, "twice") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_password_logs_in_and_appears_in_no_plan_and_no_error(spark: SparkSession, tmp_path: Path) -> None:
    with running_broker(tmp_path / "store", settings=BrokerSettings(sasl=True)) as broker:
        broker.broker.users.create("spark", SECRET)
        with warren.connect(broker.address, user="spark", password=SECRET) as store:
            store.topic("orders").put(b"a")
        options = {"servers": broker.address, "topics": "orders", "user": "spark", "password": SECRET}
        frame = spark.read.format("warren").options(**options).schema("value binary").load()
        plan = spark._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended")  # type: ignore[union-attr]

        assert frame.count() == 1
        assert "sesame" not in plan
        with pytest.raises(PySparkException, match="refuses user 'spark'") as failure:
            spark.read.format("warren").options(**{**options, "password": SECRET + "s"}).load().count()
        assert "sesame" not in str(failure.value)


def test_an_unreachable_broker_is_reported_with_the_host_and_advice(spark: SparkSession) -> None:
    frame = spark.read.format("warren").options(servers="127.0.0.1:1", topics="orders", timeout="0.2").load()

    with pytest.raises(PySparkException, match=r"gets no answer from the broker at 127.0.0.1:1: .*every worker must"):
        frame.count()


def test_a_pipeline_file_may_name_a_broker(spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> None:
    put(broker, json.dumps({"id": 1}).encode(), b"no order")
    file = tmp_path / "copy.toml"
    file.write_text(
        f"""
        [pipeline]
        name = "copy"
        servers = "{broker.address}"
        [source]
        topics = ["orders"]
        format = "json"
        schema = "id long"
        [[step]]
        dead_letter = "broken"
        [sink]
        topic = "copy"
        format = "json"
        """
    )

    assert warren.spark.pipeline(spark, file).wait(WAIT_S)

    assert bodies(tmp_path / "store", "broken") == [b"no order"]
    assert [json.loads(body)["id"] for body in bodies(tmp_path / "store", "copy")] == [1]
    assert (tmp_path / "pipelines" / "copy" / "checkpoint").is_dir()
    with warren.connect(broker.address) as store:
        assert sum(store.topic("orders").group("copy").lag().values()) == 0


def test_dead_letters_behind_a_broker_are_counted_and_put_back_by_condition(
    spark: SparkSession, broker: RunningBroker
) -> None:
    place = {"servers": broker.address}
    with warren.connect(broker.address) as store:
        topic = store.topic("orders")
        topic.put_many([b"%d" % number for number in range(4)])
        with topic.group("packers", mode="queue", attempts_max=1) as group:
            for message in group.take(4):
                group.nack(message, reason="timeout" if message.number % 2 else "no stock")

        done = redrive(spark, place, "orders", "reason = 'timeout' and text = '3'")
        left = summary(spark, place)

        assert done == {"packers": 1}
        assert [(row.reason, row.letters) for row in left] == [("no stock", 2), ("timeout", 1)]
        assert topic.last(1)[0].body == b"3"
