"""Arrow batches in transactions: they wait in the journal as the records that their logs store, and reach them
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import Killed, bodies, die, journal_size, kill_at, messages, open_store
from warren.errors import BadInput, NoSuchPartition, TooLarge, TransactionAborted
from warren.storage.arrow.arrays import HEADERS
from warren.storage.arrow.arrow_packing import ArrowColumns
from warren.storage.format.packing import pack_columns
from warren.transaction import apply, arrow_routing
from warren.transaction.arrow_routing import key_hashes
from warren.transaction.store import Store


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def rows(*bodies: bytes, **columns: Any) -> pa.RecordBatch:
    arrays = {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    return pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary()), *arrays.values()], ["body", *arrays])


def everything(count: int) -> pa.RecordBatch:
    return rows(
        *(b"%d" % row for row in range(count)),
        key=pa.array([None if row % 5 == 0 else b"k%d" % (row % 3) for row in range(count)], pa.binary()),
        tag=[("a", "b", None)[row % 3] for row in range(count)],
        id=[f"i{row}" for row in range(count)],
        headers=pa.array([[("h", b"%d" % row)] if row % 2 else None for row in range(count)], HEADERS),
        corr_offset=pa.array([row if row % 4 else None for row in range(count)], pa.int64()),
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_every_row_is_put_with_all_its_fields(store: Store, version: int, compression: str) -> None:
    if version == 1:
        store.topic("orders", version=1)
        batch = everything(50).drop_columns(["key", "headers"])
    else:
        store.topic("orders", compression=compression)
        batch = everything(50)

    with store.transaction() as tx:
        tx.put_columns("orders", batch)
        assert bodies(store, "orders") == []

    stored = messages(store, "orders")
    assert [message.body for message in stored] == [b"%d" % row for row in range(50)]
    assert [message.tag for message in stored] == [("a", "b", "")[row % 3] for row in range(50)]
    assert [message.id for message in stored] == [f"i{row}" for row in range(50)]
    assert [message.corr_offset for message in stored] == [row if row % 4 else -1 for row in range(50)]
    if version == 2:
        assert [message.key for message in stored] == [
            None if row % 5 == 0 else b"k%d" % (row % 3) for row in range(50)
        ]
        assert [dict(m.headers) for m in stored] == [{"h": b"%d" % row} if row % 2 else {} for row in range(50)]


def test_rows_go_to_the_partitions_of_their_keys(store: Store) -> None:
    topic = store.topic("orders", partitions=4)
    keys = [b"key-%d" % (row % 40) for row in range(200)] + [None] * 10
    batch = rows(*(b"%d" % row for row in range(210)), key=pa.array(keys, pa.binary()))

    with store.transaction() as tx:
        tx.put_columns("orders", batch)

    places = {message.body: (partition, message) for partition, log in enumerate(topic.logs) for message in log.read(0)}
    assert len(places) == 210
    for row, key in enumerate(keys):
        partition, message = places[b"%d" % row]
        assert message.key == key
        assert key is None or partition == crc32(key) % 4
    assert len({places[b"%d" % row][0] for row in range(200, 210)}) == 1
    for log in topic.logs:
        numbers = [int(message.body) for message in log.read(0)]
        assert numbers == sorted(numbers)


def test_batches_without_keys_go_to_the_partitions_in_turn(store: Store) -> None:
    topic = store.topic("orders", partitions=3)

    with store.transaction() as tx:
        for number in range(6):
            tx.put_columns("orders", rows(b"%d" % number, b"again"))
        tx.put_columns("orders", rows(b"here", key=[b"k"]), partition=2)

    assert [log.end for log in topic.logs] == [4, 4, 5]
    assert topic.logs[2].last()[0].body == b"here"


@pytest.mark.parametrize("size", [0, 1, 5, 64, 65, 300])
def test_the_hash_of_a_key_is_that_of_routing(size: int) -> None:
    random = np.random.default_rng(size)
    keys = [random.bytes(int(random.integers(0, size + 1))) for _ in range(100)] + [bytes(size)]
    pieces = ArrowColumns(rows(*[b""] * 103, key=pa.array([None, b"x", *keys], pa.binary()))).keys
    assert pieces is not None

    assert key_hashes(pieces).tolist()[2:] == list(map(crc32, keys))


def test_earlier_puts_come_first(store: Store) -> None:
    with store.transaction() as tx:
        tx.put("orders", b"1")
        tx.put_columns("orders", rows(b"2", b"3"))
        tx.put("orders", b"4")
        tx.put_columns("orders", rows(b"5"))

    assert bodies(store, "orders") == [b"1", b"2", b"3", b"4", b"5"]


def test_an_empty_batch_changes_nothing(store: Store) -> None:
    with store.transaction() as tx:
        tx.put_columns("orders", rows())

    assert bodies(store, "orders") == []


def test_a_batch_that_is_refused_changes_nothing(store: Store) -> None:
    store.topic("orders", partitions=4, message_size_max=100)
    with store.transaction() as tx:
        tx.put_columns("orders", rows(b"good"))

        with pytest.raises(TooLarge, match="body of 101 bytes"):
            tx.put_columns("orders", rows(b"fits", bytes(101), key=[b"1", b"2"]))
        with pytest.raises(TooLarge, match="tag"):
            tx.put_columns(
                "orders", rows(*[b""] * 8, key=[b"%d" % row for row in range(8)], tag=["t"] * 7 + ["t" * 129])
            )
        with pytest.raises(BadInput, match="there is no 'value'"):
            tx.put_columns("orders", rows(value=pa.array([], pa.binary())))
        with pytest.raises(NoSuchPartition):
            tx.put_columns("orders", rows(b"x"), partition=4)

    assert bodies(store, "orders") == [b"good"]


def test_a_message_that_fits_no_block_is_refused(store: Store) -> None:
    store.topic("small", block_size=4 << 10)

    with store.transaction() as tx:
        with pytest.raises(TooLarge, match="message of"):
            tx.put_columns("small", rows(bytes(5000)))
        tx.put_columns("small", rows(*[bytes(1000)] * 20))

    assert len(bodies(store, "small")) == 20


def test_staged_messages_are_not_kept_in_memory(store: Store) -> None:
    tx = store.transaction()

    tx.put_columns("orders", rows(*[bytes(1000)] * 1000))

    assert tx.size == 0
    assert journal_size(store) > 1_000_000
    tx.abort()
    with pytest.raises(TransactionAborted):
        tx.put_columns("orders", rows(b"late"))
    assert bodies(store, "orders") == []


def test_rows_are_packed_once_for_journal_and_log(store: Store) -> None:
    store.topic("orders")

    with patch("warren.storage.format.packing.pack_columns", side_effect=pack_columns) as packing:
        with store.transaction(id="named") as tx:
            tx.put_many("orders", [b"%d" % row for row in range(100)])
        rows_packed = [len(call.args[0].bodies) for call in packing.call_args_list]

    assert rows_packed.count(100) == 1
    assert len(bodies(store, "orders")) == 100


# --- Finished by another process ---


def test_staged_rows_survive_the_process_that_staged_them(tmp_path: Path, clock: SimulatedClock) -> None:
    victim = open_store(tmp_path, clock)
    victim.topic("orders", partitions=2)
    tx = victim.transaction(id="staged")
    tx.put_columns("orders", everything(100))
    tx.prepare()
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        assert bodies(survivor, "orders") == []
        assert survivor.commit("staged") == "done"
        assert sorted(map(int, bodies(survivor, "orders"))) == list(range(100))


@pytest.mark.parametrize("survives", [1, 2, 3])
def test_a_piece_that_was_appended_in_part_is_completed(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    monkeypatch.setattr(apply, "APPEND_SIZE_TARGET", 1)
    victim = open_store(tmp_path, clock)
    victim.topic("orders", block_size=8 << 10)
    tx = victim.transaction(id="staged")
    piece = [b"%d:" % row + bytes(1000) for row in range(20)]
    tx.put_columns("orders", rows(*piece))
    tx.put_columns("orders", rows(b"last"))
    tx.prepare()
    log = victim.topic("orders").logs[0]
    append = log.append_packed
    calls: list[Any] = []

    def appending_until_killed(records: Any) -> Any:
        if len(calls) == survives:
            raise Killed
        calls.append(records)
        return append(records)

    with monkeypatch.context() as patched:
        patched.setattr(log, "append_packed", appending_until_killed)
        with pytest.raises(Killed):
            victim.commit("staged")
    there = len(bodies(victim, "orders"))
    assert 0 < there < 20
    victim.topic("orders").put(b"other")
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        stored = bodies(survivor, "orders")

    assert stored == [*piece[:there], b"other", *piece[there:], b"last"]


def test_a_topic_with_smaller_blocks_accepts_records_packed_for_large_ones(store: Store) -> None:
    store.topic("orders")
    tx = store.transaction(id="staged")
    large = [b"%d:" % row + bytes(1000) for row in range(20)]
    tx.put_columns("orders", rows(*large))
    tx.prepare()
    store.topic("orders").configure(block_size=8 << 10)

    assert store.commit("staged") == "done"

    assert bodies(store, "orders") == large


def test_a_damaged_journal_puts_nothing_wrong_into_a_topic(
    tmp_path: Path, clock: SimulatedClock, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(tmp_path, clock) as store:
        tx = store.transaction(id="staged")
        tx.put_columns("orders", rows(b"damaged!" * 10))
        tx.prepare()
    (block,) = (tmp_path / "store" / "transactions" / "journal").glob("*.block")
    data = bytearray(block.read_bytes())
    data[data.index(b"damaged!")] ^= 1
    block.write_bytes(data)

    with open_store(tmp_path, clock) as store:
        assert store.commit("staged") == "committed"
        assert "damaged at byte" in caplog.text
        assert bodies(store, "orders") == []


def test_others_see_the_events_between_the_rows(tmp_path: Path, clock: SimulatedClock, store: Store) -> None:
    with open_store(tmp_path, clock) as other:
        tx = store.transaction(id="first")
        tx.put_columns("orders", rows(b"1"))
        tx.prepare()
        tx = store.transaction(id="second")
        tx.put_columns("orders", rows(b"2"))

        assert [prepared.id for prepared in other.recover()] == ["first"]
        assert other.commit("first") == "done"
        tx.prepare()
        assert other.commit("second") == "done"
        assert bodies(other, "orders") == [b"1", b"2"]


def test_a_task_that_is_killed_while_it_stages_leaves_nothing(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = open_store(tmp_path, clock)
    tx = victim.transaction(id="staged")
    tx.put_columns("orders", rows(b"1"))
    with monkeypatch.context() as patched:
        kill_at(patched, arrow_routing, "batches_by_partition")
        with pytest.raises(Killed):
            tx.put_columns("orders", rows(b"2"))
    die(victim)

    with open_store(tmp_path, clock) as survivor:
        assert survivor.recover() == []
        assert bodies(survivor, "orders") == []
        survivor.transaction(id="staged").abort()
