"""The sink of format "warren" under a real Spark: batches, restarted streams, and refused queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import warren
from warren.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 120


def written(path: Path, topic: str = "orders") -> list[Message]:
    with warren.open(path, keeps=False) as store:
        return [message for log in store.existing_topic(topic).logs for message in log.read(0, limit=1 << 20)]


def staged(path: Path) -> list[str]:
    with warren.open(path, keeps=False) as store:
        return [prepared.id for prepared in store.recover()]


def write(frame: DataFrame, path: Path, mode: str = "append", **options: Any) -> None:
    frame.write.format("warren").mode(mode).options(**{"topic": "orders", **options}).save(str(path))


def test_a_frame_is_written_with_all_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(1000).selectExpr(
        "cast(id as string) value",
        "concat('k', id % 7) key",
        "if(id % 2 = 0, 'even', null) tag",
        "concat('i', id) id",
        "map('h', cast(cast(id as string) as binary)) headers",
        "if(id = 3, current_timestamp() + interval 10 days, null) deliver_at",
    )

    write(frame, tmp_path / "store", partitions=3)

    messages = {int(message.body): message for message in written(tmp_path / "store")}
    assert sorted(messages) == [number for number in range(1000) if number != 3]
    assert {message.partition for message in messages.values()} <= {0, 1, 2}
    for number, message in messages.items():
        assert message.key == b"k%d" % (number % 7)
        assert message.tag == ("even" if number % 2 == 0 else "")
        assert (message.id, message.headers) == (f"i{number}", {"h": b"%d" % number})
    assert len({(message.key, message.partition) for message in messages.values()}) == 7
    with warren.open(tmp_path / "store", keeps=False) as store:
        assert [each.message_id for each in store.topic("orders").scheduled()] == ["i3"]
    assert staged(tmp_path / "store") == []


def test_rows_that_were_read_are_written_and_json_encodes_columns(spark: SparkSession, tmp_path: Path) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("source", partitions=2).put_many([b"%d" % number for number in range(50)], tag="t", partition=1)
    options = {"path": str(tmp_path / "store"), "topics": "source", "includeHeaders": "true"}
    frame = spark.read.format("warren").options(**options).load()

    write(frame.drop("partition"), tmp_path / "store", topic="copy")
    write(
        frame.selectExpr("offset number", "tag", "cast(cast(value as string) as long) * 2 twice"),
        tmp_path / "store",
        valueFormat="json",
    )

    assert sorted(int(message.body) for message in written(tmp_path / "store", "copy")) == list(range(50))
    objects = [(json.loads(message.body), message.tag) for message in written(tmp_path / "store")]
    assert sorted(each["twice"] for each, _ in objects) == [2 * number for number in range(50)]
    assert all(each == {"number": each["twice"] // 2, "twice": each["twice"]} and tag == "t" for each, tag in objects)


@pytest.mark.parametrize(
    ("expression", "options", "mode", "reason"),
    [
        ("cast(id as string) value", {}, "overwrite", "mode('append')"),
        ("id value", {}, "append", "it is bigint; expected string or binary"),
        ("cast(id as string) value", {"topik": "x"}, "append", "did you mean 'topic'"),
        ("cast(id as string) value", {"txnAppId": "x"}, "append", "'txnVersion': it is missing"),
        ("cast(null as string) value", {}, "append", "a row for topic 'orders': its value is null"),
        ("repeat('x', 2000) value", {}, "append", "a row for topic 'orders': body of 2000 bytes"),
    ],
)
def test_a_failed_write_raises_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, expression: str, options: dict[str, str], mode: str, reason: str
) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("orders", message_size_max=1000)
    frame = spark.range(10).selectExpr(expression)

    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark has several for what happens in Python
        write(frame, tmp_path / "store", mode, **options)

    assert reason in str(caught.value)
    assert written(tmp_path / "store") == []
    assert staged(tmp_path / "store") == []


def test_a_stream_that_is_started_again_writes_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    with warren.open(store, keeps=False) as opened:
        opened.topic("source").put_many([b"%d" % number for number in range(100)])
    stream = spark.readStream.format("warren").options(
        path=str(store), topics="source", startingOffsets="earliest", maxOffsetsPerTrigger=20
    )

    def run() -> int:
        writer = stream.load().select("value").writeStream.format("warren").options(path=str(store), topic="orders")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S)
        return len(query.recentProgress)

    assert run() >= 5
    # As a driver does that dies after the sink committed and before Spark recorded it.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    with warren.open(store, keeps=False) as opened:
        opened.topic("source").put_many([b"%d" % number for number in range(100, 120)])
    assert run() >= 2

    assert [int(message.body) for message in written(store)] == list(range(120))
    assert staged(store) == []


def test_a_named_write_in_foreach_batch_happens_once(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with warren.open(store, keeps=False) as opened:
        opened.topic("source").put_many([b"%d" % number for number in range(10)])

    def write_twice(frame: DataFrame, batch: int) -> None:
        for topic in ("named", "audit", "named"):
            write(frame.select("value"), store, topic=topic, txnAppId="job", txnVersion=batch)
            write(frame.select("value"), store, topic="plain")

    stream = spark.readStream.format("warren").options(path=str(store), topics="source", startingOffsets="earliest")
    writer = stream.load().writeStream.foreachBatch(write_twice).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    assert query.awaitTermination(WAIT_S)

    assert [len(written(store, topic)) for topic in ("named", "audit", "plain")] == [10, 10, 30]


def test_two_queries_write_one_topic(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    queries = []
    for name in ("left", "right"):
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        rows = stream.selectExpr(f"concat('{name}:', value) value").writeStream.format("warren")
        place = {"path": str(store), "topic": "orders", "checkpointLocation": str(tmp_path / name)}
        queries.append(rows.options(**place).start())
    for query in queries:
        while len(query.recentProgress) < 4 and query.isActive:
            query.awaitTermination(1)
        query.stop()

    bodies = [message.body.decode() for message in written(store)]

    for name in ("left", "right"):
        numbers = sorted(int(body.partition(":")[2]) for body in bodies if body.startswith(name))
        assert len(numbers) >= 30
        assert numbers == list(range(len(numbers)))
