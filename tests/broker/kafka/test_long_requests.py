"""Long requests are handled piece by piece with the same answers, while other clients are answered in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from tests.support.message_values import Fields
from warren.broker.kafka import produce
from warren.broker.kafka.errors import Code
from warren.broker.kafka.fetch import BUILT_SIZE_TARGET, LOOP_BUILT_MAX, LOOP_READ_SIZE_MAX
from warren.broker.kafka.groups.limits import SHARE_TAKEN_MAX
from warren.broker.services.turns import LOOP_REQUEST_SIZE_MAX, LOOP_ROWS_AT_ONCE, Turns
from warren.broker.settings import BrokerSettings
from warren.protocol.api_keys import ApiKey
from warren.protocol.kafka.record_batch import PRODUCE_BATCHES_MAX, build, split
from warren.protocol.kafka_messages import ShareAcknowledgement
from warren.protocol.limits import REQUEST_ARRAY_COUNT_MAX
from warren.protocol.schema_codec import read_request
from warren.storage.format.checksum import crc32c
from warren.storage.format.kafka_batch import pack_kafka
from warren.storage.format.record import Packed
from warren.storage.read import raw_records

MANY = 5 * LOOP_ROWS_AT_ONCE
NAMES = [f"topic-{number:05}-{'x' * 60}" for number in range(MANY)]
LATEST = -1
FEW = 3
WIDE = LOOP_ROWS_AT_ONCE + 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", settings=BrokerSettings(auto_create_topics=False)) as running:
        running.broker.store.topic("orders", FEW)
        yield running


@pytest.fixture
def wide(broker: RunningBroker) -> RunningBroker:
    """Returns the same request with as many partitions as make a request long."""
    broker.broker.store.configure_topic("orders", {"partitions": WIDE})
    return broker


def batch(*bodies: bytes) -> bytes:
    return batch_of([(None, body, []) for body in bodies])


def turns_taken(broker: RunningBroker, ask: Callable[[], Fields]) -> tuple[int, Fields]:
    """Returns how many turns of the loop a request took, none of which waits, and its answer."""
    turns = broker.broker.turns = Turns(broker.broker.store.clock.steady_s, slice_s=0.0)
    answer = ask()
    return turns.count, answer


def offsets(topic: str, numbers: list[int]) -> dict[str, Any]:
    parts = [{"partition_index": number, "timestamp": LATEST} for number in numbers]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": parts}]}


def test_another_client_is_answered_before_a_long_request_is(broker: RunningBroker) -> None:
    # The long request waits in the middle until the other client has its answer. If it held the loop, it would wait
    # without an end.
    answered, original = threading.Event(), broker.broker.topics.find
    names: list[str] = []

    def find(name: str) -> Any:
        names.append(name)
        if len(names) == MANY // 2:
            # Called on the loop: a wait here would keep it from answering.
            middle.set()
        return original(name)

    middle = threading.Event()
    broker.broker.topics.find = find  # type: ignore[method-assign]
    broker.broker.turns = turns = Turns(broker.broker.store.clock.steady_s, slice_s=0.0)
    order: list[str] = []

    async def hold() -> None:
        """Gives the next turn only when the other client has been answered."""
        while not answered.is_set():
            await asyncio.sleep(0.001)

    next_turn = turns._next

    async def blocked() -> float:
        if middle.is_set():
            await hold()
        return await next_turn()

    turns._next = blocked  # type: ignore[method-assign]
    with Caller(broker) as long, Caller(broker) as other, ThreadPoolExecutor(1) as pool:
        pending = pool.submit(long.call, ApiKey.METADATA, 9, {"topics": [{"name": name} for name in NAMES]})
        pending.add_done_callback(lambda _: order.append("long"))
        assert middle.wait(PATIENCE_S)
        other.call(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"]})
        order.append("other")
        answered.set()

        assert len(pending.result(PATIENCE_S).topics) == MANY

    assert order == ["other", "long"]


def test_metadata_of_many_names_answers_each_once(broker: RunningBroker) -> None:
    topics = [{"name": name} for name in [*NAMES, *NAMES, "orders", "orders"]]

    with Caller(broker) as caller:
        turns, answer = turns_taken(broker, lambda: caller.call(ApiKey.METADATA, 9, {"topics": topics}))

    assert turns >= MANY // LOOP_ROWS_AT_ONCE
    by_name = {topic.name: topic for topic in answer.topics}
    assert (len(answer.topics), set(by_name)) == (MANY + 1, {*NAMES, "orders"})
    assert by_name["orders"].error_code == Code.NONE
    assert len(by_name["orders"].partitions) == FEW
    assert {by_name[name].error_code for name in NAMES} == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_metadata_of_all_topics_is_built_in_turns(broker: RunningBroker) -> None:
    names = [f"t{number}" for number in range(LOOP_ROWS_AT_ONCE)]
    for name in names:
        broker.broker.store.topic(name)

    with Caller(broker) as caller:
        turns, answer = turns_taken(broker, lambda: caller.call(ApiKey.METADATA, 9, {"topics": None}))

    assert turns >= len(names)
    assert [topic.name for topic in answer.topics] == sorted([*names, "orders"])


def test_a_large_request_is_decoded_by_another_thread_than_the_event_loops(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read_request(*arguments)

    monkeypatch.setattr("warren.broker.dispatch.read_request", noted)
    with Caller(broker) as caller:
        caller.call(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"]})
        caller.call(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g" * LOOP_REQUEST_SIZE_MAX]})

    assert threads[0].startswith("broker")
    assert threads[1].startswith("warren-aside")


def test_offsets_of_many_partitions_come_in_one_row_of_their_topic(broker: RunningBroker) -> None:
    numbers = list(range(MANY))

    with Caller(broker) as caller:
        turns, answer = turns_taken(
            broker, lambda: caller.call(ApiKey.LIST_OFFSETS, 6, offsets("orders", [*numbers, 1, 1]))
        )

    assert turns >= MANY // LOOP_ROWS_AT_ONCE
    (topic,) = answer.topics
    codes = {part.partition_index: part.error_code for part in topic.partitions}
    assert len(topic.partitions) == len(codes) == MANY
    assert codes[1] == Code.INVALID_REQUEST
    assert {codes[number] for number in range(FEW) if number != 1} == {Code.NONE}
    missing = range(FEW, MANY)
    assert {codes[number] for number in missing} == {Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_topics_that_are_named_twice_are_neither_made_nor_deleted(broker: RunningBroker) -> None:
    settings = {"num_partitions": 1, "replication_factor": 1}
    topics = [{"name": "twice", **settings}, {"name": "once", **settings}, {"name": "twice", **settings}]

    with Caller(broker) as caller:
        made = caller.call(ApiKey.CREATE_TOPICS, 5, {"topics": topics, "timeout_ms": 1000})
        gone = caller.call(ApiKey.DELETE_TOPICS, 5, {"topic_names": ["orders", "once", "orders"], "timeout_ms": 1000})

    assert {row.name: row.error_code for row in made.topics} == {"once": Code.NONE, "twice": Code.INVALID_REQUEST}
    assert {row.name: row.error_code for row in gone.responses} == {"once": Code.NONE, "orders": Code.INVALID_REQUEST}
    assert broker.broker.store.topics() == ["orders"]


def test_many_groups_are_described_in_turns_and_each_once(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        turns, answer = turns_taken(
            broker, lambda: caller.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [*NAMES, *NAMES]})
        )

    assert turns >= MANY
    assert [group.group_id for group in answer.groups] == NAMES


def test_positions_in_many_topics_are_committed_in_turns(broker: RunningBroker) -> None:
    part = {"partition_index": 0, "committed_offset": 0}
    topics = [{"name": name, "partitions": [part]} for name in ["orders", *NAMES]]
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    with Caller(broker) as caller:
        turns, answer = turns_taken(broker, lambda: caller.call(ApiKey.OFFSET_COMMIT, 8, values))

    assert turns >= MANY
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"orders": Code.NONE} | dict.fromkeys(NAMES, Code.UNKNOWN_TOPIC_OR_PARTITION)


def test_of_many_named_groups_the_existing_ones_are_deleted(broker: RunningBroker) -> None:
    topic = broker.broker.store.topic("orders")
    topic.group("there").close()

    with Caller(broker) as caller:
        turns, answer = turns_taken(
            broker, lambda: caller.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": [*NAMES, "there"]})
        )

    assert turns >= MANY
    codes = {row.group_id: row.error_code for row in answer.results}
    assert codes == dict.fromkeys(NAMES, Code.GROUP_ID_NOT_FOUND) | {"there": Code.NONE}
    assert topic.groups() == []


def test_positions_that_are_requested_twice_are_answered_once(broker: RunningBroker) -> None:
    topics = [{"name": "orders", "partition_indexes": [0, 1, 0]}, {"name": "orders", "partition_indexes": [1, 2]}]

    with Caller(broker) as caller:
        answer = caller.call(ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": topics}]})

    (topic,) = answer.groups[0].topics
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]


def test_partitions_that_are_added_twice_to_a_transaction_are_answered_once(broker: RunningBroker) -> None:
    with Caller(broker) as caller:
        error, producer_id, epoch = caller.init("tx")
        assert error == Code.NONE

        assert caller.add(("tx", producer_id, epoch), "orders", 0, 1, 0, 1) == [Code.NONE, Code.NONE]


def test_a_count_over_the_limit_closes_the_connection_and_no_other(broker: RunningBroker) -> None:
    with Caller(broker) as caller, Caller(broker) as other:
        keys = ["g"] * (REQUEST_ARRAY_COUNT_MAX + 1)
        with pytest.raises(AssertionError, match="closed the connection"):
            caller.call(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": keys})

        assert other.call(ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"]}).coordinators


# --- Produce and Fetch ---


def produced(caller: Caller, parts: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    topics = [{"name": "orders", "partition_data": parts}]
    values = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": topics}
    (topic,) = caller.call(ApiKey.PRODUCE, 9, values).responses
    stored = topic.partition_responses
    assert len(stored) == len({part.index for part in stored})
    return {part.index: (part.error_code, part.base_offset) for part in stored}


def fetched(caller: Caller, numbers: list[int], *, wait_ms: int = 0, topic: str = "orders", size: int = 1 << 20) -> Any:
    parts = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": size} for number in numbers]
    values = {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 8 * size, "session_epoch": -1}
    answer = caller.call(ApiKey.FETCH, 11, values | {"topics": [{"topic": topic, "partitions": parts}]})
    return {part.partition_index: part for row in answer.responses for part in row.partitions}


def test_a_produce_for_many_partitions_is_stored_in_turns(wide: RunningBroker) -> None:
    numbers = range(WIDE + 1)
    parts = [{"index": number, "records": batch(b"%d" % number)} for number in numbers]
    turns = wide.broker.turns = Turns(wide.broker.store.clock.steady_s, slice_s=0.0)

    with Caller(wide) as caller:
        stored = produced(caller, parts)

    assert turns.count >= 2
    assert [stored[number] for number in numbers[:-1]] == [(Code.NONE, 0)] * (len(numbers) - 1)
    assert stored[numbers[-1]] == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    logs = wide.broker.store.topic("orders").logs
    assert [log.read(0)[0].body for log in logs] == [b"%d" % number for number in numbers[:-1]]


def test_a_partition_that_a_produce_names_twice_is_refused_and_nothing_of_it_stored(broker: RunningBroker) -> None:
    parts = [{"index": number, "records": batch(b"a")} for number in (0, 1, 0)]

    with Caller(broker) as caller:
        assert produced(caller, parts) == {0: (Code.INVALID_REQUEST, -1), 1: (Code.NONE, 0)}

    logs = broker.broker.store.topic("orders").logs
    assert (logs[0].end, logs[1].end) == (0, 1)


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_a_large_batch_is_copied_by_another_thread_than_the_event_loops(
    broker: RunningBroker, producer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(*arguments: Any, **named: Any) -> Packed:
        threads.append(threading.current_thread().name)
        return pack_kafka(*arguments, **named)

    monkeypatch.setattr(produce, "pack_kafka", noted)
    is_numbered = producer_id >= 0
    body = bytes(produce.LOOP_COPIED_SIZE_MAX + 1)
    large, small = (
        batch_of(
            [(None, each, [])],
            producer_id=producer_id,
            producer_epoch=0 if is_numbered else -1,
            base_sequence=place if is_numbered else -1,
        )
        for place, each in enumerate((body, b"small"))
    )

    with Caller(broker) as caller:
        answers = [produced(caller, [{"index": 0, "records": records}]) for records in (large, small)]

    assert answers == [{0: (0, 0)}, {0: (0, 1)}]
    assert [message.body for message in broker.broker.store.topic("orders").partition(0).read(0)] == [body, b"small"]
    assert threads[0].startswith("warren-aside")
    assert not threads[1].startswith("warren-aside")


def test_a_partition_takes_no_more_batches_in_one_produce_than_the_limit(broker: RunningBroker) -> None:
    one = batch(b"a")
    with Caller(broker) as caller:
        assert caller.produce("orders", one * PRODUCE_BATCHES_MAX) == (Code.NONE, 0)
        error, _ = caller.produce("orders", one * (PRODUCE_BATCHES_MAX + 1))

    assert error != Code.NONE
    assert broker.broker.store.topic("orders").partition(0).end == PRODUCE_BATCHES_MAX


def test_a_fetch_of_many_partitions_is_read_in_turns(wide: RunningBroker) -> None:
    numbers = list(range(WIDE))
    turns = wide.broker.turns = Turns(wide.broker.store.clock.steady_s, slice_s=0.0)
    with Caller(wide) as caller:
        produced(caller, [{"index": number, "records": batch(b"%d" % number)} for number in numbers])
        before = turns.count

        parts = fetched(caller, [*numbers, *numbers])

    assert turns.count >= before + 2
    assert list(parts) == numbers
    assert all(split(memoryview(parts[number].records))[0].head.record_count == 1 for number in numbers)


def test_a_fetch_of_many_partitions_that_waits_is_answered_when_one_grows(wide: RunningBroker) -> None:
    numbers = list(range(WIDE))
    with Caller(wide) as caller, Caller(wide) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetched, caller, numbers, wait_ms=int(PATIENCE_S * 1000))
        while not wide.broker.long_polls.parked_count:
            threading.Event().wait(0.005)
        other.produce("orders", batch(b"a"), partition=7)

        parts = waiting.result(PATIENCE_S)

    assert [number for number in numbers if parts[number].records] == [7]


def test_a_fetch_of_many_partitions_is_let_go_with_its_connection(wide: RunningBroker) -> None:
    numbers = list(range(WIDE))
    with Caller(wide) as caller, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetched, caller, numbers, wait_ms=int(PATIENCE_S * 1000))
        while not wide.broker.long_polls.parked_count:
            threading.Event().wait(0.005)

        caller.shut_down()

        with pytest.raises((AssertionError, OSError)):
            waiting.result(PATIENCE_S)
        while wide.broker.long_polls.parked_count:
            threading.Event().wait(0.005)
    assert not wide.broker.long_polls._waiting


@pytest.mark.parametrize("is_waiting", [False, True])
def test_many_messages_are_packed_into_batches_off_the_event_loop(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, is_waiting: bool
) -> None:
    threads: set[str] = set()

    def built(messages: Any, epoch: int | None) -> Any:
        threads.add(threading.current_thread().name.split("_")[0])
        return build(messages, epoch)

    monkeypatch.setattr("warren.broker.kafka.fetch.build", built)
    topic = broker.broker.store.topic("ours")
    bodies = [b"x"] * (LOOP_BUILT_MAX + 1)

    with Caller(broker) as caller, ThreadPoolExecutor(1) as pool:
        if is_waiting:
            waiting = pool.submit(fetched, caller, [0], topic="ours", wait_ms=int(PATIENCE_S * 1000))
            while not broker.broker.long_polls.parked_count:
                threading.Event().wait(0.005)
            topic.put_many(bodies)
            parts = waiting.result(PATIENCE_S)
        else:
            topic.put_many(bodies)
            parts = fetched(caller, [0], topic="ours")

    assert sum(each.head.record_count for each in split(memoryview(parts[0].records))) == len(bodies)
    assert threads == {"warren-aside"}


def test_many_bytes_of_our_records_are_packed_into_batches_of_megabytes_off_the_event_loop(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()

    def built(messages: Any, epoch: int | None) -> Any:
        threads.add(threading.current_thread().name.split("_")[0])
        return build(messages, epoch)

    monkeypatch.setattr("warren.broker.kafka.fetch.build", built)
    topic = broker.broker.store.topic("ours", compression="none")
    for _ in range(5):
        topic.put(bytes(BUILT_SIZE_TARGET // 2))

    with Caller(broker) as caller:
        parts = fetched(caller, [0], topic="ours", size=16 << 20)

    assert [each.head.record_count for each in split(memoryview(parts[0].records))] == [2, 2, 1]
    assert threads == {"warren-aside"}


@pytest.mark.parametrize("is_waiting", [False, True])
def test_large_batches_are_checked_off_the_event_loop(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, is_waiting: bool
) -> None:
    checked: list[str] = []

    def noted(data: memoryview) -> int:
        checked.append(threading.current_thread().name.split("_")[0])
        return crc32c(data)

    monkeypatch.setattr(raw_records, "crc32c", noted)
    topic = broker.broker.store.topic("theirs")
    large = pack_kafka(batch(bytes(LOOP_READ_SIZE_MAX + 1)))

    with Caller(broker) as caller, ThreadPoolExecutor(1) as pool:
        if is_waiting:
            waiting = pool.submit(fetched, caller, [0], topic="theirs", wait_ms=int(PATIENCE_S * 1000), size=16 << 20)
            while not broker.broker.long_polls.parked_count:
                threading.Event().wait(0.005)
            topic.partition(0).append_packed([large])
            first = waiting.result(PATIENCE_S)
        else:
            topic.partition(0).append_packed([large])
            first = fetched(caller, [0], topic="theirs", size=16 << 20)

    assert len(first[0].records) > LOOP_READ_SIZE_MAX
    assert set(checked) == {"warren-aside"}


# --- Topics ---


def test_an_open_topic_is_found_while_another_one_is_being_made(tmp_path: Path) -> None:
    with warren.open(tmp_path) as store, ThreadPoolExecutor(1) as pool:
        topic = store.topic("orders")
        # As a thread does that creates a topic of many partitions, for as long as that takes.
        with store._mutex:
            assert pool.submit(store.existing_topic, "orders").result(PATIENCE_S) is topic


def test_ids_of_topics_are_learned_piece_by_piece(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    import warren.broker.services.topics as topics

    names = [f"t{number}" for number in range(20)]
    for name in names:
        broker.broker.store.topic(name)
    monkeypatch.setattr(topics, "LOOK_SLICE_S", 0.0)
    fresh = topics.Topics(broker.broker.store)
    names_by_id = {topics.Topics(broker.broker.store).id_of(broker.broker.store.topic(name)): name for name in names}

    for _ in range(3):
        with pytest.raises(warren.errors.NoSuchTopic):
            fresh.find_by_id(bytes(range(16)))
    assert len(fresh._ids) == 0
    monkeypatch.setattr(topics, "LOOK_SLICE_S", PATIENCE_S)

    assert [str(fresh.find_by_id(id).name) for id in names_by_id] == names


# --- Share groups ---


def test_acknowledgements_of_a_request_name_no_more_messages_than_a_member_can_have() -> None:
    from warren.broker.kafka.groups.share_requests import _numbers

    def acknowledgements(*spans: tuple[int, int]) -> list[ShareAcknowledgement]:
        batches = []
        for first, last in spans:
            batches.append(ShareAcknowledgement(first, last, [1]))
        return batches

    # A span that ends before it begins makes no room for more.
    assert len(list(_numbers(acknowledgements((0, -(10**9)), (0, 10**9)), SHARE_TAKEN_MAX))) == SHARE_TAKEN_MAX
    assert list(_numbers(acknowledgements((5, 6), (8, 9)), 3)) == [(5, 1), (6, 1), (8, 1)]
