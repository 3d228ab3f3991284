"""Classic groups with real clients: mixed in one group, killed, resumed, static, and inspected from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.group_clients import (
    QUICK,
    OfAiokafka,
    OfConfluent,
    OfKafkaPython,
    Wire,
    admin_client,
    consumed,
    consumer,
    make_topic,
    produce,
    until,
)
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.classic import ClassicGroup, GroupState
from warren.protocol.api_keys import ApiKey

pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")
pytest.importorskip("aiokafka")
pytestmark = LEAVES_SOCKETS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


def reader(broker: RunningBroker, **config: Any) -> Any:
    """A member that subscribes to orders."""
    made = consumer(broker, **QUICK, **config)
    made.subscribe(["orders"])
    return made


def owned(member: Any) -> set[int]:
    return {each.partition for each in member.assignment()}


def group_of(broker: RunningBroker) -> ClassicGroup:
    group = broker.broker.coordinator.find_classic("readers")
    assert group is not None
    return group


def test_members_of_three_clients_share_one_group(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 6)
    produce(broker, "orders", range(120))
    members: list[Any] = [OfConfluent(broker), OfKafkaPython(broker), OfAiokafka(broker)]
    bodies: list[bytes] = []

    class Polled:
        """Several consumers, polled as one."""

        def poll(self, timeout_s: float) -> None:
            for each in members:
                bodies.extend(each.poll(timeout_s))

    until(lambda: [len(each.owned()) for each in members] == [2, 2, 2] and len(set(bodies)) == 120, [Polled()])
    shares = [each.owned() for each in members]
    for each in members:
        each.close()

    assert sorted(chain(*shares)) == list(range(6))
    assert {int(body) for body in bodies} == set(range(120))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_new_member_gets_a_share_and_the_last_one_has_everything(broker: RunningBroker, strategy: str) -> None:
    make_topic(broker, "orders", 4)
    config = {"partition.assignment.strategy": strategy}
    first = reader(broker, **config)
    until(lambda: owned(first) == {0, 1, 2, 3}, [first])

    second = reader(broker, **config)
    until(lambda: len(owned(first)) == len(owned(second)) == 2, [first, second])
    shared = owned(first) | owned(second)
    first.close()
    until(lambda: owned(second) == {0, 1, 2, 3}, [second])
    second.close()

    assert shared == {0, 1, 2, 3}


MORTAL = """
import sys
from confluent_kafka import Consumer
config = {"bootstrap.servers": sys.argv[1], "group.id": "readers", "session.timeout.ms": 1000,
          "heartbeat.interval.ms": 100}
member = Consumer(config)
member.subscribe(["orders"])
while not member.assignment():
    member.poll(0.05)
print("owns", flush=True)
while True:
    member.poll(1)
"""


@contextmanager
def mortal_member(broker: RunningBroker) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", MORTAL, broker.address], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_partitions_of_a_killed_member_go_to_others(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 2)
    with mortal_member(broker) as mortal:
        assert mortal.stdout is not None
        assert mortal.stdout.readline() == "owns\n"
        other = reader(broker)
        until(lambda: len(owned(other)) == 1, [other])

        mortal.kill()
        until(lambda: owned(other) == {0, 1}, [other])
        other.close()

    assert broker.broker.coordinator.groups() == []


# --- Positions of a group ---


def test_a_group_continues_at_its_position_also_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running:
        make_topic(running, "orders", 2)
        produce(running, "orders", range(20))
        first = reader(running)
        consumed([first], 20)
        first.commit(asynchronous=False)
        first.close()

    with running_broker(tmp_path / "data") as running:
        produce(running, "orders", range(20, 30))
        second = reader(running)
        messages = consumed([second], 10)
        second.close()

    assert sorted(int(message.value()) for message in messages) == list(range(20, 30))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_outlive_a_restart_of_the_broker(tmp_path: Path, protocol: str) -> None:
    with running_broker(tmp_path / "data") as running:
        make_topic(running, "orders", 2)
        produce(running, "orders", range(20))
        config = {"group.protocol": protocol, "reconnect.backoff.max.ms": 200}
        member = consumer(running, **config, **(QUICK if protocol == "classic" else {}))
        member.subscribe(["orders"])
        consumed([member], 20)
        member.commit(asynchronous=False)
        _, port = running.broker.advertised

    with running_broker(tmp_path / "data", port=port) as running:
        produce(running, "orders", range(20, 30))
        # The client is a member of the new broker's group when the broker has answered its join.
        again = until(
            lambda: str(getattr(running.broker.coordinator.find("readers"), "state", "")) == "Stable", [member]
        )
        messages = again + consumed([member], 10 - len({message.value() for message in again}), again)
        member.commit(asynchronous=False)
        member.close()

    assert {int(message.value()) for message in messages} == set(range(20, 30))


def test_metadata_and_leader_epochs_come_back_as_they_were_committed(broker: RunningBroker) -> None:
    from kafka.structs import OffsetAndMetadata, TopicPartition

    make_topic(broker, "orders", 3)
    produce(broker, "orders", range(30))
    place, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    committed = {place: OffsetAndMetadata(4, "half", 0), other: OffsetAndMetadata(5, "", -1)}
    alone = kafka.KafkaConsumer(bootstrap_servers=broker.address, group_id="readers", enable_auto_commit=False)
    alone.assign([place, other])

    alone.commit(committed)
    position = alone.committed(place, metadata=True)
    alone.close()
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    everywhere = admin.list_group_offsets("readers")
    admin.close()

    assert position == committed[place]
    assert everywhere == {"readers": committed}


def test_a_position_that_a_transaction_may_move_is_returned_when_it_is_decided(broker: RunningBroker) -> None:
    from confluent_kafka import Producer, TopicPartition

    make_topic(broker, "orders", 1)
    produce(broker, "orders", range(5))
    member = reader(broker)
    consumed([member], 5)
    writer = Producer({"bootstrap.servers": broker.address, "log_level": 0, "transactional.id": "copier"})
    writer.init_transactions(PATIENCE_S)
    answers = []
    with closing(Wire(broker)) as wire:

        def look_up(*, is_stable: bool) -> None:
            group = {"group_id": "readers", "topics": [{"name": "orders", "partition_indexes": [0]}]}
            answer = wire.ask(ApiKey.OFFSET_FETCH, 8, groups=[group], require_stable=is_stable)
            [part] = answer.groups[0].topics[0].partitions
            answers.append((part.error_code, part.committed_offset))

        for end in (writer.abort_transaction, writer.commit_transaction):
            writer.begin_transaction()
            positions = [TopicPartition("orders", 0, 3)]
            writer.send_offsets_to_transaction(positions, member.consumer_group_metadata(), PATIENCE_S)
            look_up(is_stable=True)
            look_up(is_stable=False)
            end(PATIENCE_S)
            look_up(is_stable=True)
    member.close()

    moving, nothing = (Code.UNSTABLE_OFFSET_COMMIT, -1), (Code.NONE, -1)
    assert answers == [moving, nothing, nothing, moving, nothing, (Code.NONE, 3)]


def test_a_note_that_is_too_long_is_refused_and_the_rest_is_committed(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 2)
    partitions = [
        {"partition_index": 0, "committed_offset": 0, "committed_metadata": "x" * 5000},
        {"partition_index": 1, "committed_offset": 0, "committed_metadata": "fine"},
        {"partition_index": 2, "committed_offset": 0},
    ]

    with closing(Wire(broker)) as wire:
        group = {"group_id": "readers", "generation_id_or_member_epoch": -1}
        answer = wire.ask(ApiKey.OFFSET_COMMIT, 8, **group, topics=[{"name": "orders", "partitions": partitions}])

    errors = [part.error_code for part in answer.topics[0].partitions]
    assert errors == [Code.OFFSET_METADATA_TOO_LARGE, Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_member_of_a_classic_group_may_identify_itself_in_an_offset_fetch(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 1)
    fields = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
    joining: dict[str, Any] = {
        "group_id": "readers",
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 6000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }

    with closing(Wire(broker)) as wire:
        joined = wire.ask(ApiKey.JOIN_GROUP, 3, **joining)
        member = {"member_id": joined.member_id, "member_epoch": joined.generation_id}
        groups = [{"group_id": "readers", **member, **fields}, {"group_id": "not there", **member, **fields}]
        answer = wire.ask(ApiKey.OFFSET_FETCH, 9, groups=groups, require_stable=False)

    assert [each.error_code for each in answer.groups] == [Code.NONE, Code.NONE]
    assert [each.topics[0].partitions[0].committed_offset for each in answer.groups] == [-1, -1]


# --- Static members ---


def test_a_static_member_that_returns_has_its_partitions_without_a_rebalance(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 2)
    stays = reader(broker, **{"group.instance.id": "one"})
    goes = reader(broker, **{"group.instance.id": "two"})
    until(lambda: len(owned(stays)) == len(owned(goes)) == 1, [stays, goes])
    until(lambda: group_of(broker).state is GroupState.STABLE, [stays, goes])
    before, generation = owned(goes), group_of(broker).generation

    goes.close()
    back = reader(broker, **{"group.instance.id": "two"})
    until(lambda: bool(owned(back)), [stays, back])
    after = owned(back), group_of(broker).generation
    stays.close()
    back.close()

    assert after == (before, generation)


def test_an_admin_client_removes_static_members(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 1)
    member = reader(broker, **{"group.instance.id": "one"})
    until(lambda: bool(owned(member)), [member])
    member.close()
    removed = [{"member_id": "", "group_instance_id": "one"}, {"member_id": "", "group_instance_id": "missing"}]

    with closing(Wire(broker)) as wire:
        answer = wire.ask(ApiKey.LEAVE_GROUP, 4, group_id="readers", members=removed)

    assert [each.error_code for each in answer.members] == [Code.NONE, Code.UNKNOWN_MEMBER_ID]
    assert broker.broker.coordinator.find("readers") is None


# --- From outside ---


def test_groups_are_listed_by_state_and_kind_and_described(broker: RunningBroker) -> None:
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    make_topic(broker, "orders", 2)
    produce(broker, "orders", [1])
    past = reader(broker, **{"group.id": "past"})
    consumed([past], 1)
    past.commit(asynchronous=False)
    past.close()
    member = reader(broker, **{"client.id": "mine"})
    until(lambda: owned(member) == {0, 1}, [member])
    admin = admin_client(broker)

    def listed(**filters: Any) -> set[str]:
        return {each.group_id for each in admin.list_consumer_groups(**filters).result(PATIENCE_S).valid}

    assert listed() == {"past", "readers"}
    assert listed(states={ConsumerGroupState.STABLE}) == {"readers"}
    assert listed(states={ConsumerGroupState.EMPTY}) == {"past"}
    assert listed(types={ConsumerGroupType.CONSUMER}) == set()
    described = admin.describe_consumer_groups(["readers", "past", "none"])
    answers = {name: future.result(PATIENCE_S) for name, future in described.items()}
    member.close()

    assert {name: each.state for name, each in answers.items()} == {
        "readers": ConsumerGroupState.STABLE,
        "past": ConsumerGroupState.EMPTY,
        "none": ConsumerGroupState.DEAD,
    }
    [one] = answers["readers"].members
    assert (one.client_id, one.host) == ("mine", "/127.0.0.1")
    assert {each.partition for each in one.assignment.topic_partitions} == {0, 1}


def test_a_group_can_be_deleted_when_it_is_empty(broker: RunningBroker) -> None:
    from confluent_kafka import KafkaException

    make_topic(broker, "orders", 1)
    produce(broker, "orders", [1])
    member = reader(broker)
    consumed([member], 1)
    member.commit(asynchronous=False)
    admin = admin_client(broker)

    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups(["readers"])["readers"].result(PATIENCE_S)
    member.close()
    admin.delete_consumer_groups(["readers"])["readers"].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["readers"])["readers"].result(PATIENCE_S)

    assert broker.broker.store.topic("orders").groups() == []


def test_positions_are_deleted_if_no_member_subscribes_to_the_topic(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 2)
    produce(broker, "orders", range(4))
    member = reader(broker)
    consumed([member], 4)
    member.commit(asynchronous=False)

    with closing(Wire(broker)) as wire:

        def forget() -> list[int]:
            topics = [{"name": "orders", "partitions": [{"partition_index": number} for number in (0, 7)]}]
            answer = wire.ask(ApiKey.OFFSET_DELETE, 0, group_id="readers", topics=topics)
            return [part.error_code for part in answer.topics[0].partitions]

        while_there = forget()
        member.close()
        later = forget()
        group = {"group_id": "readers", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
        fetched = wire.ask(ApiKey.OFFSET_FETCH, 8, groups=[group], require_stable=True)

    assert while_there == [Code.GROUP_SUBSCRIBED_TO_TOPIC] * 2
    assert later == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert [part.committed_offset for part in fetched.groups[0].topics[0].partitions] == [-1, 2]
