"""Topics as requests name them: ids are those of existing topics, and requests for others are cheap."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_clock import SimulatedClock
from warren.broker.kafka import offsets
from warren.broker.kafka.errors import Code
from warren.broker.services import topics as broker_topics
from warren.broker.services.leadership import Alone
from warren.broker.services.topics import CACHED_S, LOOK_S, Topics
from warren.errors import NoSuchTopic
from warren.protocol.kafka_messages import ListOffsetsResponse
from warren.transaction.store import Store


def test_a_topic_is_found_by_its_id_and_another_of_its_name_is_not(tmp_path: Path) -> None:
    with Store(tmp_path, keeps=False) as store:
        topics = Topics(store)
        first = topics.id_of(store.topic("orders"))

        assert topics.find_by_id(first).name == "orders"

        store.delete_topic("orders")
        second = topics.id_of(store.topic("orders"))

        assert second != first
        assert topics.find_by_id(second).name == "orders"
        with pytest.raises(NoSuchTopic):
            topics.find_by_id(first)


def test_unknown_ids_are_looked_up_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock()
    with Store(tmp_path, keeps=False, clock=clock) as store, Store(tmp_path, keeps=False, clock=clock) as other:
        topics, looks = Topics(store), []
        names = topics.names

        def noted_names() -> list[str]:
            looks.append(1)
            return names()

        monkeypatch.setattr(topics, "names", noted_names)
        for _ in range(100):
            with pytest.raises(NoSuchTopic):
                topics.find_by_id(uuid4().bytes)
        assert len(looks) == 1

        made = Topics(other).id_of(other.topic("orders"))
        clock.pass_ns(int(LOOK_S * 1e9))

        assert topics.find_by_id(made).name == "orders"
        assert len(looks) == 2


def test_when_many_topics_were_deleted_their_ids_are_evicted_and_other_ids_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_topics, "SWEPT_FROM", 4)
    monkeypatch.setattr(broker_topics, "NAMES_SWEPT_FROM", 10)
    clock = SimulatedClock()
    with Store(tmp_path, filesystem=QUICK_DISK, keeps=False, clock=clock) as store:
        topics = Topics(store)
        names = {topics.id_of(store.topic(f"kept-{number}")): f"kept-{number}" for number in range(3)}
        gone = []
        for number in range(50):
            gone.append(topics.id_of(topics.recall(store.topic(f"gone-{number}").name)))
            store.delete_topic(f"gone-{number}")
            clock.pass_ns(int(CACHED_S * 1e9))
            gc.collect()

        assert len(topics._ids) <= 2 * len(names) + 4
        assert len(topics._names) <= 20
        monkeypatch.setattr(topics, "names", lambda: pytest.fail("the last one is known to be gone"))
        with pytest.raises(NoSuchTopic):
            topics.find_by_id(gone[-1])
        assert {id: topics.recall_by_id(id).name for id in names} == names


def test_a_lookup_of_missing_topics_leaves_no_cyclic_garbage(tmp_path: Path) -> None:
    with Store(tmp_path, keeps=False) as store:
        call: Any = SimpleNamespace(
            broker=SimpleNamespace(topics=Topics(store), leadership=Alone(lambda: ("127.0.0.1", 9092)))
        )
        partitions = [
            SimpleNamespace(partition_index=0, partition=0, timestamp=-1, leader_epoch=0, current_leader_epoch=-1)
        ]
        rows = [
            SimpleNamespace(name=f"gone-{number}", topic=f"gone-{number}", partitions=partitions)
            for number in range(100)
        ]
        request: Any = SimpleNamespace(topics=rows)
        gc.collect()
        gc.disable()
        try:
            listed = offsets.list_offsets(call, request)
            ends = offsets.offset_for_leader_epoch(call, request)
            garbage_count = gc.collect()
        finally:
            gc.enable()

    assert isinstance(listed, ListOffsetsResponse)
    for codes in (
        [part.error_code for row in listed.topics for part in row.partitions],
        [part.error_code for row in ends.topics for part in row.partitions],
    ):
        assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 100
    # An error that is kept is part of a cycle with its frames: fifteen objects for each topic.
    assert garbage_count < 100
