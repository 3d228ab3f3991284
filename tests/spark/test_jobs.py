"""The ready-made jobs on a real Spark: statistics, replay, compaction, dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warren.errors import BadInput
from warren.message import Message
from warren.spark.archive import archive, retire, verify
from warren.spark.jobs.compact import NotEmpty, compact
from warren.spark.jobs.dead_letters import redrive, summary
from warren.spark.jobs.replay import replay
from warren.spark.jobs.rewrite import TIME_HEADER
from warren.spark.jobs.selection import Selection
from warren.spark.jobs.stats import stats
from warren.transaction.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def all_of(store: Store, topic: str) -> list[Message]:
    return [message for log in store.existing_topic(topic).logs for message in log.read(0, limit=100_000)]


def carried(message: Message) -> tuple[object, ...]:
    """The fields that a user set."""
    return message.key, message.tag, message.id, dict(message.headers), message.body


def test_statistics_count_all_messages(spark: SparkSession, tmp_path: Path) -> None:
    with Store(tmp_path, keeps=False) as store:
        store.topic("orders", partitions=2).put_many([b"x" * 10] * 1000, tags=["eu", "us"] * 500)
        store.topic("orders").put(json.dumps({"made": "2020-01-01T00:00:00Z"}).encode())

    statistics = stats(spark, Selection(store=str(tmp_path), topics=["orders"]), window_us=10**16, latency="json:made")

    assert statistics.totals() == {"orders": 1001}
    assert statistics.windows[0].tags == {"eu": 500, "us": 500, "": 1}
    assert statistics.windows[0].latencies["p50"] > 365 * 86_400


def test_a_replay_puts_a_range_of_archive_and_log_once(spark: SparkSession, tmp_path: Path) -> None:
    place, directory = str(tmp_path / "s"), str(tmp_path / "a")
    with Store(place, keeps=False) as store:
        topic = store.topic("orders", block_size=8192)
        for turn in range(8):
            topic.put_many(
                [b'{"n": %d}' % (turn * 50 + row) for row in range(50)],
                keys=[b"k%d" % (row % 5) for row in range(50)],
                tags=["eu.de", "us"] * 25,
                ids=[f"id-{turn}-{row}" for row in range(50)],
                headers=[{"trace": b"%d" % row} for row in range(50)],
            )
            if turn == 4:
                archive(spark, place, directory)
                retire(place, verify(spark, directory, place))
        chosen = Selection(store=place, topics=["orders"], tag="eu.#", archive=directory)

        def run() -> tuple[int, bool]:
            done = replay(
                spark, chosen, "again", first=10, end=390, where="get_json_object(text, '$.n') % 4 = 0", name="once",
                keeps_times=True,
            )  # fmt: skip
            return done.messages, done.was_done

        first, second = run(), run()
        messages = all_of(store, "again")
        with pytest.raises(BadInput, match="the condition 'nonsense = 1' cannot be used"):
            replay(spark, chosen, "again", where="nonsense = 1")

        assert topic.partition(0).first > 0
        numbers = list(range(12, 390, 4))
        assert first == (len(numbers), False)
        assert second == (0, True)
        assert [message.body for message in messages] == [b'{"n": %d}' % number for number in numbers]
        newest = topic.partition(0).at(388)
        assert newest is not None
        key, tag, id, headers, body = carried(messages[-1])
        assert (key, tag, id, body) == (newest.key, newest.tag, newest.id, newest.body)
        assert headers == {**newest.headers, TIME_HEADER: b"%d" % newest.timestamp}


def test_compaction_keeps_the_latest_of_each_key_in_order(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path)
    with Store(place, keeps=False) as store:
        topic = store.topic("customers", partitions=3)
        for turn in range(4):
            topic.put_many([b"%d" % turn] * 20, keys=[b"k%02d" % row for row in range(20)], tag=f"t{turn}")
        topic.put(b"", key=b"k03")
        topic.put(b"no key", headers={"a": b"1"})
        topic.put(b"newest", key=b"k05", id="x")
        chosen = Selection(store=place, topics=["customers"])

        done = compact(spark, chosen, "now", partitions=1)
        again = compact(spark, chosen, "now")
        with pytest.raises(NotEmpty):
            compact(spark, Selection(store=place, topics=["now"]), "customers")
        messages = all_of(store, "now")

    assert (done.messages, again.was_done) == (20, True)
    assert carried(messages[-1]) == (b"k05", "", "x", {}, b"newest")
    assert carried(messages[-2]) == (None, "", "", {"a": b"1"}, b"no key")
    latest = {message.key: message.body for message in messages[:-2]}
    assert latest == {b"k%02d" % row: b"3" for row in range(20) if row not in (3, 5)}


def test_dead_letters_are_counted_by_reason_and_put_back_by_condition(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path)
    with Store(place, keeps=False) as store:
        topic = store.topic("orders")
        topic.put_many([b"%d" % number for number in range(10)])
        with topic.group("packers", mode="queue", attempts_max=1) as group:
            for message in group.take(10):
                group.nack(message, reason="timeout" if message.number % 2 else "no stock")

        before = summary(spark, place)
        done = redrive(spark, place, "orders", "reason = 'timeout' and cast(text as int) > 4")
        again = redrive(spark, place, "orders", "reason = 'timeout' and cast(text as int) > 4")
        after = summary(spark, place, ["orders"], where="group = 'packers'")
        bodies = [message.body for message in topic.partition(0).read(10)]

    assert [(row.reason, row.letters, row.group) for row in before] == [
        ("no stock", 5, "packers"),
        ("timeout", 5, "packers"),
    ]
    assert (done, again) == ({"packers": 3}, {})
    assert [(row.reason, row.letters) for row in after] == [("no stock", 5), ("timeout", 2)]
    assert bodies == [b"5", b"7", b"9"]
