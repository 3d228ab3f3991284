"""Consumer groups (KIP-848) with a real client: assigned by the broker, migrated one member at a time, and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.group_clients import Wire, consumed, consumer, make_topic, produce, until
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.message_values import Fields
from warren.broker.kafka.errors import Code
from warren.protocol.api_keys import ApiKey

pytest.importorskip("confluent_kafka")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


def member(broker: RunningBroker, **config: Any) -> Any:
    return consumer(broker, **{"group.protocol": "consumer", **config})


def owned(members: list[Any]) -> list[list[int]]:
    return [sorted(each.partition for each in one.assignment()) for one in members]


def test_two_members_share_the_partitions_and_the_last_one_has_them_all(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 4)
    produce(broker, "orders", range(400))
    first = member(broker)
    first.subscribe(["orders"])
    messages = consumed([first], 1)
    second = member(broker)
    second.subscribe(["orders"])

    messages += until(lambda: [len(each) for each in owned([first, second])] == [2, 2], [first, second])
    assert sorted(chain(*owned([first, second]))) == [0, 1, 2, 3]
    first.close()
    messages += until(lambda: owned([second]) == [[0, 1, 2, 3]], [second])
    messages += consumed([second], 400 - len({message.value() for message in messages}), messages)
    second.close()

    assert {int(message.value()) for message in messages} == set(range(400))


def test_a_group_continues_at_its_position_with_either_protocol(broker: RunningBroker) -> None:
    make_topic(broker, "orders", 2)
    produce(broker, "orders", range(100))
    first = member(broker)
    first.subscribe(["orders"])
    consumed([first], 100)
    first.commit(asynchronous=False)
    first.close()
    produce(broker, "orders", range(100, 150))

    second = member(broker)
    second.subscribe(["orders"])
    messages = consumed([second], 50)
    second.commit(asynchronous=False)
    second.close()
    produce(broker, "orders", range(150, 160))
    classic = consumer(broker)
    classic.subscribe(["orders"])
    found_later = consumed([classic], 10)
    classic.close()

    assert sorted(int(message.value()) for message in messages) == list(range(100, 150))
    assert sorted(int(message.value()) for message in found_later) == list(range(150, 160))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_added_partitions_get_an_owner_that_is_no_embedded_member(broker: RunningBroker, protocol: str) -> None:
    make_topic(broker, "orders", 1)
    config = {"group.protocol": protocol} | ({"heartbeat.interval.ms": 100} if protocol == "classic" else {})
    reader = consumer(broker, **config)
    reader.subscribe(["orders"])
    until(lambda: owned([reader]) == [[0]], [reader])

    broker.broker.store.topic("orders").configure(partitions=3)
    until(lambda: owned([reader]) == [[0, 1, 2]], [reader])
    with broker.broker.store.topic("orders").group("readers") as embedded:
        partitions = embedded.partitions
    reader.close()

    assert partitions == []


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_topics_that_a_pattern_names_are_found_also_when_they_are_made_later(
    broker: RunningBroker, assignor: str
) -> None:
    make_topic(broker, "orders.eu", 1)
    make_topic(broker, "invoices", 1)
    reader = member(broker, **{"group.remote.assignor": assignor})
    reader.subscribe(["^orders[.].*"])
    produce(broker, "orders.eu", [1])
    messages = consumed([reader], 1)

    make_topic(broker, "orders.us", 1)
    produce(broker, "orders.us", [2])
    produce(broker, "invoices", [3])
    messages += consumed([reader], 1)
    topics = {each.topic for each in reader.assignment()}
    reader.close()

    assert [message.value() for message in messages] == [b"1", b"2"]
    assert topics == {"orders.eu", "orders.us"}


@pytest.fixture
def wire(broker: RunningBroker) -> Iterator[Wire]:
    with closing(Wire(broker)) as opened:
        yield opened


def beat(wire: Wire, member_id: str, epoch: int, **fields: Any) -> Fields:
    named = {"group_id": "readers", "member_id": member_id, "member_epoch": epoch, "rebalance_timeout_ms": 60_000}
    return wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **{**named, "subscribed_topic_names": ["orders"], **fields})


def test_a_group_is_of_one_kind_while_it_has_members(broker: RunningBroker, wire: Wire) -> None:
    make_topic(broker, "orders", 1)
    joining: dict[str, Any] = {
        "group_id": "readers",
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 6000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }

    came = beat(wire, "a", 0)
    refused = wire.ask(ApiKey.JOIN_GROUP, 3, **joining)
    beat(wire, "a", -1)
    joined = wire.ask(ApiKey.JOIN_GROUP, 3, **joining)
    refused_too = beat(wire, "a", 0)

    assert (came.error_code, refused.error_code) == (Code.NONE, Code.INCONSISTENT_GROUP_PROTOCOL)
    assert (joined.error_code, refused_too.error_code) == (Code.NONE, Code.GROUP_ID_NOT_FOUND)


def test_members_are_fenced_by_their_epochs_also_when_they_commit(broker: RunningBroker, wire: Wire) -> None:
    make_topic(broker, "orders", 1)
    epoch = beat(wire, "a", 0).member_epoch
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}]

    def commit(member_id: str, epoch: int) -> int:
        topics = [{"name": "orders", "partitions": partitions}]
        fields = {"group_id": "readers", "generation_id_or_member_epoch": epoch, "member_id": member_id}
        answer = wire.ask(ApiKey.OFFSET_COMMIT, 9, **fields, topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    assert beat(wire, "a", epoch + 1).error_code == Code.FENCED_MEMBER_EPOCH
    assert beat(wire, "b", epoch).error_code == Code.UNKNOWN_MEMBER_ID
    assert commit("a", epoch) == Code.NONE
    assert commit("a", epoch + 1) == Code.STALE_MEMBER_EPOCH
    assert commit("b", epoch) == Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"server_assignor": "mine"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(orders"}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_names": None}, Code.INVALID_REQUEST),
        ({"group_id": "../readers"}, Code.INVALID_GROUP_ID),
        ({"member_epoch": -3}, Code.INVALID_REQUEST),
        ({"member_epoch": -2}, Code.INVALID_REQUEST),
        ({"member_epoch": 7}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_malformed_requests_are_refused(wire: Wire, fields: dict[str, Any], error: Code) -> None:
    answer = beat(wire, "a", 0, **fields)

    assert answer.error_code == error


def test_members_are_described_with_their_current_and_target_assignment(broker: RunningBroker, wire: Wire) -> None:
    make_topic(broker, "orders", 3)
    beat(wire, "a", 0, instance_id="one", server_assignor="range")
    beat(wire, "b", 0)

    answer = wire.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["readers", "others"])

    group, missing = answer.groups
    members = {each.member_id: each for each in group.members}
    assert (group.group_state, group.assignor_name, group.group_epoch) == ("Reconciling", "range", 2)
    assert (members["a"].instance_id, members["a"].client_host) == ("one", "/127.0.0.1")
    assert [list(each.partitions) for each in members["a"].assignment.topic_partitions] == [[0, 1, 2]]
    assert [list(each.partitions) for each in members["b"].target_assignment.topic_partitions] == [[2]]
    assert missing.error_code == Code.GROUP_ID_NOT_FOUND
