"""The sink of format "warren": tasks stage, the driver commits, and a batch is written once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.spark.writes import Query, bodies, stored_messages, stores_closed_after, waiting
from warren.errors import BadOption, BadRow, CorruptRecord, NotAStore, NotWrittenYet, StorageFull
from warren.spark.store_access.files import FileAccess
from warren.spark.store_access.store_cache import process_stores
from warren.spark.write.sink import batch_writer, stream_writer
from warren.spark.write.staging import BatchName, WriteTask, joined
from warren.storage import Log
from warren.transaction.transaction import Transaction


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with stores_closed_after():
        yield
        process_stores().close()


def query(monkeypatch: pytest.MonkeyPatch, path: Path, schema: str = "value string", **options: Any) -> Query:
    return Query(monkeypatch, path, schema, **{"topic": "orders", **options})


# --- A batch query ---


def test_rows_of_all_tasks_are_in_the_topic_after_the_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path, "value string, key string, tag string, id string", partitions=3)
    writer = writing.batch_writer()

    messages = [
        writing.run(writer, [("a", "k1", "eu.de", "1"), ("b", "k2", None, None)]),
        writing.run(writer, [("c", "k1", "", "3")]),
        writing.run(writer, []),
    ]
    assert bodies(tmp_path) == []
    assert len(waiting(tmp_path)) == 2
    writer.commit(messages)

    there = {message.body: message for message in stored_messages(tmp_path)}
    assert sorted(there) == [b"a", b"b", b"c"]
    assert (there[b"a"].key, there[b"a"].tag, there[b"a"].id) == (b"k1", "eu.de", "1")
    assert (there[b"b"].key, there[b"b"].tag, there[b"b"].id) == (b"k2", "", "")
    assert there[b"a"].partition == there[b"c"].partition
    assert waiting(tmp_path) == []


def test_without_an_id_each_write_counts_as_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)

    for _ in range(3):
        writing.write([("a",)])

    assert bodies(tmp_path) == [b"a"] * 3


def test_a_named_batch_is_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in (0, 1, 1, 0, 2):
        query(monkeypatch, tmp_path, txnAppId="job", txnVersion=version).write([(f"{version}",)])

    assert bodies(tmp_path) == [b"0", b"1", b"2"]
    assert waiting(tmp_path) == []


def test_one_name_may_be_used_for_each_topic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for topic in ("orders", "audit", "orders"):
        query(monkeypatch, tmp_path, topic=topic, txnAppId="job", txnVersion=7).write([("a",)])
    query(monkeypatch, tmp_path, "topic string, value string", topic=None, txnAppId="job", txnVersion=7).write(
        [("orders", "b")]
    )

    assert bodies(tmp_path) == [b"a", b"b"]
    assert bodies(tmp_path, "audit") == [b"a"]


def test_in_foreach_batch_two_writes_are_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)

    for body in ("a", "b"):
        writer = writing.batch_writer()
        writer.commit([writing.run(writer, [(body,)], query="query-1", batch=3)])

    assert bodies(tmp_path) == [b"a", b"b"]


def test_a_query_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.batch_writer()
    staged = writing.run(writer, [("a",)])
    # A second attempt of the same task, whose answer came too late for Spark.
    writing.run(writer, [("a",)])

    writer.abort([staged, None])

    assert bodies(tmp_path) == []
    assert waiting(tmp_path) == []


def test_files_of_failed_attempts_are_removed_by_the_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.batch_writer()
    writing.run(writer, [("lost",)])

    writer.commit([writing.run(writer, [("kept",)])])

    assert bodies(tmp_path) == [b"kept"]
    assert waiting(tmp_path) == []


# --- A stream ---


def test_a_micro_batch_is_written_once_even_if_it_runs_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)

    for batch in (0, 1, 1, 2, 2, 2, 3):
        writing.write_batch(batch, [(f"{batch}-a",)], [(f"{batch}-b",)])

    assert sorted(bodies(tmp_path)) == sorted(b"%d-%c" % (batch, part) for batch in range(4) for part in b"ab")
    assert waiting(tmp_path) == []


def test_a_driver_that_dies_before_the_commit_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writing = query(monkeypatch, tmp_path)
    writing.write_batch(0, [("0",)])
    dying = writing.stream_writer()
    writing.run(dying, [("1",)], "query-1", 1)
    assert len(waiting(tmp_path)) == 1

    writing.write_batch(1, [("1",)])

    assert bodies(tmp_path) == [b"0", b"1"]
    assert waiting(tmp_path) == []


def test_staged_rows_of_later_batches_and_other_queries_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writing = query(monkeypatch, tmp_path)
    other, later = writing.stream_writer(), writing.stream_writer()
    of_other = writing.run(other, [("other",)], "query-2", 0)
    of_later = writing.run(later, [("later",)], "query-1", 5)

    writing.write_batch(0, [("0",)])
    other.commit([of_other], 0)
    later.commit([of_later], 5)

    assert bodies(tmp_path) == [b"0", b"other", b"later"]


def test_two_queries_write_one_topic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    first, second = writing.stream_writer(), writing.stream_writer()
    messages = [writing.run(first, [("1",)], "query-1", 0), writing.run(second, [("2",)], "query-2", 0)]

    second.commit(messages[1:], 0)
    first.commit(messages[:1], 0)

    assert bodies(tmp_path) == [b"2", b"1"]


def test_a_micro_batch_without_rows_needs_no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.stream_writer()

    writer.commit([writing.run(writer, [], "query-1", 0), writing.run(writer, [], "query-1", 0)], 0)
    writer.commit([], 1)

    assert not (tmp_path / "store" / "transactions").exists()


def test_a_stream_that_is_aborted_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.stream_writer()
    staged = writing.run(writer, [("a",)], "query-1", 4)

    writer.abort([None, staged], 4)
    writer.abort([None], 4)

    assert waiting(tmp_path) == []
    assert bodies(tmp_path) == []


def test_a_stream_that_spark_does_not_name_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)

    with pytest.raises(BadOption, match="name the query and batch"):
        writing.run(writing.stream_writer(), [("a",)])


# --- Failures ---


@pytest.mark.parametrize(
    ("schema", "row", "reason"),
    [
        ("value string", (None,), "'orders': its value is null"),
        ("value string", ("x" * 101,), "'orders': body of 101 bytes"),
        ("value string, tag string", ("x", "t" * 129), "'orders': tag of 129 bytes"),
        ("value string, id string", ("x", "i" * 41), "'orders': id of 41 bytes"),
        ("value string, partition int", ("x", 4), "'orders': .*partition 4"),
        ("value string, partition int", ("x", -1), "'orders': .*partition -"),
        ("value string, headers map<string,binary>", ("x", [("n" * 300, b"")]), "'orders': header name of 300 bytes"),
    ],
)
def test_a_row_that_cannot_be_taken_fails_its_task_and_names_the_topic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, schema: str, row: tuple[Any, ...], reason: str
) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("orders", partitions=2, message_size_max=100)
    writing = query(monkeypatch, tmp_path, schema)
    good = ("good", *([None] * (len(row) - 1)))

    with pytest.raises(BadRow, match=reason):
        writing.write([good, row])

    assert bodies(tmp_path) == []
    assert waiting(tmp_path) == []


def test_a_topic_in_a_column_is_named_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path, "topic string, value string", topic=None)

    with pytest.raises(BadRow, match="'second': its value is null"):
        writing.write([("first", "a"), ("second", None)])
    with pytest.raises(BadRow, match="its topic is null"):
        writing.write([("first", "a"), (None, "b")])
    with pytest.raises(BadRow, match=r"topic name '\.\./x'"):
        writing.write([("first", "a"), ("../x", "b")])

    assert bodies(tmp_path, "first") == []


def test_overwriting_is_refused_when_the_query_is_planned(tmp_path: Path) -> None:
    writing = Query(pytest.MonkeyPatch(), tmp_path, "value string", topic="orders")

    with pytest.raises(BadOption, match=r"mode\('append'\)"):
        batch_writer(writing.schema, writing.options, True)
    with pytest.raises(BadOption, match="append, or foreachBatch for update"):
        stream_writer(writing.schema, writing.options, True)
    assert not (tmp_path / "store").exists()


def test_a_full_disk_under_a_task_is_named_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writing.write([("before",)])

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(StorageFull, match="no room on the disk"):
            writing.write([("lost" * 50_000,)])
    writing.write([("after",)])

    assert bodies(tmp_path) == [b"before", b"after"]
    assert waiting(tmp_path) == []


def test_a_disk_that_is_full_at_the_commit_loses_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.stream_writer()
    staged = writing.run(writer, [("a",)], "query-1", 0)

    def full(*arguments: object) -> None:
        raise StorageFull(str(tmp_path), 4096)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "append_packed", full)
        with pytest.raises(NotWrittenYet, match="no room on the disk"):
            writer.commit([staged], 0)
    # A restarted query runs the batch again, and it is written once.
    writing.write_batch(0, [("a",)])
    writing.write_batch(1, [("b",)])

    assert bodies(tmp_path) == [b"a", b"b"]


def test_a_task_that_is_killed_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.stream_writer()

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "prepare", _killed)
        with pytest.raises(KeyboardInterrupt):
            writing.run(writer, [("a",)], "query-1", 0)

    assert waiting(tmp_path) == []
    writing.write_batch(0, [("a",)])
    assert bodies(tmp_path) == [b"a"]


def _killed(transaction: object) -> None:
    raise KeyboardInterrupt


# --- The place of the store ---


def test_a_worker_that_does_not_see_the_store_names_its_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.batch_writer()
    shutil.rmtree(tmp_path / "store")

    with pytest.raises(NotAStore, match="on the host"):
        writing.run(writer, [("a",)])
    warren.open(tmp_path / "store", keeps=False).close()
    with pytest.raises(NotAStore, match="another store than on the driver"):
        writing.run(writer, [("a",)])


def test_a_process_keeps_its_stores_open_and_sees_when_they_are_replaced(tmp_path: Path) -> None:
    ids = {}
    for number in range(6):
        with warren.open(tmp_path / f"{number}", keeps=False) as store:
            ids[number] = store.id
    stores = [FileAccess(str(tmp_path / f"{number}")).store(ids[number]) for number in range(6)]

    assert FileAccess(str(tmp_path / "5")).store(ids[5]) is stores[5]
    assert [store.is_closed for store in stores] == [True, True, False, False, False, False]
    FileAccess(str(tmp_path / "5")).drop()
    assert stores[5].is_closed
    assert FileAccess(str(tmp_path / "5")).store(ids[5]) is not stores[5]
    shutil.rmtree(tmp_path / "4")
    with warren.open(tmp_path / "4", keeps=False) as store:
        replaced = store.id
    assert FileAccess(str(tmp_path / "4")).store(replaced).id == replaced
    assert stores[4].is_closed
    process_stores().close()
    assert stores[3].is_closed


def test_a_store_that_cannot_be_closed_does_not_block_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        id = store.id
    open_store = FileAccess(str(tmp_path / "store")).store(id)

    def close() -> None:
        raise CorruptRecord(open_store.path, 0, "the block is missing")

    monkeypatch.setattr(open_store, "close", close)
    shutil.rmtree(tmp_path / "store")
    with warren.open(tmp_path / "store", keeps=False) as store:
        replaced = store.id

    assert FileAccess(str(tmp_path / "store")).store(replaced).id == replaced
    process_stores().close()


def test_an_existing_topic_keeps_its_partitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("orders", partitions=2)

    query(monkeypatch, tmp_path, partitions=5).write([("a",)])
    query(monkeypatch, tmp_path, topic="new", partitions=5).write([("a",)])

    with warren.open(tmp_path / "store", keeps=False) as store:
        assert store.topic("orders").partition_count == 2
        assert store.topic("new").partition_count == 5


def test_a_topic_may_change_while_its_stream_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path, "value string, partition int")
    writing.write_batch(0, [("0", 0)])

    with warren.open(tmp_path / "store", keeps=False) as store:
        store.topic("orders").configure(partitions=2, message_size_max=10)
    writing.write_batch(1, [("1", 1)])
    with pytest.raises(BadRow, match="body of 11 bytes"):
        writing.write_batch(2, [("x" * 11, 1)])
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.delete_topic("orders")
    writing.write_batch(2, [("2", 0)])

    assert bodies(tmp_path) == [b"2"]


def test_staged_rows_of_a_deleted_topic_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writing = query(monkeypatch, tmp_path)
    writer = writing.stream_writer()
    staged = writing.run(writer, [("a",)], "query-1", 0)
    with warren.open(tmp_path / "store", keeps=False) as store:
        store.delete_topic("orders")

    writer.commit([staged], 0)

    assert bodies(tmp_path) == []
    assert waiting(tmp_path) == []


# --- Names ---


def test_ids_sort_by_version_within_an_application() -> None:
    task = WriteTask(query=None, batch=None, name="0-1")
    names = [BatchName(application="a", version=version, run="r") for version in (0, 9, 10, 2**63 - 1)]

    ids = [name.id(task) for name in names]

    assert ids == sorted(ids)
    assert all(id.startswith(names[0].prefix) and id < name.end for id, name in zip(ids, names, strict=True))
    assert all(len(id) <= 150 for id in ids)
    assert names[0].prefix != BatchName(application="b", version=0, run="r").prefix
    assert (
        BatchName(application=None, version=0, run="r").prefix != BatchName(application=None, version=0, run="s").prefix
    )


def test_small_batches_are_put_together() -> None:
    import pyarrow as pa

    small, large = pa.record_batch({"body": [b"x"] * 1000}), pa.record_batch({"body": [bytes(5 << 20)]})

    sizes = [batch.num_rows for batch in joined([small[:0], *[small] * 100, large, small])]

    assert sizes == [65_000, 35_000, 1, 1000]
