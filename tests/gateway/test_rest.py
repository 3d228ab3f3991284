"""REST: messages that are put over HTTP are visible to Kafka's clients and to embedded ones, and the reverse."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.http import Http, running_http, until
from tests.support.broker.running import PATIENCE_S
from warren.gateway.handlers import groups
from warren.gateway.http.limits import HTTP_BODY_SIZE_MAX

confluent_kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with running_http(tmp_path_factory.mktemp("rest") / "data") as server:
        yield server


def bodies(document: Any) -> list[Any]:
    return [message["body"] for message in document["messages"]]


def consumed(served: Http, topic: str, count: int) -> list[Any]:
    """Returns the first messages of a topic as a Kafka client reads them."""
    settings = {"bootstrap.servers": served.running.address, "group.id": "kafka", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    messages: list[Any] = []
    while len(messages) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        messages.append(message)
    consumer.close()
    return messages


# --- Messages ---


def test_messages_put_over_http_are_read_by_a_kafka_client(served: Http) -> None:
    binary = {"base64": base64.b64encode(b"\xff\x00").decode()}
    message = {"body": binary, "key": "k", "tag": "eu.de", "headers": {"trace": "1", "raw": binary}}

    answered = served.ask("POST", "/v1/topics/to-kafka/messages", {"messages": [message, {"body": "ü"}]})

    assert answered.document == {"places": [{"partition": 0, "number": 0}, {"partition": 0, "number": 1}], "parked": []}
    first, second = consumed(served, "to-kafka", 2)
    assert (first.value(), first.key(), second.value(), second.key()) == (b"\xff\x00", b"k", "ü".encode(), None)
    assert {("trace", b"1"), ("raw", b"\xff\x00"), ("warren.tag", b"eu.de")} <= set(first.headers())


def test_messages_of_a_kafka_client_are_read_over_http(served: Http) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": served.running.address})
    producer.produce("from-kafka", b"\xff", key=b"k", headers={"warren.tag": b"a.b", "x": b"y"})
    producer.produce("from-kafka", b"text")
    assert producer.flush(PATIENCE_S) == 0

    page = served.get("/v1/topics/from-kafka/messages?tag=a.*")
    one = served.get("/v1/topics/from-kafka/messages/0/1?encoding=base64")

    assert bodies(page) == [{"base64": "/w=="}]
    assert (page["messages"][0]["key"], page["messages"][0]["tag"]) == ("k", "a.b")
    assert page["messages"][0]["headers"] == {"x": "y"}
    assert one["body"] == {"base64": "dGV4dA=="}


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_a_key_goes_to_one_partition_and_every_message_has_its_place(served: Http, durability: str) -> None:
    name = f"keyed-{durability}"
    assert served.ask("POST", "/v1/topics", {"topic": name, "partitions": 4, "durability": durability}).status == 201
    messages = [{"body": f"{number}", "key": f"key-{number % 7}"} for number in range(50)] + [{"body": "no key"}]

    places = served.ask("POST", f"/v1/topics/{name}/messages", {"messages": messages}).document["places"]

    topic = served.broker.store.topic(name)
    for message, place in zip(messages, places, strict=True):
        stored = topic.partition(place["partition"]).at(place["number"])
        assert stored is not None
        assert stored.body == message["body"].encode()
        assert "key" not in message or place["partition"] == topic.route(message["key"].encode())
    assert len({place["partition"] for place in places}) > 1


def test_messages_are_read_page_by_page_forwards_and_backwards(served: Http) -> None:
    served.put("pages", *map(str, range(10)))

    first = served.get("/v1/topics/pages/messages?limit=4")
    second = served.get(f"/v1/topics/pages/messages?limit=4&number={first['next']}")
    end = served.get("/v1/topics/pages/messages?number=10")
    last = served.get("/v1/topics/pages/messages?backwards=true&limit=3")
    before = served.get(f"/v1/topics/pages/messages?backwards=true&limit=100&number={last['next']}")

    assert (bodies(first), bodies(second)) == (["0", "1", "2", "3"], ["4", "5", "6", "7"])
    assert (bodies(end), end["next"]) == ([], 10)
    assert bodies(last) == ["9", "8", "7"]
    assert (bodies(before), before["next"]) == (["6", "5", "4", "3", "2", "1", "0"], None)


def test_messages_are_read_by_time_in_one_partition_and_in_all(served: Http) -> None:
    served.ask("POST", "/v1/topics", {"topic": "times", "partitions": 2})
    served.put("times", "early", partition=0)
    middle = served.broker.store.topic("times").partition(0).last()[0].timestamp + 1
    while datetime.now(UTC).timestamp() * 1_000_000 <= middle:
        pass
    served.put("times", "late", partition=1)
    since = datetime.fromtimestamp(middle / 1_000_000, UTC).isoformat().replace("+00:00", "Z")

    assert bodies(served.get("/v1/topics/times/messages")) == ["early", "late"]
    assert bodies(served.get(f"/v1/topics/times/messages?since={since}")) == ["late"]
    assert bodies(served.get(f"/v1/topics/times/messages?partition=0&since={since}")) == []
    assert bodies(served.get("/v1/topics/times/messages?backwards=true")) == ["late", "early"]
    assert served.ask("GET", "/v1/topics/times/messages?number=0").problem == (400, "bad_input")


def test_a_waiting_request_is_answered_when_a_message_comes(served: Http) -> None:
    served.put("waited", "old")
    pages: list[Any] = []
    path = "/v1/topics/waited/messages?number=1&wait_s=20&tag=wanted"
    thread = threading.Thread(target=lambda: pages.append(served.get(path)))

    thread.start()
    until(lambda: served.broker.long_polls.parked_count == 1)
    served.put("waited", "not for them")
    served.ask("POST", "/v1/topics/waited/messages", {"messages": [{"body": "new", "tag": "wanted"}]})
    thread.join(PATIENCE_S)

    assert bodies(pages[0]) == ["new"]
    assert pages[0]["next"] == 3


def test_large_bodies_are_returned_whole_and_those_over_the_limit_are_errors(served: Http) -> None:
    body = bytes(range(256)) * 10_000
    coded = {"base64": base64.b64encode(body).decode()}
    served.ask("POST", "/v1/topics/bodies/messages", {"messages": [{"body": coded}, {"body": "small"}]})
    served.broker.store.topic("bodies").put(bytes(HTTP_BODY_SIZE_MAX + 1))

    first = served.get("/v1/topics/bodies/messages")
    over = served.ask("GET", "/v1/topics/bodies/messages?number=2")

    assert bodies(first) == [coded]
    assert bodies(served.get(f"/v1/topics/bodies/messages?number={first['next']}&limit=1")) == ["small"]
    assert over.problem == (413, "too_large")
    assert "message 2" in over.document["detail"]


def test_a_retired_number_is_an_error(served: Http) -> None:
    served.ask("POST", "/v1/topics", {"topic": "retired", "block_size": 4096, "retention_bytes": 1})
    topic = served.broker.store.topic("retired")
    for _ in range(8):
        topic.put(bytes(2000))
    topic.retire()
    assert topic.partition(0).first > 0

    answered = served.ask("GET", "/v1/topics/retired/messages?number=0")

    assert answered.problem[0] == 410
    assert served.ask("GET", "/v1/topics/retired/messages/0/0").status == 410


# --- Topics ---


def test_a_topic_is_made_described_changed_and_removed(served: Http) -> None:
    made = served.ask("POST", "/v1/topics", {"topic": "made", "partitions": 2, "retention_age_s": 60})
    again = served.ask("POST", "/v1/topics", {"topic": "made"})
    changed = served.ask("PATCH", "/v1/topics/made", {"partitions": 3, "retention_age_s": None})
    fewer = served.ask("PATCH", "/v1/topics/made", {"partitions": 1})
    listed = [topic["topic"] for topic in served.get("/v1/topics")["topics"]]
    gone = served.ask("DELETE", "/v1/topics/made")

    assert (made.status, made.document["settings"]["retention_age_s"]) == (201, 60)
    assert again.problem == (409, "topic_exists")
    assert changed.document["settings"]["retention_age_s"] is None
    assert len(changed.document["partitions"]) == 3
    assert fewer.problem == (400, "bad_input")
    assert "made" in listed
    assert (gone.status, gone.data) == (204, b"")
    assert served.ask("GET", "/v1/topics/made").problem == (404, "no_such_topic")
    assert served.ask("DELETE", "/v1/topics/made").problem == (404, "no_such_topic")


# --- What waits ---


def test_a_delayed_message_is_listed_and_cancelled_once(served: Http) -> None:
    parked = served.put("later", "one", "two", delay_s=3600)["parked"]

    listed = served.get("/v1/topics/later/scheduled?limit=1")["scheduled"]
    behind = served.get(f"/v1/topics/later/scheduled?after={listed[0]['id']}")["scheduled"]
    first = served.ask("DELETE", f"/v1/topics/later/scheduled/{parked[0]['id']}").document
    second = served.ask("DELETE", f"/v1/topics/later/scheduled/{parked[0]['id']}").document

    assert [each["body"] for each in [*listed, *behind]] == ["one", "two"]
    assert listed[0]["id"] == parked[0]["id"]
    assert (first, second) == ({"is_cancelled": True}, {"is_cancelled": False})
    assert served.get("/v1/topics/later/messages")["messages"] == []
    assert {topic["topic"]: topic["parked"] for topic in served.get("/v1/topics")["topics"]}["later"] == 1


def test_messages_are_taken_and_settled_by_tokens(served: Http) -> None:
    served.put("work", "done", "failed", "kept")
    group = "/v1/topics/work/groups/packers"

    messages = served.ask("POST", f"{group}/take", {"limit": 3}).document["messages"]
    leases = {message["body"]: message["lease"] for message in messages}
    acked = served.ask("POST", f"{group}/ack", {"leases": [leases["done"]]})
    nacked = served.ask("POST", f"{group}/nack", {"leases": [leases["failed"]], "delay_s": 0, "reason": "again"})
    extended = served.ask("POST", f"{group}/extend", {"leases": [leases["kept"]], "seconds": 60})
    again = served.ask("POST", f"{group}/take", {"limit": 3, "wait_s": 5}).document["messages"]
    lost = served.ask("POST", f"{group}/ack", {"leases": [leases["failed"]]})
    facts = served.get(group)
    # The broker cannot know whether an HTTP client is still connected: these leases end unless they are extended.
    assert not served.broker.store.renewals._hands

    assert [acked.status, nacked.status, extended.status] == [204] * 3
    assert [(message["body"], message["attempt"]) for message in again] == [("failed", 2)]
    assert lost.problem == (409, "lease_lost")
    assert (facts["behind"], facts["leased"], facts["mode"]) == (2, 2, "queue")
    assert facts in served.get("/v1/groups")["groups"]
    assert facts in served.get("/v1/topics/work/groups")["groups"]


def test_a_lost_lease_is_reported_and_the_others_are_settled(served: Http) -> None:
    served.put("mixed", "lost", "kept")
    group = "/v1/topics/mixed/groups/packers"
    served.ask("PUT", group, {"attempts_max": 1})
    messages = served.ask("POST", f"{group}/take", {"limit": 2}).document["messages"]
    leases = [message["lease"] for message in messages]
    served.ask("POST", f"{group}/ack", {"leases": leases[:1]})

    extended = served.ask("POST", f"{group}/extend", {"leases": leases, "seconds": 60})
    nacked = served.ask("POST", f"{group}/nack", {"leases": leases, "reason": "no luck"})
    again = served.ask("POST", f"{group}/nack", {"leases": leases[1:], "reason": "no luck"})

    assert [each.problem for each in (extended, nacked, again)] == [(409, "lease_lost")] * 3
    assert [each["message"]["body"] for each in served.get(f"{group}/dead")["dead"]] == ["kept"]


def test_no_more_is_taken_than_an_answer_holds(served: Http) -> None:
    store = served.broker.store
    store.topic("large").put_many([bytes(400_000)] * 4)
    store.topic("small").put_many([b""] * 50)

    large = served.ask("POST", "/v1/topics/large/groups/g/take", {"limit": 4}).document["messages"]
    small = served.ask("POST", "/v1/topics/small/groups/g/take", {"limit": 40}).document["messages"]

    assert [message["number"] for message in large] == [0, 1]
    assert [message["number"] for message in small] == list(range(40))
    assert served.get("/v1/topics/large/groups/g")["leased"] == 2


def test_a_message_too_large_for_an_answer_is_left_for_others(served: Http) -> None:
    topic = served.broker.store.topic("huge")
    topic.put(bytes(HTTP_BODY_SIZE_MAX + 1))

    answered = served.ask("POST", "/v1/topics/huge/groups/g/take", {})

    assert answered.problem == (413, "too_large_for_http")
    with topic.group("g", mode="queue") as group:
        message = group.take(wait=PATIENCE_S)
        assert message is not None
        assert (message.number, message.attempt) == (0, 1)


def test_a_too_large_message_costs_no_attempt_and_is_passed_by_rejecting_it(served: Http) -> None:
    topic, group = served.broker.store.topic("mixed-sizes"), "/v1/topics/mixed-sizes/groups/g"
    topic.put_many([b"a", bytes(HTTP_BODY_SIZE_MAX + 1), b"c"])
    served.ask("PUT", group, {"attempts_max": 1})

    before = served.ask("POST", f"{group}/take", {"limit": 10}).document["messages"]
    refused = [served.ask("POST", f"{group}/take", {"limit": 1})]
    others = [each["number"] for each in served.ask("POST", f"{group}/take", {"limit": 1}).document["messages"]]
    refused += [served.ask("POST", f"{group}/take", {"limit": 10}) for _ in range(3)]
    dead_before = served.get(f"{group}/dead")["dead"]
    place = {name: refused[0].document[name] for name in ("partition", "number")}
    rejected = served.ask("POST", f"{group}/reject", {**place, "reason": "too large"})
    again = served.ask("POST", f"{group}/reject", place)
    held = served.ask("POST", f"{group}/reject", {"partition": 0, "number": 0})

    assert [message["number"] for message in before] == [0]
    assert [answer.problem for answer in refused] == [(413, "too_large_for_http")] * 4
    assert "/v1/topics/mixed-sizes/groups/g/reject" in refused[0].document["detail"]
    assert others == [2]
    assert dead_before == []
    assert place == {"partition": 0, "number": 1}
    assert rejected.status == 204
    assert [again.problem, held.problem] == [(409, "lease_lost")] * 2
    assert served.ask("POST", f"{group}/take", {}).document["messages"] == []
    (letter,) = served.get(f"{group}/dead")["dead"]
    assert (letter["number"], letter["reason"], letter["message"]["body"]) == (1, "too large", None)


def test_a_message_for_a_disconnected_client_costs_no_attempt(served: Http) -> None:
    topic = served.broker.store.topic("left-alone")
    topic.put(b"work")

    with topic.group("g", mode="queue", attempts_max=1) as group:
        groups._give_back(topic, "g", group.take(1))
        again = group.take(1)

    assert [(message.number, message.attempt) for message in again] == [(0, 1)]


@pytest.mark.parametrize("lease", ["AAAA", "a" * 200, "x"])
def test_an_unknown_token_settles_nothing(served: Http, lease: str) -> None:
    served.put("guessed", "mine")
    messages = served.ask("POST", "/v1/topics/guessed/groups/one/take", {}).document["messages"]
    served.ask("POST", "/v1/topics/guessed/groups/two/take", {})

    guessed = served.ask("POST", "/v1/topics/guessed/groups/one/ack", {"leases": [lease]})
    of_another = served.ask("POST", "/v1/topics/guessed/groups/two/ack", {"leases": [messages[0]["lease"]]})

    assert guessed.problem == (400, "bad_input")
    assert of_another.problem == (400, "bad_input")


def test_a_topic_says_whether_the_header_of_kafka_clients_delays(served: Http) -> None:
    made = served.ask("POST", "/v1/topics", {"topic": "delaying", "deliver_at": "all"})
    back = served.ask("PATCH", "/v1/topics/delaying", {"deliver_at": None})
    wrong = served.ask("PATCH", "/v1/topics/delaying", {"deliver_at": "some"})

    assert (made.status, made.document["settings"]["deliver_at"]) == (201, "all")
    assert (back.status, back.document["settings"]["deliver_at"]) == (200, None)
    assert (wrong.status, "deliver_at" in wrong.document["detail"]) == (400, True)


def test_a_message_that_failed_too_often_is_a_dead_letter_and_can_be_put_back(served: Http) -> None:
    served.put("dying", "poison")
    group = "/v1/topics/dying/groups/eaters"
    served.ask("PUT", group, {"attempts_max": 1})

    messages = served.ask("POST", f"{group}/take", {}).document["messages"]
    served.ask("POST", f"{group}/nack", {"leases": [messages[0]["lease"]], "reason": "it stinks"})
    dead = served.get(f"{group}/dead")["dead"]
    count = served.ask("POST", f"{group}/dead/redrive", {}).document["count"]

    assert [(each["message"]["body"], each["reason"], each["attempts"]) for each in dead] == [
        ("poison", "it stinks", 1)
    ]
    assert count == 1
    assert served.get(f"{group}/dead")["dead"] == []
    assert bodies(served.get("/v1/topics/dying/messages")) == ["poison", "poison"]


def test_a_stream_group_is_shown_and_a_take_from_it_is_refused(served: Http) -> None:
    served.put("streamed", "a", "b")
    with served.broker.store.topic("streamed").group("readers") as group:
        group.read(limit=1)
        group.commit()

        facts = served.get("/v1/topics/streamed/groups/readers")
        take = served.ask("POST", "/v1/topics/streamed/groups/readers/take", {})

    assert (facts["mode"], facts["members"], facts["behind"]) == ("stream", 1, 1)
    assert take.problem == (409, "settings_differ")
    assert served.ask("DELETE", "/v1/topics/streamed/groups/readers").status == 204


def test_a_topic_of_format_version_1_takes_puts_and_reads(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("old", version=1)
    with running_http(tmp_path / "data") as served:
        places = served.put("old", "a", "b")["places"]

        page = served.get("/v1/topics/old/messages")

    assert [place["number"] for place in places] == [0, 1]
    assert bodies(page) == ["a", "b"]
