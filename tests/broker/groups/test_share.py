"""Share groups (KIP-932) with a real client: messages are taken one by one, and accepted, released or rejected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.broker.group_clients import Wire, consumer, make_topic, produce
from tests.support.broker.recorded_calls import recorded
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.message_values import Fields
from tests.support.patience import until
from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups import share_groups, share_requests
from warren.broker.services.memory_budget import MemoryKind
from warren.protocol.api_keys import ApiKey
from warren.queue.leases.queue_group import QueueGroup

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this confluent-kafka has no share consumer", allow_module_level=True)

ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        make_topic(running, "orders", 3)
        yield running


def worker(broker: RunningBroker, *, is_explicit: bool = True) -> Any:
    mode = "explicit" if is_explicit else "implicit"
    settings = {
        "bootstrap.servers": broker.address,
        "log_level": 0,
        "group.id": "workers",
        "share.acknowledgement.mode": mode,
    }
    made = confluent_kafka.ShareConsumer(settings)
    made.subscribe(["orders"])
    return made


def queue(broker: RunningBroker) -> QueueGroup:
    return broker.broker.store.topic("orders").group("workers", mode="queue")


def take_messages(workers: list[Any], count: int, kind: int = ACCEPT) -> list[Any]:
    """Returns at least `count` messages, of any worker, each of them acknowledged as `verdict` says."""
    result: list[Any] = []
    deadline = monotonic() + PATIENCE_S
    while len(result) < count:
        assert monotonic() < deadline, f"{len(result)} of {count} came"
        for each in workers:
            messages = list(each.poll(0.1))
            for message in messages:
                assert message.error() is None
                each.acknowledge(message, kind)
            result += messages
    for each in workers:
        each.commit_sync(PATIENCE_S)
    return result


def numbers(messages: list[Any]) -> list[int]:
    return sorted(int(message.value()) for message in messages)


def test_two_workers_get_each_message_once_and_warren_sees_it_as_done(broker: RunningBroker) -> None:
    produce(broker, "orders", range(300))
    workers = [worker(broker), worker(broker)]

    messages = take_messages(workers, 300)
    for each in workers:
        each.close()

    assert numbers(messages) == list(range(300))
    with queue(broker) as group:
        assert (group.lag(), group.in_flight()) == ({0: 0, 1: 0, 2: 0}, 0)


def test_polled_messages_are_accepted_by_the_next_poll_in_implicit_mode(broker: RunningBroker) -> None:
    produce(broker, "orders", range(30))
    reader = worker(broker, is_explicit=False)
    messages: list[Any] = []
    while len(messages) < 30:
        messages += list(reader.poll(0.1))

    reader.commit_sync(PATIENCE_S)
    reader.close()

    assert numbers(messages) == list(range(30))
    with queue(broker) as group:
        assert sum(group.lag().values()) == 0


def test_a_worker_of_a_filtered_group_gets_a_far_match_after_several_scans(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_requests, "SCANNED_SIZE_MAX", 1)
    topic = broker.broker.store.topic("orders")
    topic.group("workers", mode="queue", tag="wanted").close()
    for _ in range(49):
        topic.put(bytes(80_000), tag="other", partition=1)
    topic.put(b"49", tag="wanted", partition=1)
    looks = recorded(monkeypatch, share_requests, "take")
    reader = worker(broker)

    messages = take_messages([reader], 1)
    reader.close()

    assert numbers(messages) == [49]
    assert len(looks) > 40


def test_messages_that_a_filtered_group_has_read_ahead_count_in_the_memory_of_the_broker(broker: RunningBroker) -> None:
    topic = broker.broker.store.topic("orders")
    topic.group("workers", mode="queue", tag="wanted").close()
    for number in range(2000):
        topic.put(b"%d" % number, tag="wanted", partition=1)
    reader = worker(broker)

    assert take_messages([reader], 1)
    until(lambda: broker.broker.budget.sizes[MemoryKind.AHEAD] > 0)
    reader.close()


def test_a_released_message_comes_back_and_counts_another_delivery(broker: RunningBroker) -> None:
    produce(broker, "orders", [7])
    reader = worker(broker)

    first = take_messages([reader], 1, RELEASE)
    second = take_messages([reader], 1, ACCEPT)
    reader.close()

    assert [message.value() for message in first + second] == [b"7", b"7"]
    assert [message.delivery_count() for message in first + second] == [1, 2]


def test_a_rejected_message_becomes_a_dead_letter(broker: RunningBroker) -> None:
    produce(broker, "orders", [7])
    reader = worker(broker)

    take_messages([reader], 1, REJECT)
    reader.close()

    with queue(broker) as group:
        assert sum(group.lag().values()) == 0
        assert [message.body for log in group.dead.logs for message in log.read(0)] == [b"7"]


def test_the_messages_of_a_closed_worker_go_to_others(broker: RunningBroker) -> None:
    produce(broker, "orders", range(10))
    first = worker(broker)
    leased: list[Any] = []
    while not leased:
        leased += list(first.poll(0.1))

    first.close()
    second = worker(broker)
    messages = take_messages([second], 10)
    second.close()

    assert numbers(messages) == list(range(10))


def test_embedded_workers_and_kafka_workers_share_one_group(broker: RunningBroker) -> None:
    produce(broker, "orders", range(60))
    with queue(broker) as group:
        mine = group.take(20)
        reader = worker(broker)
        theirs = take_messages([reader], 40)
        group.ack_many(mine)
        reader.close()

        assert sorted([int(message.body) for message in mine] + numbers(theirs)) == list(range(60))
        assert sum(group.lag().values()) == 0


def test_a_stream_group_is_no_share_group(broker: RunningBroker) -> None:
    broker.broker.store.topic("orders").group("workers").close()

    with closing(Wire(broker)) as wire:
        answer = beat(wire, 0)

    assert answer.error_code == Code.INCONSISTENT_GROUP_PROTOCOL


def test_members_of_a_share_group_keep_consumers_of_its_name_out(broker: RunningBroker) -> None:
    produce(broker, "orders", [1])
    with closing(Wire(broker)) as wire:
        assert beat(wire, 0).error_code == Code.NONE
        other = consumer(broker, **{"group.id": "workers"})
        other.subscribe(["orders"])
        answer = other.poll(PATIENCE_S)
        other.close()

    assert "Inconsistent group protocol" in answer.error().str()


def test_a_share_group_hands_out_again_immediately_unless_it_was_made_with_a_backoff(broker: RunningBroker) -> None:
    orders, jobs = broker.broker.store.topic("orders"), broker.broker.store.topic("jobs")
    orders.put(b"released")
    jobs.group("workers", mode="queue", backoff=7.0).close()
    member = worker(broker)
    messages = take_messages([member], 1)
    member.close()

    with jobs.group("workers", mode="queue") as group:
        assert group.settings.backoff_s == 7.0
        assert share_groups._queue_group(jobs, "workers").settings == group.settings
    assert messages[0].delivery_count() == 1
    assert orders.group_settings("workers").backoff_s == 0.0


def test_a_message_that_is_not_acknowledged_in_time_goes_to_others(broker: RunningBroker) -> None:
    produce(broker, "orders", [7])
    broker.broker.store.topic("orders").group("workers", mode="queue", lease=0.2).close()
    silent, reader = worker(broker), worker(broker)
    leased: list[Any] = []
    while not leased:
        leased += list(silent.poll(0.1))

    messages = take_messages([reader], 1)
    silent.acknowledge(leased[0], ACCEPT)
    late = silent.commit_sync(PATIENCE_S)
    silent.close()
    reader.close()

    assert [message.delivery_count() for message in leased + messages] == [1, 2]
    assert ["INVALID_RECORD_STATE" in str(error) for error in late.values()] == [True]


def test_share_groups_are_listed_and_deleted_when_they_are_empty(broker: RunningBroker) -> None:
    with closing(Wire(broker)) as wire:
        beat(wire, 0)
        busy = wire.ask(ApiKey.DELETE_GROUPS, 1, groups_names=["workers"])
        listed = [wire.ask(ApiKey.LIST_GROUPS, 5, types_filter=["share"])]
        beat(wire, -1)
        listed.append(wire.ask(ApiKey.LIST_GROUPS, 5))
        deleted = wire.ask(ApiKey.DELETE_GROUPS, 1, groups_names=["workers"])

    answer = [[(each.group_id, each.group_type, each.group_state) for each in answer.groups] for answer in listed]
    assert answer == [[("workers", "share", "Stable")], [("workers", "share", "Empty")]]
    assert [answer.results[0].error_code for answer in (busy, deleted)] == [Code.NON_EMPTY_GROUP, Code.NONE]


# --- Word for word ---


def beat(wire: Wire, epoch: int, **fields: Any) -> Fields:
    named = {"group_id": "workers", "member_id": "a", "member_epoch": epoch, "subscribed_topic_names": ["orders"]}
    return wire.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **{**named, **fields})


def fetch(wire: Wire, epoch: int, topic_id: bytes, *acknowledged: dict[str, Any], wait_ms: int = 100) -> Fields:
    parts = [{"partition_index": n, "acknowledgement_batches": acknowledged if n == 0 else ()} for n in range(3)]
    topics = [{"topic_id": topic_id, "partitions": parts}]
    named = {"group_id": "workers", "member_id": "a", "share_session_epoch": epoch, "max_wait_ms": wait_ms}
    return wire.ask(ApiKey.SHARE_FETCH, 1, **named, max_records=100, topics=topics)


def test_sessions_and_members_are_identified_by_their_epochs(broker: RunningBroker) -> None:
    produce(broker, "orders", [1])
    with closing(Wire(broker)) as wire:
        missing = fetch(wire, 0, bytes(16))
        answer = beat(wire, 0)
        topic_id = bytes(answer.assignment.topic_partitions[0].topic_id)
        none = fetch(wire, 1, topic_id)
        first = fetch(wire, 0, topic_id)
        wrong = fetch(wire, 5, topic_id)
        fenced = beat(wire, answer.member_epoch + 5)
        unknown = beat(wire, answer.member_epoch, member_id="b")

    assert missing.error_code == none.error_code == Code.SHARE_SESSION_NOT_FOUND
    assert wrong.error_code == Code.INVALID_SHARE_SESSION_EPOCH
    assert (fenced.error_code, unknown.error_code) == (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID)
    [part] = first.responses[0].partitions
    assert [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records] == [(0, 0, 1)]


def test_a_message_that_was_not_taken_cannot_be_acknowledged(broker: RunningBroker) -> None:
    produce(broker, "orders", [1, 2, 3])
    with closing(Wire(broker)) as wire:
        topic_id = bytes(beat(wire, 0).assignment.topic_partitions[0].topic_id)
        fetch(wire, 0, topic_id)

        def error(first: int, last: int, kind: int, epoch: int) -> int:
            batch = {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
            answer = fetch(wire, epoch, topic_id, batch, wait_ms=0)
            return int(answer.responses[0].partitions[0].acknowledge_error_code)

        assert error(50, 50, ACCEPT, 1) == Code.INVALID_RECORD_STATE
        assert error(0, 1 << 40, ACCEPT, 2) == Code.INVALID_RECORD_STATE
        assert error(0, 0, ACCEPT, 3) == Code.INVALID_RECORD_STATE
        assert error(0, 0, 9, 4) == Code.INVALID_REQUEST


def test_a_missing_topic_is_not_fetched_from_and_not_cached(broker: RunningBroker) -> None:
    with closing(Wire(broker)) as wire:
        beat(wire, 0)
        answer = fetch(wire, 0, b"x" * 16)
    group = broker.broker.coordinator.shares.find("workers")

    assert {part.error_code for part in answer.responses[0].partitions} == {Code.UNKNOWN_TOPIC_ID}
    assert group is not None
    assert group.sessions["a"].partitions == {}


def test_share_groups_are_described(broker: RunningBroker) -> None:
    with closing(Wire(broker)) as wire:
        beat(wire, 0)
        answer = wire.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["workers", "others"])

    group, missing = answer.groups
    assert (group.group_state, [each.member_id for each in group.members]) == ("Stable", ["a"])
    assert missing.error_code == Code.GROUP_ID_NOT_FOUND
