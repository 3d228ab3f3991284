"""A broker that may have been deposed gives messages, and neither ends nor positions, in each of its protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http
from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.broker.services.leadership import Alone
from warren.errors import NotMaster, WarrenError
from warren.protocol.api_keys import ApiKey

TOPIC, GROUP, QUEUE = "orders", "readers", "takers"
COUNT = 3
LATEST, LARGEST_TIME, LONG_AFTER_MS = -1, -3, 1 << 52


class Deposable(Alone):
    """The leadership of a broker that loses its lease when the test decides it."""

    has_lease = True

    def refusal_of_ends(self) -> WarrenError | None:
        return None if self.has_lease else NotMaster(0, 1, "")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Http, Deposable]]:
    """A broker with a topic that has three messages, a position of a group, and nothing left for a queue."""
    with running_http(tmp_path / "data") as http:
        leadership = Deposable(lambda: http.broker.advertised)
        http.broker.leadership = leadership
        with Caller(http.running) as caller, warren.connect(http.running.address) as client:
            caller.produce(TOPIC, batch_of([(None, b"%d" % number, []) for number in range(COUNT)]))
            topic = client.topic(TOPIC)
            group = topic.group(GROUP)
            group.read(limit=COUNT)
            group.commit()
            messages = topic.group(QUEUE, mode="queue").take(limit=COUNT)
            topic.group(QUEUE, mode="queue").ack_many(messages)
        yield http, leadership


def fetched(caller: Caller, number: int) -> Any:
    part = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    values = {
        "max_wait_ms": 10,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [{"topic": TOPIC, "partitions": [part]}],
    }
    return caller.call(ApiKey.FETCH, 11, values).responses[0].partitions[0]


def listed(caller: Caller, timestamp: int, version: int = 7) -> Any:
    part = {"partition_index": 0, "timestamp": timestamp}
    values = {"topics": [{"name": TOPIC, "partitions": [part]}]}
    return caller.call(ApiKey.LIST_OFFSETS, version, values).topics[0].partitions[0]


def test_a_fetch_gives_messages_and_no_end(served: tuple[Http, Deposable]) -> None:
    http, leadership = served
    with Caller(http.running) as caller:
        assert fetched(caller, 0).high_watermark == COUNT
        assert fetched(caller, COUNT).error_code == Code.NONE
        assert fetched(caller, COUNT + 1).error_code == Code.OFFSET_OUT_OF_RANGE

        leadership.has_lease = False

        part = fetched(caller, 0)
        assert (part.error_code, part.high_watermark, part.last_stable_offset) == (Code.NONE, -1, -1)
        assert part.records
        # Another master may have a message with this number.
        assert fetched(caller, COUNT).error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert fetched(caller, COUNT + 1).error_code == Code.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("timestamp", [LATEST, LARGEST_TIME, LONG_AFTER_MS])
def test_an_end_is_not_listed(served: tuple[Http, Deposable], timestamp: int) -> None:
    http, leadership = served
    with Caller(http.running) as caller:
        assert listed(caller, timestamp).error_code == Code.NONE

        leadership.has_lease = False

        row = listed(caller, timestamp)
        assert (row.error_code, row.offset) == (Code.OFFSET_NOT_AVAILABLE, -1)
        assert listed(caller, timestamp, version=4).error_code == Code.LEADER_NOT_AVAILABLE


def test_the_end_of_an_epoch_is_not_given(served: tuple[Http, Deposable]) -> None:
    http, leadership = served
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    values = {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [part]}]}
    with Caller(http.running) as caller:
        answer = caller.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, values).topics[0].partitions[0]
        assert answer.end_offset == COUNT

        leadership.has_lease = False

        answer = caller.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, values).topics[0].partitions[0]
        assert (answer.error_code, answer.end_offset) == (Code.NOT_LEADER_OR_FOLLOWER, -1)


def test_positions_of_kafka_groups_are_not_given(served: tuple[Http, Deposable]) -> None:
    http, leadership = served
    old = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
    new = {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}
    with Caller(http.running) as caller:
        assert caller.call(ApiKey.OFFSET_FETCH, 8, new).groups[0].topics[0].partitions[0].committed_offset == COUNT

        leadership.has_lease = False

        first, later = caller.call(ApiKey.OFFSET_FETCH, 1, old), caller.call(ApiKey.OFFSET_FETCH, 8, new).groups[0]
        row = first.topics[0].partitions[0]
        assert (row.committed_offset, row.error_code) == (-1, Code.NOT_COORDINATOR)
        assert later.error_code == Code.NOT_COORDINATOR
        assert later.topics[0].partitions[0].committed_offset == -1
        assert caller.call(ApiKey.OFFSET_FETCH, 5, old).error_code == Code.NOT_COORDINATOR


CALLS: dict[str, Callable[[Any], object]] = {
    "read": lambda client: client.topic(TOPIC).partition(0).read(COUNT),
    "last": lambda client: client.topic(TOPIC).last(),
    "end": lambda client: client.topic(TOPIC).partition(0).end,
    "read of a group": lambda client: client.topic(TOPIC).group(GROUP).read(),
    "take": lambda client: client.topic(TOPIC).group(QUEUE, mode="queue").take(),
    "description of a group": lambda client: client.topic(TOPIC).describe_group(GROUP),
    "lag": lambda client: client.topic(TOPIC).group(GROUP).lag(),
    "parked": lambda client: list(client.topic(TOPIC).scheduled(limit=1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_client_waits_for_the_lease(served: tuple[Http, Deposable], name: str) -> None:
    http, leadership = served
    with warren.connect(http.running.address, timeout=0.3) as client:
        CALLS[name](client)

        leadership.has_lease = False

        with pytest.raises(NotMaster):
            CALLS[name](client)
        leadership.has_lease = True
        CALLS[name](client)


def test_a_client_gets_messages_without_the_lease(served: tuple[Http, Deposable]) -> None:
    http, leadership = served
    with warren.connect(http.running.address, timeout=0.3) as client:
        log = client.topic(TOPIC).partition(0)
        leadership.has_lease = False

        assert [message.body for message in log.read(1)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "path", ["/v1/topics", f"/v1/topics/{TOPIC}", f"/v1/topics/{TOPIC}/messages", "/v1/groups", "/v1/statistics"]
)
def test_ends_and_positions_are_not_given_over_http(served: tuple[Http, Deposable], path: str) -> None:
    http, leadership = served
    assert http.ask("GET", path).status == 200

    leadership.has_lease = False

    assert http.ask("GET", path).problem == (503, "not_master")
    assert http.ask("GET", "/healthz").status == 200
