"""The format "warren" under Spark itself: found by name, read as a table and as a stream, with clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # what every user of PySpark calls it

from tests.support.store.stores import quick_store
from warren.queue.store import Store

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value", "id", "tag", "corr_offset", "byte_offset"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with quick_store(tmp_path / "store") as opened:
        yield opened


def fill(store: Store, *, partitions: int = 2, count: int = 1000) -> None:
    topic = store.topic("orders", partitions=partitions)
    for partition in range(partitions):
        bodies = [b'{"id": %d, "amount": %d.5}' % (number, number) for number in range(count)]
        tags = [("eu.de", "eu.fr", "us")[number % 3] for number in range(count)]
        topic.partition(partition).append_many(bodies, tags=tags, keys=[b"k"] * count)


def table(spark: SparkSession, store: Store, schema: str | None = None, **options: str | int) -> DataFrame:
    settings: dict[str, str | int] = {"topics": "orders", **options}
    reader = spark.read.format("warren").options(**settings)
    return (reader if schema is None else reader.schema(schema)).load(store.path)


class Stream:
    """A query that is run repeatedly from one checkpoint, and its results."""

    def __init__(self, spark: SparkSession, store: Store, folder: Path) -> None:
        self._spark, self._store, self._folder = spark, store, folder
        self.places: list[tuple[str, int, int]] = []
        self.progress: list[dict[str, Any]] = []

    def run(self, **options: str | int) -> int:
        """Takes all available messages. Returns how many that were."""
        settings: dict[str, str | int] = {"topics": "orders", "startingOffsets": "earliest", **options}
        stream = self._spark.readStream.format("warren").options(**settings).load(self._store.path)
        before = len(self.places)
        query = (
            stream.select("topic", "partition", "offset")
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.progress = [dict(progress) for progress in query.recentProgress]
        return len(self.places) - before

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.places += [(row.topic, row.partition, row.offset) for row in frame.collect()]


@pytest.mark.parametrize("pushes", ["true", "false"])
def test_a_topic_is_a_table(spark: SparkSession, store: Store, pushes: str) -> None:
    fill(store)
    before = spark.conf.get(PUSH_DOWN)
    spark.conf.set(PUSH_DOWN, pushes)
    try:
        frame = table(spark, store)
        some = frame.where("partition = 1 and offset between 10 and 20 and tag = 'eu.de'")

        assert frame.columns == COLUMNS
        assert frame.count() == 2000
        assert sorted(row.offset for row in some.collect()) == [12, 15, 18]
        assert frame.where("tag like 'eu.%' and timestamp > '2020-01-01'").count() == 2 * 667
        assert frame.where("tag in ('us', 'eu.fr') and topic = 'orders'").count() == 2 * 666
        assert frame.where("timestamp < '2020-01-01'").count() == 0
        plan = some._jdf.queryExecution().executedPlan().toString()
        assert (" Filter " in plan) == (pushes == "false")
    finally:
        spark.conf.set(PUSH_DOWN, before or "false")


def test_a_query_reads_the_columns_it_names_and_values_with_a_format(spark: SparkSession, store: Store) -> None:
    fill(store, partitions=1, count=10)
    log = store.topic("orders").partition(0)
    log.append_many([b"not JSON", b'{"id": "x"}'])
    log.append(b"{}", headers={"trace": b"1"})

    two = table(spark, store, "value string, offset long")
    typed = table(spark, store, "offset long, id long, amount double, _corrupt_record string", valueFormat="json")
    headers = table(spark, store, includeHeaders="true").where("headers is not null").select("headers").collect()

    assert two.columns == ["value", "offset"]
    assert two.where("offset = 10").first() == ("not JSON", 10)
    assert typed.agg(F.sum("amount")).first() == (50.0,)
    bad = typed.where("_corrupt_record is not null").orderBy("offset").collect()
    assert [(row.offset, row.id, row._corrupt_record) for row in bad] == [
        (10, None, "not JSON"),
        (11, None, '{"id": "x"}'),
    ]
    assert [row.headers[0].asDict() for row in headers] == [{"key": "trace", "value": bytearray(b"1")}]
    strict = table(spark, store, "id long", valueFormat="json", mode="FAILFAST")
    with pytest.raises(PySparkException, match="message 10 of partition 0 of topic 'orders' does not fit the schema"):
        strict.collect()


def test_sql_reads_a_topic_as_a_view(spark: SparkSession, store: Store) -> None:
    fill(store)
    spark.sql(f"CREATE TEMPORARY VIEW orders_view USING warren OPTIONS (path '{store.path}', subscribe 'orders')")
    try:
        rows = spark.sql("SELECT tag, count(*) AS n FROM orders_view WHERE offset < 9 GROUP BY tag").collect()

        assert {row.tag: row.n for row in rows} == {"eu.de": 6, "eu.fr": 6, "us": 6}
    finally:
        spark.catalog.dropTempView("orders_view")


def test_errors_are_readable_sentences(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    fill(store)

    with pytest.raises(AnalysisException, match="did you mean 'startingOffsets'"):
        table(spark, store, startingOffset="earliest").collect()
    with pytest.raises(AnalysisException, match="there is no topic 'nope'"):
        table(spark, store, topics="nope").collect()
    with pytest.raises(AnalysisException, match="did you mean 'offset'"):
        table(spark, store, "ofset long").collect()
    with pytest.raises(AnalysisException, match=r"on the host .* it does not exist"):
        spark.read.format("warren").option("topics", "orders").load(str(tmp_path / "nothing")).collect()


def test_a_damaged_block_raises_an_error_that_names_the_byte_and_the_command(spark: SparkSession, store: Store) -> None:
    fill(store, partitions=1)
    block = Path(store.topic("orders").partition(0).inspect().blocks[0].path)
    data = bytearray(block.read_bytes())
    data[data.index(b'"amount"')] ^= 1
    block.write_bytes(data)

    with pytest.raises(PySparkException, match=r"is damaged at byte \d+.*warren log verify"):
        table(spark, store).collect()


def test_a_stream_continues_where_it_stopped(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    fill(store)
    stream = Stream(spark, store, tmp_path)

    assert stream.run(maxOffsetsPerTrigger=700, group="spark") == 2000
    assert [progress["numInputRows"] for progress in stream.progress] == [700, 700, 600]
    assert '"0": 1000' in stream.progress[0]["sources"][0]["latestOffset"]
    assert stream.run() == 0
    store.configure_topic("orders", {"partitions": 3})
    store.topic("orders").partition(2).append_many([b"new"] * 5)
    assert stream.run(startingOffsets="latest", group="spark") == 5
    assert len(set(stream.places)) == len(stream.places) == 2005
    with store.topic("orders").group("spark") as group:
        assert group.positions()[0] == 1000


def test_a_stream_reports_lost_messages(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    log = store.topic("orders", block_size=4096).partition(0)
    log.append(b"first")
    stream = Stream(spark, store, tmp_path)
    stream.run()
    for number in range(200):
        log.append(b"%0100d" % number)
    first = log.retire(before=150)

    with pytest.raises(PySparkException, match=rf"message 1 of partition 0 .* messages {first} to 201"):
        stream.run()
    assert stream.run(failOnDataLoss="false") == 201 - first

    store.delete_topic("orders")
    store.topic("orders").put(b"another")
    with pytest.raises(PySparkException, match="topic 'orders' was deleted and created again"):
        stream.run()
