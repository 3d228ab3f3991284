"""Putting to a topic, and reading from it by place and time; requests and their answers."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.stores import quick_store
from warren.errors import BadInput, NoReply, NoSuchPartition, NoSuchTopic, TooLarge, UnsupportedByVersion
from warren.message import Message
from warren.queue.state.routing import partition_of
from warren.queue.topic import Topic


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


# --- Routing ---


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [(b"", 7, 0), (b"customer-7", 4, 0), (b"customer-8", 4, 1), (b"\x00\xff", 1000, 594), ("ключ".encode(), 16, 10)],
)
def test_the_partition_of_a_key_never_changes(key: bytes, partitions: int, expected: int) -> None:
    assert partition_of(key, partitions) == expected


def test_messages_of_one_key_meet_in_one_partition(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=4)
        alone = topic.put(b"a", key=b"k")
        together = topic.put_many([b"b", b"c", b"d"], keys=[b"k", b"other", b"k"])

        assert {alone.partition, together[0].partition, together[2].partition} == {partition_of(b"k", 4)}
        assert bodies([m for m in topic.partition(alone.partition).read(0) if m.key == b"k"]) == [b"a", b"b", b"d"]


def test_without_a_key_the_partitions_take_turns_by_batch(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=3)

        places = [topic.put_many([b"a", b"b"]) for _ in range(4)]
        singles = [topic.put(b"x").partition for _ in range(3)]

        first = places[0][0].partition
        turns = [(first + turn) % 3 for turn in range(7)]
        assert [[place.partition for place in batch] for batch in places] == [[turn, turn] for turn in turns[:4]]
        assert singles == turns[4:]


def test_programs_that_put_one_message_do_not_all_put_it_to_the_first_partition(tmp_path: Path) -> None:
    clock, partitions = SimulatedClock(), set()
    for _ in range(3):
        clock.pass_ns(1_000)
        with quick_store(tmp_path, clock=clock) as store:
            partitions.add(store.topic("orders", partitions=3).put(b"x").partition)

    assert partitions == {0, 1, 2}


def test_the_receipts_of_a_batch_name_its_messages(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=4)
        sent = [b"%d" % number for number in range(100)]
        keys = [None if number % 10 == 0 else b"key-%d" % (number % 7) for number in range(100)]

        places = topic.put_many(sent, keys=keys, tags=[f"t{number}" for number in range(100)])

        for number, place in enumerate(places):
            message = topic.partition(place.partition).at(place.number)
            assert message is not None
            assert (message.body, message.key, message.tag) == (sent[number], keys[number], f"t{number}")
            assert (message.topic, message.partition) == ("orders", place.partition)
        assert len({place.partition for place, key in zip(places, keys, strict=True) if key is None}) == 1


def test_places_of_one_partition_are_a_sequence(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        places = store.topic("orders").put_many([b"a", b"b", b"c"])

        assert list(places) == [(0, 0), (0, 1), (0, 2)]
        assert list(places[1:]) == [(0, 1), (0, 2)]
        assert places[-1].number == 2


def test_a_receipt_names_the_message(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=2)
        receipt = topic.put(b"one", id="id-1", partition=1, headers={"trace": b"1"}, corr_offset=77)

        message = topic.partition(1).at(receipt.number)

        assert message is not None
        assert (receipt.topic, receipt.partition, receipt.number, receipt.id) == ("orders", 1, 0, "id-1")
        assert (message.offset, message.timestamp) == (receipt.offset, receipt.timestamp)
        assert (message.headers, message.corr_offset) == ({"trace": b"1"}, 77)


def test_bad_puts_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders", partitions=2, message_size_max=100)

        with pytest.raises(TooLarge):
            topic.put(b"x" * 101)
        with pytest.raises(BadInput, match="bytes"):
            topic.put_many([b"a", 5])  # type: ignore[list-item]
        with pytest.raises(BadInput, match="keys has 1 entries for 2 bodies"):
            topic.put_many([b"a", b"b"], keys=[b"k"])
        with pytest.raises(BadInput, match="key"):
            topic.put(b"a", key="text")  # type: ignore[call-overload]
        with pytest.raises(BadInput, match="key"):
            topic.put_many([b"a"], keys=["text"])  # type: ignore[list-item]
        with pytest.raises(NoSuchPartition):
            topic.put(b"a", partition=2)
        with pytest.raises(NoSuchPartition):
            topic.put_many([b"a"], partition=-1)
        assert topic.last(10) == []


# --- By time ---


def test_messages_are_read_by_time_over_all_partitions(tmp_path: Path) -> None:
    clock = SimulatedClock()
    with quick_store(tmp_path, clock=clock) as store:
        topic = store.topic("orders", partitions=3)
        times = []
        for number in range(12):
            times.append(topic.put(b"%d" % number, tag="even" if number % 2 == 0 else "odd").timestamp)
            clock.sleep(1)

        assert bodies(topic.last(3)) == [b"9", b"10", b"11"]
        assert topic.last(0) == []
        assert bodies(list(topic.since(times[8]))) == [b"8", b"9", b"10", b"11"]
        assert bodies(list(topic.since(times[8], tag="odd"))) == [b"9", b"11"]
        assert bodies(list(topic.between(times[2], times[5]))) == [b"2", b"3", b"4"]
        assert list(topic.between(times[5], times[2])) == []


# --- Request and reply ---


class Responder(threading.Thread):
    """Answers the first message of a topic in another thread."""

    def __init__(self, topic: Topic, answer: bytes) -> None:
        super().__init__(daemon=True)
        self._log, self._answer = topic.partition(0), answer
        self.start()

    def run(self) -> None:
        assert self._log.wait(0, 30.0)
        message = self._log.at(0)
        assert message is not None
        message.reply(self._answer + message.body)


def test_a_request_gets_the_answer_to_it(tmp_path: Path) -> None:
    with quick_store(tmp_path, defaults={"durability": "os"}) as store:
        topic = store.topic("sums")
        replies = store.topic("sums.replies")
        replies.put(b"an answer to another request", tag="0" * 32)
        Responder(topic, b"hello ")

        reply = topic.request(b"world", timeout=30.0)

        request = topic.partition(0).at(0)
        assert request is not None
        assert reply.body == b"hello world"
        assert (reply.corr_offset, reply.topic) == (request.offset, "sums.replies")


def test_a_request_without_a_reply_times_out(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store, pytest.raises(NoReply, match=r"within 0.01 s") as caught:
        store.topic("sums").request(b"?", timeout=0.01)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("timeout", [0, -1, 1e9])
def test_a_request_needs_a_time_to_wait(tmp_path: Path, timeout: float) -> None:
    with quick_store(tmp_path) as store:
        with pytest.raises(BadInput, match="timeout"):
            store.topic("sums").request(b"?", timeout=timeout)

        assert store.topic("sums").last(1) == []


def test_a_reply_goes_to_the_topic_that_the_message_names(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        inbox = store.topic("inbox")
        store.topic("sums").put(b"?", id="question-1", reply_to="inbox")
        message = store.topic("sums").last(1)[0]

        receipt = message.reply(b"42")

        assert receipt.topic == "inbox"
        assert [(m.body, m.tag, m.corr_offset) for m in inbox.last(1)] == [(b"42", "question-1", message.offset)]


def test_a_message_that_expects_no_reply_cannot_be_replied_to(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("sums")
        topic.put(b"no answer wanted")
        topic.put(b"?", reply_to="nowhere")
        plain, lost = topic.last(2)

        with pytest.raises(BadInput, match="expects no answer"):
            plain.reply(b"42")
        with pytest.raises(NoSuchTopic):
            lost.reply(b"42")
        with pytest.raises(BadInput, match="open store"):
            pickle.loads(pickle.dumps(plain)).reply(b"42")


def test_a_message_can_be_pickled_and_copied(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store:
        store.topic("sums").put(b"x", headers={"a": b"b"})
        message = store.topic("sums").last(1)[0]

        assert pickle.loads(pickle.dumps(message)) == message == copy.deepcopy(message)
        assert type(pickle.loads(pickle.dumps(message)).topic) is str


def test_version_1_has_no_headers_for_requests(tmp_path: Path) -> None:
    with quick_store(tmp_path) as store, pytest.raises(UnsupportedByVersion):
        store.topic("sums", version=1).request(b"?", timeout=1.0)
