"""Committed offsets past the end of a partition are kept as a client sent them; our own groups wait for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import running_broker
from tests.support.kafka_batches import batch_of
from tests.support.simulated_disk import SimulatedFileSystem
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import ApiKey
from warren.storage import Log

TEN = batch_of([(None, b"%d" % row, []) for row in range(10)])


def commit(caller: Caller, number: int, **fields: Any) -> int:
    part = {"partition_index": 0, "committed_offset": number, "committed_leader_epoch": -1}
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", **fields}
    topics = [{"name": "orders", "partitions": [part]}]
    return int(caller.call(ApiKey.OFFSET_COMMIT, 8, values | {"topics": topics}).topics[0].partitions[0].error_code)


def committed(caller: Caller) -> int:
    groups = [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]
    answer = caller.call(ApiKey.OFFSET_FETCH, 8, {"groups": groups, "require_stable": False})
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def test_an_offset_past_the_end_is_kept_when_messages_come_and_across_a_restart(tmp_path: Path) -> None:
    offsets = []
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        assert commit(caller, 42) == Code.NONE
        offsets.append(committed(caller))
        assert caller.produce("orders", TEN) == (0, 0)
        offsets.append(committed(caller))
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        offsets.append(committed(caller))
        assert commit(caller, 3) == Code.NONE
        offsets.append(committed(caller))
        assert commit(caller, 10) == Code.NONE
        offsets.append(committed(caller))

    assert offsets == [42, 42, 42, 3, 10]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_commits_past_the_end(tmp_path: Path, protocol: str) -> None:
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        if protocol == "classic":
            fields = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 6000, "protocol_type": "consumer"}
            protocols = [{"name": "range", "metadata": b""}]
            joined = caller.call(ApiKey.JOIN_GROUP, 3, {"group_id": "g", **fields, "protocols": protocols})
            member, epoch = joined.member_id, joined.generation_id
            named = {"group_id": "g", "member_id": member, "generation_id": epoch, "assignments": []}
            caller.call(ApiKey.SYNC_GROUP, 3, named)
            version = 8
        else:
            fields = {"rebalance_timeout_ms": 6000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
            beat = caller.call(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "member_epoch": 0, **fields}
            )
            member, epoch, version = "m", beat.member_epoch, 9
        part = {"partition_index": 0, "committed_offset": 42, "committed_leader_epoch": -1}
        values = {"group_id": "g", "generation_id_or_member_epoch": epoch, "member_id": member}
        topics = [{"name": "orders", "partitions": [part]}]
        answer = caller.call(ApiKey.OFFSET_COMMIT, version, values | {"topics": topics})

        assert answer.topics[0].partitions[0].error_code == Code.NONE
        assert committed(caller) == 42


def test_a_stream_group_of_our_own_waits_until_there_is_such_a_message(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        topic = broker.broker.store.topic("orders")
        with Caller(broker) as caller:
            assert commit(caller, 12) == Code.NONE
        with warren.connect(broker.address) as store, store.topic("orders").group("g") as group:
            topic.put_many([b"%d" % number for number in range(12)])
            early = group.read()
            topic.put_many([b"12", b"13"])
            read = group.read(wait=30.0)

            assert early == []
            assert [message.number for message in read] == [12, 13]
            assert (group.commit(), group.lag()) == ({0: 14}, {0: 0})


def test_a_recovery_keeps_a_position_past_the_end_and_moves_a_reached_one_back() -> None:
    disk = SimulatedFileSystem(seed=1)
    log = Log.open("/log", durability="os", filesystem=disk)
    log.append_many([b"kept"] * 3)
    log.sync()
    log.append_many([b"lost"] * 3)
    reached, beyond, again = log.reader("reached"), log.reader("beyond"), log.reader("again")
    reached.seek(6)
    reached.commit()
    beyond.commit_beyond(42)
    again.commit_beyond(6)
    again.commit_to(5)
    for name in ("reached", "beyond", "again"):
        file = disk.open(f"/log/readers/{name}.reader", writable=True)
        file.sync()
    disk.sync_directory("/log/readers")

    ends = set()
    for seed in range(20):
        with Log.open("/log", filesystem=disk.after_power_cut(seed)) as recovered:
            ends.add(recovered.end)
            positions = [recovered.reader(name).position for name in ("reached", "beyond", "again")]
            assert positions == [recovered.end, 42, min(recovered.end, 5)]

    assert min(ends) < 6, "a power cut took something"


def test_a_transaction_moves_an_offset_forward_back_and_past_the_end(tmp_path: Path) -> None:
    offsets = []
    with running_broker(tmp_path / "data") as broker, Caller(broker) as caller:
        broker.broker.store.topic("orders")
        assert caller.produce("orders", TEN) == (0, 0)
        _, producer_id, epoch = caller.init("mover")
        who = "mover", producer_id, epoch
        for number in (8, 4, 42):
            assert caller.add_group(who, "g") == Code.NONE
            assert caller.commit_position(who, "g", "orders", number) == Code.NONE
            assert caller.end(who, committed=True) == Code.NONE
            offsets.append(committed(caller))
        assert caller.add_group(who, "g") == Code.NONE
        assert caller.commit_position(who, "g", "orders", 1) == Code.NONE
        assert caller.end(who, committed=False) == Code.NONE
        offsets.append(committed(caller))

    assert offsets == [8, 4, 42, 42]
