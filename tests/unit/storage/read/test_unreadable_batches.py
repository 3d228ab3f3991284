"""A batch with a right checksum and unreadable records is skipped by every reader, and is never called damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import warren
from tests.support.broken_batches import broken_batch, same_delta_batch, with_records
from tests.support.kafka_batches import batch_of
from warren.cli.main import app
from warren.errors import CorruptRecord
from warren.queue.topic import Topic
from warren.storage import Log
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.kafka_columns import KafkaColumns
from warren.storage.format.layout import KAFKA_BATCH_HEAD
from warren.storage.format.record import Unreadable

BROKEN = {
    "random bytes": broken_batch(),
    "all of delta 0": same_delta_batch(),
    "zstd that does not unpack": broken_batch(compression=4),
    "many": broken_batch(20_000),
}
GOOD = batch_of([(b"key", b"good", [("warren.tag", b"red")])])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[warren.Store]:
    with warren.open(tmp_path / "data", durability="os") as opened:
        yield opened


@pytest.fixture(params=BROKEN)
def topic(store: warren.Store, request: pytest.FixtureRequest) -> Topic:
    """A topic with a good message, a broken batch, and two good messages."""
    topic = store.topic("orders")
    put(topic, GOOD, BROKEN[request.param], GOOD)
    topic.put(b"plain", tag="red")
    return topic


def put(topic: Topic, *batches: bytes) -> None:
    for batch in batches:
        topic.partition(0).append_packed([pack_kafka(batch)])


def expected(log: Log) -> list[int]:
    return [0, log.end - 2, log.end - 1]


def numbers(messages: Any) -> list[int]:
    return [message.number for message in messages]


def test_reads_by_number_skip_an_unreadable_batch(topic: Topic) -> None:
    log = topic.partition(0)

    assert numbers(log.read(0)) == expected(log)
    assert numbers(log.read(1, limit=1)) == [log.end - 2]
    assert numbers(log.read(0, tag="red")) == expected(log)
    assert numbers(log.backwards()) == expected(log)[::-1]
    assert log.at(2) is None
    assert [log.at(number) is not None for number in expected(log)] == [True] * 3
    assert log.inspect().passed_over > 0
    assert numbers(topic.since(0)) == expected(log)


@pytest.mark.parametrize("options", [{}, {"tag": "red"}, {"tag": "red", "skips": True}, {"rows_min": 1}])
def test_scans_skip_an_unreadable_batch(topic: Topic, options: dict[str, Any]) -> None:
    log = topic.partition(0)

    scanned = [number for batch in log.scan(**options) for number in batch.column("number").to_pylist()]

    assert scanned == expected(log)
    assert log.inspect().passed_over == 1


def test_a_stream_group_skips_an_unreadable_batch_and_commits_past_it(topic: Topic) -> None:
    end = topic.partition(0).end
    with topic.group("g") as group:
        first = group.read(limit=1)
        second = group.read(limit=1)
        committed = group.commit()
        third = group.read()

        assert numbers(first + second + third) == expected(topic.partition(0))
        assert (committed, group.commit(), group.lag()) == ({0: end - 1}, {0: end}, {0: 0})


def test_a_stream_group_commits_past_an_unreadable_last_batch(store: warren.Store) -> None:
    topic = store.topic("orders")
    put(topic, GOOD, broken_batch())
    with topic.group("g") as group:
        first, nothing = group.read(), group.read()

        assert (numbers(first), nothing) == ([0], [])
        assert group.commit() == {0: 4}
        assert group.lag() == {0: 0}


@pytest.mark.parametrize("options", [{}, {"tag": "red"}, {"ordered_by_key": True}])
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_queue_group_settles_the_numbers_of_an_unreadable_batch(
    topic: Topic, limit: int, options: dict[str, Any]
) -> None:
    with topic.group("g", mode="queue", **options) as group:
        all_messages = []
        while messages := group.take(limit):
            all_messages += messages
            group.ack_many(messages)

        assert sorted(numbers(all_messages)) == expected(topic.partition(0))
        assert (group.lag(), group.in_flight()) == ({0: 0}, 0)


def test_a_broadcast_skips_an_unreadable_batch(topic: Topic) -> None:
    delivered = numbers(topic.broadcast(start=warren.storage.START, wait=0.0))

    assert delivered == expected(topic.partition(0))


def test_a_verification_reports_an_unreadable_batch_and_calls_the_log_whole(topic: Topic) -> None:
    log = topic.partition(0)

    report = log.verify()

    [batch] = report.unreadable
    assert (report.unreadable_count, report.messages) == (1, log.end)
    assert (batch.number, batch.number + batch.message_count) == (1, log.end - 2)


def test_warren_log_verify_reports_an_unreadable_batch_and_succeeds(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        put(store.topic("orders"), GOOD, broken_batch())
    path = str(tmp_path / "data/topics/orders/0")

    text = CliRunner().invoke(app, ["log", "verify", path], env={"COLUMNS": "300"})
    json_text = CliRunner().invoke(app, ["log", "verify", path, "--json"])

    assert (text.exit_code, json_text.exit_code) == (0, 0)
    assert "unreadable records put by a client: 1 batch" in text.output
    assert "messages 1 to 3" in text.output
    report = json.loads(json_text.stdout)
    assert (report["is_whole"], report["unreadable_count"], report["unreadable"][0]["number"]) == (True, 1, 1)


def test_dead_letters_around_an_unreadable_batch_are_put_back(store: warren.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"0", b"1"])
    with topic.group("g", mode="queue") as group:
        for place, message in enumerate(group.take(2)):
            group.reject(message)
            if not place:
                put(store.topic(group.dead.name), broken_batch(1500))

        assert group.redrive() == 2
        assert sorted(message.body for message in group.take(10)) == [b"0", b"1"]


def test_a_flipped_bit_in_an_unreadable_batch_is_damage(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        put(store.topic("orders"), GOOD, broken_batch())
    (block,) = (tmp_path / "data").glob("topics/orders/0/*.block")
    data = bytearray(block.read_bytes())
    at = data.index(broken_batch()[KAFKA_BATCH_HEAD.size :])
    data[at] ^= 1
    block.write_bytes(data)

    with warren.open(tmp_path / "data") as store, pytest.raises(CorruptRecord):
        store.topic("orders").partition(0).read(1)


@given(st.data())
def test_any_records_that_a_client_packs_are_read_or_skipped(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 60]))
    rows = [(b"key", b"value", [("warren.tag", b"red"), ("warren.id", b"one")])] * count
    records = bytearray(batch_of(rows)[KAFKA_BATCH_HEAD.size :])
    for _ in range(data.draw(st.integers(1, 3))):
        records[data.draw(st.integers(0, len(records) - 1))] = data.draw(st.integers(0, 255))
    compression = data.draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
    batch = with_records(count, bytes(records), compression=compression)

    try:
        columns = KafkaColumns(batch, count)
    except Unreadable:
        return

    assert columns.count == count
