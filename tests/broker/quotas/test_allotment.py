"""Topics and partitions: a user creates no more than its quota, and all users no more than the limits of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller
from tests.support.broker.http import Http, running_http, until
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from warren.broker.kafka.errors import Code
from warren.broker.quotas.allotment import Allotment
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.client.store import connect
from warren.errors import LimitReached, QuotaExceeded
from warren.protocol.api_keys import ApiKey
from warren.queue.state import paths

PASSWORD = "a long password"
QUOTAS = {"topics_max": 2.0, "partitions_max": 5.0}


@pytest.fixture
def users(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True, quotas=QUOTAS)) as running:
        for user in ("ann", "bob"):
            running.broker.users.create(user, PASSWORD)
        yield running


def created(caller: Caller, name: str, partitions: int = 1, version: int = 7) -> tuple[int, str | None]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    values = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    (answer,) = caller.call(ApiKey.CREATE_TOPICS, version, values).topics
    return answer.error_code, answer.error_message


def extended(caller: Caller, name: str, count: int) -> int:
    values = {"topics": [{"name": name, "count": count}], "timeout_ms": 1000, "validate_only": False}
    code: int = caller.call(ApiKey.CREATE_PARTITIONS, 3, values).results[0].error_code
    return code


def deleted(caller: Caller, name: str, version: int = 5) -> Any:
    return caller.call(ApiKey.DELETE_TOPICS, version, {"topic_names": [name], "timeout_ms": 1000})


def owner_of(running: RunningBroker, name: str) -> str | None:
    directory = paths.topic_directory(running.broker.store.path, name)
    owner: str | None = json.loads(Path(paths.topic_file(directory)).read_text()).get("owner")
    return owner


def test_a_user_creates_as_many_topics_and_partitions_as_its_quota_and_other_users_any_number(
    users: RunningBroker,
) -> None:
    with Caller(users) as ann, Caller(users) as bob:
        ann.login("ann", PASSWORD)
        bob.login("bob", PASSWORD)
        codes = [created(ann, "a", 3)[0], created(ann, "b", 3)[0], created(ann, "c", 2)[0]]
        third, sentence = created(ann, "d", 1)
        of_bob = created(bob, "e", 5)[0]
        more = extended(ann, "a", 4), extended(bob, "a", 4)
        gone = deleted(ann, "c").responses[0].error_code
        after = created(ann, "d", 2)[0]

    assert codes == [Code.NONE, Code.POLICY_VIOLATION, Code.NONE]
    assert third == Code.POLICY_VIOLATION
    assert sentence == "user 'ann' may have 2 topics (topics_max), and this would be more"
    assert of_bob == Code.NONE
    assert more == (Code.POLICY_VIOLATION, Code.POLICY_VIOLATION)
    assert (gone, after) == (Code.NONE, Code.NONE)
    assert owner_of(users, "a") == "ann"
    assert users.broker.store.topics() == ["a", "d", "e"]
    assert users.broker.quotas.throttled["ann"][2] == 3


def test_the_creator_of_a_topic_is_known_after_a_restart_and_a_change_of_settings(tmp_path: Path) -> None:
    for name, code in (("a", Code.NONE), ("b", Code.NONE), ("c", Code.POLICY_VIOLATION)):
        with running_broker(tmp_path / "data", settings=BrokerSettings(sasl=True, quotas=QUOTAS)) as running:
            running.broker.users.create("ann", PASSWORD, replaces=True)
            with Caller(running) as caller:
                caller.login("ann", PASSWORD)
                assert created(caller, name)[0] == code
        with warren.open(tmp_path / "data", keeps=False) as store:
            store.topic("a").configure(retention_bytes=1000)


def test_a_topic_that_another_process_deleted_is_not_counted(
    users: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.quotas.allotment.ALLOTMENT_LOOK_S", 0.0)
    with Caller(users) as ann:
        ann.login("ann", PASSWORD)
        created(ann, "a")
        created(ann, "b")
        with warren.open(users.broker.store.path, keeps=False) as other:
            other.delete_topic("a")
            # It is a different topic now, which the user did not create.
            other.topic("a", 3)

        assert created(ann, "c")[0] == Code.NONE


@pytest.mark.parametrize(
    ("limits", "key"),
    [(BrokerLimits(topics_max=2), "limits.topics_max"), (BrokerLimits(partitions_max=4), "limits.partitions_max")],
)
def test_all_users_together_create_no_more_than_the_limits_of_the_store(
    tmp_path: Path, limits: BrokerLimits, key: str
) -> None:
    with warren.open(tmp_path / "data", keeps=False) as other:
        other.topic("first", 2)
    with running_http(tmp_path / "data", limits=limits) as served:
        with Caller(served.running) as caller:
            codes = [created(caller, "second", 2)[0], created(caller, "third")[0]]
            put = caller.produce("fourth", batch_of([(None, b"body", [])]))[0]
        over_http = served.ask("POST", "/v1/topics", {"topic": "fifth"})
        put_over_http = served.ask("POST", "/v1/topics/sixth/messages", {"messages": [{"body": "x"}]})
        with connect(served.running.address) as store:
            with pytest.raises(LimitReached, match=key):
                store.topic("seventh")
            with pytest.raises(LimitReached, match=key):
                store.queue("eighth")
            assert store.topic("second").put(b"body").number == 0
        names = served.broker.store.topics()

    assert codes == [Code.NONE, Code.POLICY_VIOLATION]
    assert put == Code.POLICY_VIOLATION
    assert over_http.problem == put_over_http.problem == (403, "limit_reached")
    assert names == ["first", "second"]


def changed_over_http(served: Http, partitions: int) -> int:
    return served.ask("PATCH", "/v1/topics/orders", {"partitions": partitions}).status


def test_partitions_are_added_up_to_the_limit_through_every_door(tmp_path: Path) -> None:
    with running_http(tmp_path / "data", limits=BrokerLimits(partitions_max=4)) as served:
        served.broker.store.topic("orders")
        statuses = [changed_over_http(served, 2), changed_over_http(served, 5), changed_over_http(served, 2)]
        with connect(served.running.address) as store:
            store.topic("orders").configure(partitions=3)
            with pytest.raises(LimitReached):
                store.topic("orders").configure(partitions=5)

    assert statuses == [200, 403, 200]


def test_topics_are_made_and_deleted_at_the_rate_of_a_quota(tmp_path: Path) -> None:
    settings = BrokerSettings(quotas={"controller_mutation_rate": 1.0})
    with running_http(tmp_path / "data", settings=settings) as served:
        with Caller(served.running) as caller:
            first = created(caller, "a", 4)
        with Caller(served.running) as caller:
            topic = {"name": "b", "num_partitions": 1, "replication_factor": 1}
            values = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
            second = caller.call(ApiKey.CREATE_TOPICS, 7, values)
        with Caller(served.running) as caller:
            gone = deleted(caller, "a")
        with Caller(served.running) as caller:
            older = created(caller, "c", 1, version=5)[0]
        over_http = served.ask("DELETE", "/v1/topics/a")
        with connect(served.running.address) as store, pytest.raises(QuotaExceeded):
            store.topic("d")
        names = served.broker.store.topics()

    assert first[0] == Code.NONE
    assert second.topics[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert second.throttle_time_ms > 1000
    assert gone.responses[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert older == Code.NONE
    assert over_http.problem == (429, "quota_exceeded")
    assert names == ["a", "c"]


def test_of_several_requests_that_create_one_topic_at_the_same_time_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    mutate = Allotment._mutate

    def counted(allotment: Allotment, *args: Any, **options: Any) -> None:
        checked.append("checked")
        mutate(allotment, *args, **options)

    monkeypatch.setattr(Allotment, "_mutate", counted)
    with (
        running_http(tmp_path / "data") as served,
        Caller(served.running) as first,
        Caller(served.running) as second,
        ThreadPoolExecutor() as threads,
    ):
        with served.broker.allotment._mutex:
            over_http = [threads.submit(served.ask, "POST", "/v1/topics", {"topic": "same"}) for _ in range(2)]
            over_kafka = [threads.submit(created, caller, "same") for caller in (first, second)]
            until(lambda: len(checked) == 4)
        statuses = [each.result().status for each in over_http]
        codes = [each.result()[0] for each in over_kafka]

    outcomes = sorted(str(each) for each in (*statuses, *codes))
    assert outcomes in (["201", "36", "36", "409"], ["0", "36", "409", "409"])
