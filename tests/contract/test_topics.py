"""Topics, puts and reads by number and time: the same on every kind of store."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contract.conftest import SYNCHRONOUS, Opener
from tests.support.patience import SHORT_S, WAIT_S
from warren import api
from warren.errors import (
    BadInput,
    BadName,
    NoReply,
    NoSuchPartition,
    NoSuchTopic,
    SettingsDiffer,
    TooLarge,
    UnsupportedByVersion,
    WarrenError,
)
from warren.message import START, Message
from warren.queue.state.routing import partition_of


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


# --- Topics ---


def test_a_topic_is_made_once_and_listed(store: api.Store) -> None:
    orders = store.topic("orders", 3, message_size_max=100)
    store.topic("bills")

    assert store.topics() == ["bills", "orders"]
    assert (orders.name, orders.partition_count) == ("orders", 3)
    assert [store.has_topic(name) for name in ("orders", "other")] == [True, False]
    assert store.existing_topic("orders").partition_count == 3
    assert store.describe("orders").settings.message_size_max == 100


def test_a_topic_that_does_not_exist_is_an_error(store: api.Store) -> None:
    with pytest.raises(NoSuchTopic):
        store.existing_topic("orders")
    with pytest.raises(NoSuchTopic):
        store.delete_topic("orders")
    with pytest.raises(NoSuchTopic):
        store.describe("orders")
    with pytest.raises(NoSuchTopic):
        store.configure_topic("orders", {"partitions": 2})

    assert store.topics() == []


def test_a_topic_is_not_opened_with_other_settings(store: api.Store) -> None:
    store.topic("orders", 2, durability="commit")

    store.topic("orders", partitions=2, durability="commit")
    with pytest.raises(SettingsDiffer, match=r"partitions=2, not 3; change it with topic\.configure\(\)"):
        store.topic("orders", 3)
    with pytest.raises(SettingsDiffer, match="durability='commit', not 'os'"):
        store.topic("orders", durability="os")
    with pytest.raises(SettingsDiffer):
        store.topic("orders", message_size_max=1)


def test_a_bad_name_is_refused(store: api.Store) -> None:
    for name in ["", ".", "..", "a/b", "../up", "/root", ".hidden", "a b", "é", "a\0", "x" * 250, "a\n"]:
        for call in (store.topic, store.has_topic, store.delete_topic, store.existing_topic):
            with pytest.raises(BadName):
                call(name)
    wrong: Any
    for wrong in (7, None, b"orders", ["orders"], {}):
        with pytest.raises(BadName):
            store.topic(wrong)

    assert store.topics() == []


def test_a_name_may_have_249_bytes(store: api.Store) -> None:
    store.topic("x" * 249).put(b"one")

    assert store.topics() == ["x" * 249]


BAD_SETTINGS: list[tuple[Mapping[str, Any], str]] = [
    ({"partitions": 0}, "partitions: expected a whole number from 1 to 1000, not 0"),
    ({"partitions": 1001}, "partitions"),
    ({"partitions": True}, "partitions"),
    ({"version": 3}, "version"),
    ({"durability": "maybe"}, "durability"),
    ({"durability": 5}, "durability"),
    ({"block_size": 1}, "block_size"),
    ({"compression": "rar"}, "compression"),
    ({"version": 1, "compression": "zstd"}, "compression"),
    ({"message_size_max": -1}, "message_size_max"),
    ({"retention_age_s": 0}, "retention_age_s"),
    ({"retention_age_s": -1}, "retention_age_s"),
    ({"retention_age_s": True}, "retention_age_s"),
    ({"retention_age_s": "1d"}, "retention_age_s"),
    ({"retention_bytes": 0}, "retention_bytes"),
    ({"retention_consumed": 1}, "retention_consumed"),
    ({"dead_letter": "a/b"}, "dead-letter"),
    ({"deliver_at": "some"}, "deliver_at: expected one of none, plain, all, not 'some'"),
    ({"deliver_at": True}, "deliver_at"),
    ({"colour": "red"}, "there is no setting 'colour'; there are partitions"),
]


def test_bad_settings_are_refused(store: api.Store) -> None:
    for settings, reason in BAD_SETTINGS:
        with pytest.raises(BadInput, match=reason):
            store.topic("orders", **settings)

    assert store.topics() == []


def test_settings_are_changed_for_every_opening(opener: Opener) -> None:
    with opener() as store, opener() as other:
        topic, again = store.topic("orders"), other.topic("orders")
        assert topic.configure(partitions=2).partitions == 2
        assert store.configure_topic("orders", {"message_size_max": 10}).message_size_max == 10
        again.refresh()

        assert (again.partition_count, again.settings.partitions) == (2, 2)
        with pytest.raises(TooLarge):
            again.put(b"x" * 11)


def test_partitions_are_added_and_never_removed(opener: Opener) -> None:
    with opener() as store, opener() as other:
        topic, again = store.topic("orders", partitions=2), other.topic("orders")
        topic.put(b"one", partition=1)

        topic.configure(partitions=4)

        topic.put(b"two", partition=3)
        assert topic.partition_count == 4
        with pytest.raises(BadInput, match="but not removed"):
            topic.configure(partitions=3)
        with pytest.raises(BadInput, match="cannot be changed"):
            topic.configure(version=1)
        with pytest.raises(NoSuchPartition, match="partitions 0 to 3"):
            topic.put(b"x", partition=4)
        again.refresh()
        assert bodies(again.last(2)) == [b"one", b"two"]


def test_a_deleted_topic_no_longer_exists_for_every_opening(opener: Opener) -> None:
    with opener() as store, opener() as other:
        store.topic("orders").put(b"one")
        opened_before = other.topic("orders")
        opened_before.put(b"two")

        store.delete_topic("orders")

        assert store.topics() == other.topics() == []
        for call in (
            lambda: opened_before.put(b"lost"),
            lambda: opened_before.put_many([b"lost"]),
            lambda: store.delete_topic("orders"),
            lambda: store.existing_topic("orders"),
        ):
            with pytest.raises(NoSuchTopic):
                call()
        assert other.topic("orders").last(5) == []
        other.topic("orders").put(b"new")
        assert bodies(store.topic("orders").last(5)) == [b"new"]


def test_no_handle_brings_a_deleted_topic_back(opener: Opener) -> None:
    store: Any
    with opener() as store, opener() as other:
        topic, queue = store.topic("orders"), store.queue("jobs", retention_age_s=60.0)
        stream, leases = topic.group("stream", mode="stream"), topic.group("queue", mode="queue")
        topic.put(b"one")
        parked = topic.put(b"later", delay=600.0)
        queue.put(1)
        queue.put(2, delay=600.0)
        stream.read()
        messages = leases.take(wait=0.0)

        for name in ("orders", "jobs"):
            other.delete_topic(name)

        calls: list[Callable[[], Any]] = [
            lambda: topic.put(b"lost"),
            lambda: topic.put(b"lost", delay=600.0),
            lambda: topic.put_many([b"lost"]),
            lambda: topic.configure(durability="os"),
            lambda: topic.group("another", mode="stream"),
            lambda: stream.read(),
            lambda: stream.commit(),
            lambda: leases.take(wait=0.0),
            lambda: leases.ack(messages[0]),
            lambda: topic.cancel(parked.id),
            lambda: queue.put(3),
            lambda: queue.put(3, delay=600.0),
            lambda: queue.get_nowait(),
            lambda: queue.qsize(),
            lambda: store.describe("orders"),
        ]
        for call in calls:
            with suppress(WarrenError):
                call()
        with pytest.raises(NoSuchTopic):
            topic.put(b"lost")
        with pytest.raises(NoSuchTopic):
            queue.put(4)
        assert store.topics() == other.topics() == []


def test_topics_and_messages_outlast_the_opening(opener: Opener) -> None:
    with opener() as store:
        id = store.id
        receipt = store.topic("orders", 3).put(b"1", partition=2)
        assert not store.is_closed
    with opener() as again:
        (message,) = again.existing_topic("orders").last()
        assert again.topics() == ["orders"]
        assert again.topic("orders").partition_count == 3
        assert bodies(again.topic("orders").partition(2).read(0)) == [b"1"]

        assert store.is_closed
        assert (again.id, message.number, message.body) == (id, receipt.number, b"1")


@pytest.mark.parametrize("opener", SYNCHRONOUS, indirect=True)
def test_a_topic_that_is_open_is_the_same_object(store: api.Store) -> None:
    assert store.topic("orders") is store.topic("orders") is store.existing_topic("orders")


# --- Puts ---


def test_a_message_keeps_all_that_it_was_put_with(store: api.Store) -> None:
    topic = store.topic("orders", 2)

    receipt = topic.put(b"body", key=b"k", tag="new", headers={"h": b"v"}, id="id-1", corr_offset=64, partition=1)

    message = topic.partition(1).at(receipt.number)
    assert message is not None
    assert (message.body, message.key, message.tag, message.id) == (b"body", b"k", "new", "id-1")
    assert (dict(message.headers), message.corr_offset, message.topic) == ({"h": b"v"}, 64, "orders")
    assert receipt == ("orders", 1, message.number, message.offset, message.timestamp, "id-1")


def test_messages_put_together_keep_their_columns_and_order(store: api.Store) -> None:
    topic = store.topic("orders")

    places = topic.put_many(
        [b"1", b"2"], tags=["a", "b"], keys=[b"k", None], ids=["i", "j"], headers=[{"h": b"v"}, None]
    )

    first, second = topic.partition(0).read(0)
    assert [tuple(place) for place in places] == [(0, 0), (0, 1)]
    assert (first.body, first.tag, first.key, first.id, dict(first.headers)) == (b"1", "a", b"k", "i", {"h": b"v"})
    assert (second.body, second.tag, second.key, second.id, dict(second.headers)) == (b"2", "b", None, "j", {})


def test_messages_of_one_key_go_to_one_partition(store: api.Store) -> None:
    topic = store.topic("orders", 4)
    keys = [b"%d" % number for number in range(20)]

    places = topic.put_many([b"together"] * 20, keys=keys)
    receipts = [topic.put(b"alone", key=key) for key in keys]

    assert [place.partition for place in places] == [receipt.partition for receipt in receipts]
    assert [place.partition for place in places] == [partition_of(key, 4) for key in keys]
    assert len({place.partition for place in places}) > 1
    messages = topic.partition(places[0].partition).read(0)
    assert [message.body for message in messages if message.key == keys[0]] == [b"together", b"alone"]


def test_without_a_key_partitions_take_turns_by_put(store: api.Store) -> None:
    topic = store.topic("orders", 3)

    batches = [topic.put_many([b"a", b"b"]) for _ in range(4)]
    singles = [topic.put(b"x").partition for _ in range(3)]

    first = batches[0][0].partition
    turns = [(first + turn) % 3 for turn in range(7)]
    assert [[place.partition for place in batch] for batch in batches] == [[turn, turn] for turn in turns[:4]]
    assert singles == turns[4:]


def test_the_places_of_a_batch_name_its_messages(store: api.Store) -> None:
    topic = store.topic("orders", 4)
    sent = [b"%d" % number for number in range(100)]
    keys = [None if number % 10 == 0 else b"key-%d" % (number % 7) for number in range(100)]

    places = topic.put_many(sent, keys=keys, tags=[f"t{number}" for number in range(100)])

    logs = {place.partition: topic.partition(place.partition) for place in places}
    for number, place in enumerate(places):
        message = logs[place.partition].at(place.number)
        assert message is not None
        assert (message.body, message.key, message.tag) == (sent[number], keys[number], f"t{number}")
        assert (message.topic, message.partition) == ("orders", place.partition)
    assert len({place.partition for place, key in zip(places, keys, strict=True) if key is None}) == 1


def test_places_of_one_partition_are_a_sequence(store: api.Store) -> None:
    places = store.topic("orders").put_many([b"a", b"b", b"c"])

    assert list(places) == [(0, 0), (0, 1), (0, 2)]
    assert list(places[1:]) == [(0, 1), (0, 2)]
    assert places[-1].number == 2


def test_a_bad_put_is_refused_and_changes_nothing(store: api.Store) -> None:
    topic = store.topic("orders", 2, message_size_max=10)
    wrong: Any = "text"
    with pytest.raises(TooLarge):
        topic.put(b"x" * 11)
    with pytest.raises(TooLarge):
        topic.put_many([b"x", b"x" * 11])
    with pytest.raises(NoSuchPartition):
        topic.put(b"x", partition=2)
    with pytest.raises(NoSuchPartition):
        topic.put_many([b"x"], partition=-1)
    with pytest.raises(BadInput):
        topic.put(wrong)
    with pytest.raises(BadInput, match="key"):
        topic.put(b"x", key=wrong)
    with pytest.raises(BadInput, match="bytes"):
        topic.put_many([b"x", wrong])
    with pytest.raises(BadInput, match="keys has 1 entries for 2 bodies"):
        topic.put_many([b"x", b"y"], keys=[b"k"])
    with pytest.raises(BadInput, match="key"):
        topic.put_many([b"x"], keys=[wrong])
    with pytest.raises(BadInput):
        topic.put_many([b"x"], tag="a", tags=["b"])

    assert topic.last() == []


def test_a_request_is_answered(store: api.Store) -> None:
    topic = store.topic("questions")
    with ThreadPoolExecutor(1) as pool, topic.group("workers", mode="queue") as group:
        answer = pool.submit(topic.request, b"2 + 2", timeout=WAIT_S)
        question = group.take(wait=WAIT_S)
        assert question is not None
        question.reply(b"4")

        assert answer.result(WAIT_S).body == b"4"


def test_a_request_without_an_answer_ends(store: api.Store) -> None:
    with pytest.raises(NoReply, match=r"within 0.05 s") as caught:
        store.topic("questions").request(b"2 + 2", timeout=0.05)

    assert isinstance(caught.value, TimeoutError)


def test_a_request_needs_a_time_to_wait_and_headers(store: api.Store) -> None:
    topic = store.topic("questions")
    for timeout in (0, -1, 1e9):
        with pytest.raises(BadInput, match="timeout"):
            topic.request(b"?", timeout=timeout)
    with pytest.raises(UnsupportedByVersion):
        store.topic("old", version=1).request(b"?", timeout=1.0)

    assert topic.last() == []


def test_a_reply_goes_to_the_topic_that_the_message_names(store: api.Store) -> None:
    inbox, topic = store.topic("inbox"), store.topic("questions")
    topic.put(b"?", id="question-1", reply_to="inbox")
    (message,) = topic.last()

    receipt = message.reply(b"42")

    assert receipt.topic == "inbox"
    assert [(each.body, each.tag, each.corr_offset) for each in inbox.last()] == [(b"42", "question-1", message.offset)]


def test_a_message_that_expects_no_reply_cannot_be_replied_to(store: api.Store) -> None:
    topic = store.topic("questions")
    topic.put(b"no answer wanted")
    topic.put(b"?", reply_to="nowhere")
    plain, lost = topic.last(2)

    with pytest.raises(BadInput, match="expects no answer"):
        plain.reply(b"42")
    with pytest.raises(NoSuchTopic):
        lost.reply(b"42")
    with pytest.raises(BadInput, match="open store"):
        pickle.loads(pickle.dumps(plain)).reply(b"42")


def test_a_message_can_be_pickled_and_copied(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put(b"x", headers={"a": b"b"})
    (message,) = topic.last()

    assert pickle.loads(pickle.dumps(message)) == message == copy.deepcopy(message)
    assert type(pickle.loads(pickle.dumps(message)).topic) is str


# --- Reads ---


def test_a_partition_is_read_by_number(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(10)], tags=["even", "odd"] * 5)
    log = topic.partition(0)

    assert (log.first, log.end) == (0, 10)
    assert bodies(log.read(7)) == [b"7", b"8", b"9"]
    assert bodies(log.read(2, limit=2)) == [b"2", b"3"]
    assert bodies(log.read(0, tag="odd", limit=2)) == [b"1", b"3"]
    assert bodies(log.read(0, bytes_max=3)) == [b"0", b"1", b"2"]
    assert log.read(10) == []
    assert log.at(10) is None
    assert bodies(log.last(2)) == [b"8", b"9"]
    with pytest.raises(NoSuchPartition):
        topic.partition(1)


def test_a_partition_is_read_backwards(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(300)])
    log = topic.partition(0)

    assert bodies(list(log.backwards())) == [b"%d" % number for number in reversed(range(300))]
    assert bodies(list(log.backwards(2))) == [b"2", b"1", b"0"]


def test_a_topic_is_read_by_time(store: api.Store) -> None:
    topic = store.topic("orders", 2)
    receipts = [topic.put(b"%d" % number, tag="even" if number % 2 == 0 else "odd") for number in range(6)]
    times = [receipt.timestamp for receipt in receipts]
    start, end = times[2], times[4]
    expected = [b"%d" % number for number, time in enumerate(times) if start <= time < end]

    assert bodies(list(topic.between(start, end))) == expected
    assert bodies(list(topic.since(times[0]))) == [b"%d" % number for number in range(6)]
    assert bodies(list(topic.since(times[0], tag="odd"))) == [b"1", b"3", b"5"]
    assert bodies(topic.last(2)) == [b"4", b"5"]
    assert list(topic.since(datetime(2200, 1, 1, tzinfo=UTC))) == []
    with pytest.raises(BadInput):
        list(topic.since(datetime(2020, 1, 1)))  # noqa: DTZ001  # without a zone on purpose


def test_a_time_is_found(store: api.Store) -> None:
    topic = store.topic("orders")
    receipt = topic.put(b"1")
    log = topic.partition(0)

    assert log.find_time(receipt.timestamp) == 0
    assert log.find_time(receipt.timestamp + 1) == 1


def test_a_reader_waits_for_a_message(store: api.Store) -> None:
    topic = store.topic("orders")
    log = topic.partition(0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.wait, 0, WAIT_S)
        topic.put(b"1")

        assert waiting.result(WAIT_S) is True
    assert log.wait(1, 0.01) is False


def test_a_partition_is_scanned_as_arrow(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put_many([b"%d" % number for number in range(10)], tags=["even", "odd"] * 5)

    rows = [
        row for batch in topic.partition(0).scan(2, columns=["number", "body"], tag="odd") for row in batch.to_pylist()
    ]

    assert [(row["number"], row["body"]) for row in rows] == [(number, b"%d" % number) for number in (3, 5, 7, 9)]


def test_a_broadcast_gets_new_messages_and_keeps_no_position(store: api.Store) -> None:
    topic = store.topic("orders")
    topic.put(b"before")
    listener = topic.broadcast()
    topic.put(b"after")

    assert bodies(listener.read(wait=WAIT_S)) == [b"after"]
    assert bodies(topic.broadcast(start=0).read(wait=WAIT_S)) == [b"before", b"after"]
    assert topic.groups() == []


def test_iterating_over_a_broadcast_ends_after_silence(store: api.Store) -> None:
    topic = store.topic("orders", 2)
    topic.put_many([b"%d" % number for number in range(5)], partition=0)

    messages = list(topic.broadcast(start=START, wait=SHORT_S))

    assert [(message.partition, message.number) for message in messages] == [(0, number) for number in range(5)]
    assert list(topic.broadcast(wait=0)) == []


def test_iterating_over_a_broadcast_continues_with_later_messages(store: api.Store) -> None:
    topic = store.topic("orders", 2)
    listener = topic.broadcast()
    topic.put(b"a", partition=1)
    with ThreadPoolExecutor(1) as pool:
        messages = iter(listener)
        first = next(messages)
        second = pool.submit(next, messages)
        topic.put(b"b", partition=1)

        assert bodies([first, second.result(WAIT_S)]) == [b"a", b"b"]


def test_a_topic_is_described(store: api.Store) -> None:
    topic = store.topic("orders", 2)
    topic.put_many([b"x"] * 3, partition=1)
    topic.group("billing").close()

    facts = topic.describe()

    assert (facts.topic, facts.messages, list(facts.groups)) == ("orders", 3, ["billing"])
    assert [(part.first, part.end) for part in facts.partitions] == [(0, 0), (0, 3)]


# --- Batching ---


def test_gathered_puts_are_written_in_order(store: api.Store) -> None:
    with store.batching(linger=0.01) as puts:
        futures = [puts.put("orders", b"%d" % number, tag="t") for number in range(50)]
        assert puts.flush(WAIT_S)
        places = [future.result(WAIT_S) for future in futures]

    messages = store.existing_topic("orders").partition(0).read(0)
    assert [place.number for place in places] == list(range(50))
    assert bodies(messages) == [b"%d" % number for number in range(50)]
    assert {message.tag for message in messages} == {"t"}


def test_a_gathered_put_that_is_refused_leaves_the_others(store: api.Store) -> None:
    topic = store.topic("orders", message_size_max=5)
    with store.batching(linger=0.01) as puts:
        with pytest.raises(TooLarge):
            puts.put(topic, b"too large").result(WAIT_S)
        place = puts.put(topic, b"small").result(WAIT_S)

    assert (place.number, bodies(topic.last(2))) == (0, [b"small"])
