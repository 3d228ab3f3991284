"""Producers: a put that is repeated after an unknown outcome is written once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import PowerCut, SimulatedFileSystem
from tests.support.store.transaction_stores import Killed, bodies, die, kill_at, messages, open_store
from warren.errors import (
    BadInput,
    BadName,
    NoSuchPartition,
    NoSuchTopic,
    ProducerBusy,
    ProducerClosed,
    SequenceGap,
    StoreClosed,
    TooLarge,
    UnsupportedByVersion,
)
from warren.message import Place
from warren.transaction import producer as producer_module
from warren.transaction.producer import SEQUENCE_MAX, Content, NumberedPut, Producer
from warren.transaction.store import Store

VERSIONS = [1, 2]


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


@pytest.fixture
def other(tmp_path: Path, clock: SimulatedClock, store: Store) -> Iterator[Store]:
    with open_store(tmp_path, clock) as other:
        yield other


@pytest.mark.parametrize("version", VERSIONS)
def test_puts_are_numbered_over_all_topics_and_give_receipts(store: Store, version: int) -> None:
    store.topic("orders", version=version)
    producer = store.producer("loader-1")
    assert producer.sequence == 0

    first = producer.put("orders", b"1", tag="t")
    second = producer.put(store.topic("audit"), b"2", key=b"k", headers={"h": b"v"}, corr_offset=7)
    third = producer.put_many("orders", [b"3", b"4"], tags=["a", "b"])

    assert first is not None
    assert (first.topic, first.partition, first.number, first.timestamp) == (
        "orders",
        0,
        0,
        store.clock.now_ns() // 1000,
    )
    assert second is not None
    assert second.topic == "audit"
    assert third == [Place(0, 1), Place(0, 2)]
    assert producer.sequence == 3
    assert [(m.body, m.tag) for m in messages(store, "orders")] == [(b"1", "t"), (b"3", "a"), (b"4", "b")]
    (audit,) = messages(store, "audit")
    assert (audit.key, audit.headers, audit.corr_offset) == (b"k", {"h": b"v"}, 7)


def test_a_number_that_was_written_writes_nothing(store: Store) -> None:
    producer = store.producer("loader-1")
    assert producer.put("orders", b"1", sequence=1) is not None

    assert producer.put("orders", b"1", sequence=1) is None
    assert producer.put_many("orders", [b"1"], sequence=1) is None

    assert producer.put("orders", b"2", sequence=2) is not None
    assert producer.put("orders", b"1", sequence=1) is None
    assert bodies(store, "orders") == [b"1", b"2"]


def test_a_number_that_leaves_a_gap_is_refused(store: Store) -> None:
    producer = store.producer("loader-1")
    producer.put("orders", b"1")

    with pytest.raises(SequenceGap) as raised:
        producer.put("orders", b"3", sequence=3)

    assert (raised.value.producer, raised.value.sequence, raised.value.expected) == ("loader-1", 3, 2)
    assert bodies(store, "orders") == [b"1"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_killed", [True, False])
def test_the_last_number_is_known_after_closing_and_after_a_kill(
    tmp_path: Path, clock: SimulatedClock, version: int, is_killed: bool
) -> None:
    store = open_store(tmp_path, clock)
    store.topic("orders", version=version, partitions=3)
    producer = store.producer("loader-1")
    for number in range(10):
        producer.put("orders", b"%d" % number)
        producer.put("audit", b"%d" % number)
    if is_killed:
        die(store)
        assert producer._lock is not None
        producer._lock.close()
    else:
        producer.close()

    with open_store(tmp_path, clock) as later, later.producer("loader-1") as again:
        assert again.sequence == 20
        assert again.put("orders", b"9", sequence=19) is None
        assert again.put("orders", b"new") is not None
        assert again.sequence == 21
        assert len(bodies(later, "orders")) == 11
    if not is_killed:
        store.close()


def test_a_producer_is_open_once(store: Store, other: Store) -> None:
    first = store.producer("loader-1")
    for opening in (store, other):
        with pytest.raises(ProducerBusy):
            opening.producer("loader-1")
    with other.producer("loader-2") as another:
        another.put("orders", b"2")

    first.put("orders", b"1")
    first.close()
    first.close()

    with other.producer("loader-1") as again:
        assert again.sequence == 1
    with pytest.raises(ProducerClosed):
        first.put("orders", b"late")
    with pytest.raises(ProducerClosed):
        _ = first.sequence


def test_a_store_that_closes_closes_its_producers(tmp_path: Path, clock: SimulatedClock, other: Store) -> None:
    store = open_store(tmp_path, clock)
    producer = store.producer("loader-1")
    producer.put("orders", b"1")
    store.close()

    assert other.producer("loader-1").sequence == 1
    with pytest.raises(StoreClosed):
        producer.put("orders", b"2")
    with pytest.raises(StoreClosed):
        store.producer("loader-1")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_put_of_unknown_outcome_is_found_and_not_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    topic = store.topic("orders", version=version)
    producer = store.producer("loader-1")
    producer.put("orders", b"1")
    append_many = topic.logs[0].append_many

    def append_and_fail(*arguments: Any, **named: Any) -> range:
        append_many(*arguments, **named)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(topic.logs[0], "append_many", append_and_fail)
        with pytest.raises(Killed):
            producer.put("orders", b"2", sequence=2)

    assert producer.put("orders", b"2", sequence=2) is None
    assert producer.sequence == 2
    assert bodies(store, "orders") == [b"1", b"2"]


def test_a_put_that_failed_before_it_was_written_can_be_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.topic("orders")
    producer = store.producer("loader-1")
    with monkeypatch.context() as patched:
        kill_at(patched, topic.logs[0], "append_many")
        with pytest.raises(Killed):
            producer.put("orders", b"1", sequence=1)

    assert producer.sequence == 0
    assert producer.put("orders", b"1", sequence=1) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partly_written_batch_is_completed_also_after_partitions_were_added(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    store = open_store(tmp_path, clock)
    topic = store.topic("orders", version=version, partitions=3)
    rows = [b"%d" % number for number in range(30)]
    keys = rows if version == 2 else None
    producer = store.producer("loader-1")
    producer.put("orders", b"first", partition=2)
    with monkeypatch.context() as patched:
        # With keys one of three partitions is written; version 1 has no keys, and all goes to one.
        kill_at(patched, topic.logs[1] if version == 2 else topic.logs[2], "append_many")
        with pytest.raises(Killed):
            producer.put_many("orders", rows, keys=keys, sequence=2)
    if version == 2:
        assert 0 < len(bodies(store, "orders")) < 31
    die(store)
    assert producer._lock is not None
    producer._lock.close()

    with open_store(tmp_path, clock) as later:
        later.topic("orders").configure(partitions=5)
        again = later.producer("loader-1")
        assert again.sequence == 1
        assert again.put_many("orders", rows, keys=keys, sequence=2) is not None
        assert again.put_many("orders", rows, keys=keys, sequence=2) is None
        assert sorted(bodies(later, "orders")) == sorted([*rows, b"first"])


def test_the_note_is_written_at_intervals_and_limits_the_scan(
    tmp_path: Path, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "PRODUCER_NOTE_PUTS", 10)
    store = open_store(tmp_path, clock)
    producer = store.producer("loader-1")
    for number in range(25):
        producer.put("orders", b"%d" % number)
    die(store)
    assert producer._lock is not None
    producer._lock.close()

    with open_store(tmp_path, clock) as later:
        again = later.producer("loader-1")
        assert (again._noted, dict(again._ends)) == (20, {("orders", 0): 20})
        assert again.sequence == 25


def test_a_topic_that_was_deleted_is_no_hindrance(store: Store) -> None:
    producer = store.producer("loader-1")
    producer.put("orders", b"1")
    producer.put("orders", b"2")
    store.delete_topic("orders")

    assert producer.put("orders", b"3") is not None
    store.delete_topic("orders")
    producer.close()

    assert store.producer("loader-1").sequence == 3


def test_a_topic_that_another_process_deleted_is_an_error(store: Store, other: Store) -> None:
    topic = store.topic("orders")
    producer = store.producer("loader-1")
    producer.put(topic, b"1")
    other.delete_topic("orders")

    with pytest.raises(NoSuchTopic):
        producer.put(topic, b"2")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"body": "text"}, BadInput),
        ({"body": bytes(101)}, TooLarge),
        ({"key": "text"}, BadInput),
        ({"tag": "x" * 129}, TooLarge),
        ({"partition": 2}, NoSuchPartition),
        ({"topic": 7}, BadInput),
        ({"sequence": 0}, BadInput),
        ({"sequence": True}, BadInput),
        ({"sequence": "1"}, BadInput),
        ({"sequence": SEQUENCE_MAX + 1}, BadInput),
        ({"topic": "old", "id": "mine"}, BadInput),
        ({"topic": "old", "key": b"k"}, UnsupportedByVersion),
    ],
)
def test_bad_input_is_refused_and_takes_no_number(store: Store, fields: dict[str, Any], error: type[Exception]) -> None:
    store.topic("orders", partitions=2, message_size_max=100)
    store.topic("old", version=1)
    producer = store.producer("loader-1")

    with pytest.raises(error):
        producer.put(**{"topic": "orders", "body": b"x", **fields})

    assert producer.sequence == 0
    assert producer.put("orders", b"1", sequence=1) is not None
    assert bodies(store, "old") == []


def test_invalid_batches_are_refused(store: Store, other: Store) -> None:
    producer = store.producer("loader-1")
    bad: list[dict[str, Any]] = [
        {"bodies": []},
        {"bodies": [b"1"], "tags": ["a", "b"]},
        {"bodies": [b"1"], "keys": [7]},
    ]
    store.topic("orders", partitions=2)

    for fields in bad:
        with pytest.raises(BadInput):
            producer.put_many("orders", **fields)
    with pytest.raises(BadInput):
        producer.put(other.topic("orders"), b"x")

    assert producer.sequence == 0


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 201])
def test_bad_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(BadName):
        store.producer(name)


def test_the_marker_of_a_put_is_read_back() -> None:
    numbered = NumberedPut(SEQUENCE_MAX, 1 << 20, 1000)

    assert NumberedPut.of_marker(numbered.marker("loader-1"), "loader-1") == numbered
    assert NumberedPut.of_marker(numbered.marker("loader-1"), "loader-2") is None
    assert NumberedPut.of_marker(b"transaction 7", "loader-1") is None
    content = Content(b"body", "tag", 7)
    assert NumberedPut.of_id(numbered.id("loader-1", (1 << 20) - 1, content), "loader-1", content) == numbered
    assert NumberedPut.of_id(numbered.id("loader-1", 5, content), "loader-2", content) is None
    assert NumberedPut.of_id("7", "loader-1", content) is None
    assert len(numbered.id("loader-1", (1 << 20) - 1, content)) <= 39


@pytest.mark.parametrize("torn", [Content(b"b\0\0\0", "tag", 7), Content(b"body", "", 7), Content(b"body", "tag", 0)])
def test_a_torn_message_of_version_1_does_not_count_as_put(torn: Content) -> None:
    id = NumberedPut(3, 1, 1).id("loader-1", 0, Content(b"body", "tag", 7))

    assert NumberedPut.of_id(id, "loader-1", torn) is None


def test_ids_of_an_earlier_release_are_recognised() -> None:
    digest = hashlib.sha256(b"loader-1").hexdigest()[:10]

    assert NumberedPut.of_id(f"{digest}-1f-0-2-10", "loader-1", Content(b"", "", -1)) == NumberedPut(31, 2, 16)


def test_a_producer_has_a_readable_repr(store: Store) -> None:
    producer = store.producer("loader-1")
    producer.put("orders", b"1")
    assert repr(producer) == "<Producer loader-1: 1>"
    producer.close()
    assert repr(producer) == "<Producer loader-1: closed>"


# --- Power cuts ---


def put_all(producer: Producer, last: int, topics: list[str]) -> None:
    """Puts number after number, like a producer that does not know what was written: from a number before the last."""
    for sequence in range(max(1, producer.sequence - 3), last + 1):
        name = topics[sequence % len(topics)]
        body = b"%d" % sequence
        if sequence % 3 == 0:
            keys = None if name == "old" else [b"%d" % row for row in range(6)]
            producer.put_many(name, [body + b"-%d" % row for row in range(6)], keys=keys, sequence=sequence)
        else:
            producer.put(name, body, sequence=sequence)


@pytest.mark.parametrize("seed", range(6))
def test_every_number_is_written_once_despite_power_cuts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "PRODUCER_NOTE_PUTS", 7)
    random, disk, clock = Random(seed), SimulatedFileSystem(seed=seed), SimulatedClock()
    topics = ["synced", "loose", "old"]
    last = 0
    for _ in range(12):
        last += random.randint(1, 8)
        store = Store("/store", keeps=False, filesystem=disk, clock=clock)
        store.topic("synced", partitions=2, block_size=64 << 10)
        store.topic("loose", durability="os", partitions=2, block_size=64 << 10)
        store.topic("old", version=1, block_size=64 << 10)
        disk.cut_at_call = disk.calls + random.randint(1, 400)
        try:
            with store.producer("loader-1") as producer:
                put_all(producer, last, topics)
        except PowerCut:
            is_kill = random.random() < 0.5
            disk = disk.after_process_kill(seed) if is_kill else disk.after_power_cut(random.getrandbits(32))
            continue
        disk.cut_at_call = None
        store.close()

    store = Store("/store", keeps=False, filesystem=disk, clock=clock)
    with store.producer("loader-1") as producer:
        put_all(producer, last, topics)
    expected = [
        b"%d" % sequence + suffix
        for sequence in range(1, last + 1)
        for suffix in ([b"-%d" % row for row in range(6)] if sequence % 3 == 0 else [b""])
    ]
    stored = [body for name in topics for body in bodies(store, name)]
    assert sorted(stored) == sorted(expected)
