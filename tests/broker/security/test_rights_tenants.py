"""One user may not touch another user's topics: groups, dead letters, waits, sessions, and the errors."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import warren
from tests.support.broker.http import until
from tests.support.broker.process import run_warren
from tests.support.broker.running import running_broker
from tests.support.broker.tenants import PASSWORD, USER, Tenants, Thing, is_denied, subscription, tenants, topic_id
from tests.support.kafka_batches import batch_of
from warren.broker.security.rights import Operation, ResourceKind
from warren.broker.security.table import HTTP
from warren.broker.services.limited_log import LIMITED_LOG_LINES_MAX
from warren.broker.services.turns import LOOP_ROWS_AT_ONCE
from warren.broker.settings import BrokerSettings
from warren.errors import NoRight, NoSuchTopic, SettingsDiffer
from warren.gateway.handlers.groups import configure_group
from warren.gateway.http.types import HttpRequest
from warren.protocol.api_keys import ApiKey
from warren.protocol.native_schemas import NativeKey

READ, WRITE, ALTER, DESCRIBE = Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DESCRIBE
HERS = [Thing(Operation.ALL, kind, "hers") for kind in (ResourceKind.TOPIC, ResourceKind.GROUP)]
REFUSED = 29
WIDE = LOOP_ROWS_AT_ONCE + 1


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Tenants]:
    with tenants(tmp_path / "data") as made:
        for name in ("hers", "his"):
            made.broker.store.topic(name)
        made.allow(HERS)
        yield made


def beat(world: Tenants, key: ApiKey, **values: Any) -> Any:
    if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        values = {"rebalance_timeout_ms": 1000, "topic_partitions": [], **values}
    return world.ann.call(key, 1, {"group_id": "hers", "member_id": "m", "member_epoch": 0, **values})


def groups_of(world: Tenants, topic: str) -> list[str]:
    return world.broker.store.topic(topic).groups()


# --- Groups ---


def test_a_user_who_may_not_describe_a_topic_makes_no_group_in_it(world: Tenants) -> None:
    protocols = [{"name": "range", "metadata": subscription("his")}]
    joining = {"group_id": "hers", "protocol_type": "consumer", "protocols": protocols}

    codes = [
        world.ann.call(ApiKey.JOIN_GROUP, 3, {**joining, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}),
        beat(world, ApiKey.CONSUMER_GROUP_HEARTBEAT, subscribed_topic_names=["hers", "his"]),
        beat(world, ApiKey.SHARE_GROUP_HEARTBEAT, subscribed_topic_names=["his"]),
    ]

    assert [each.error_code for each in codes] == [REFUSED] * 3
    assert groups_of(world, "his") == []


def test_a_user_who_may_only_describe_a_topic_makes_no_queue_group_in_it(world: Tenants) -> None:
    world.allow([*HERS, Thing(DESCRIBE, ResourceKind.TOPIC, "his")])

    refused = beat(world, ApiKey.SHARE_GROUP_HEARTBEAT, subscribed_topic_names=["his"])

    assert refused.error_code == REFUSED
    assert groups_of(world, "his") == []


def test_a_pattern_stands_for_topics_that_its_own_user_may_describe(world: Tenants) -> None:
    with world.caller("root") as root:
        theirs = {"group_id": "hers", "member_id": "r", "member_epoch": 0, "rebalance_timeout_ms": 1000}
        joined = root.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**theirs, "topic_partitions": [], "subscribed_topic_regex": "his"}
        )
        mine = beat(world, ApiKey.CONSUMER_GROUP_HEARTBEAT, subscribed_topic_regex=".*")
        described = root.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["hers"]}).groups[0]

    expected = {
        member.member_id: {each.topic_name for each in member.target_assignment.topic_partitions}
        for member in described.members
    }
    assert (joined.error_code, mine.error_code) == (0, 0)
    assert expected == {"r": {"his"}, "m": {"hers"}}


@pytest.mark.parametrize("key", [ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS])
def test_a_group_hides_topics_that_the_user_may_not_describe(world: Tenants, key: ApiKey) -> None:
    world.allow([*HERS, Thing(READ, ResourceKind.TOPIC, "his")])
    if key == ApiKey.DESCRIBE_GROUPS:
        protocols = [{"name": "range", "metadata": subscription("his")}]
        times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
        joining = {"group_id": "hers", "protocol_type": "consumer", "protocols": protocols, **times}
        member = world.ann.call(ApiKey.JOIN_GROUP, 3, joining)
        named = {"group_id": "hers", "member_id": member.member_id, "generation_id": member.generation_id}
        world.ann.call(ApiKey.SYNC_GROUP, 2, {**named, "assignments": [{"member_id": member.member_id}]})
    else:
        hearing = {
            ApiKey.CONSUMER_GROUP_DESCRIBE: ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE: ApiKey.SHARE_GROUP_HEARTBEAT,
        }
        beat(world, hearing[key], subscribed_topic_names=["his"])
    field, version = ("groups", 5) if key == ApiKey.DESCRIBE_GROUPS else ("group_ids", 1)
    group = world.ann.call(key, version, {field: ["hers"]}).groups[0]

    world.allow(HERS)
    hidden = world.ann.call(key, version, {field: ["hers"]}).groups[0]

    assert (group.error_code, len(group.members)) == (0, 1)
    assert (hidden.error_code, hidden.members) == (REFUSED, [])
    assert "his" not in str(hidden)


def deletes(world: Tenants) -> dict[str, Callable[[], bool]]:
    """Deletes the group `theirs` of the topic `his`, by each protocol. Returns whether that was refused."""
    own = {"topic": "his", "group": "theirs"}
    return {
        "kafka": lambda: is_denied(world.ann.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["theirs"]})),
        "own": lambda: world.ann.call(NativeKey.DELETE_GROUP, 0, own).error is not None,
        "http": lambda: world.http.ask("DELETE", "/v1/topics/his/groups/theirs").status == 403,
    }


@pytest.mark.parametrize("door", ["kafka", "own", "http"])
def test_a_user_who_may_alter_a_topic_may_delete_its_groups_and_no_others(world: Tenants, door: str) -> None:
    for topic in ("hers", "his"):
        world.broker.store.topic(topic).group("theirs", mode="queue").close()
    before = deletes(world)["own"](), deletes(world)["http"]()

    world.allow([Thing(ALTER, ResourceKind.TOPIC, "his")])
    is_refused = deletes(world)[door]()

    assert before == (True, True)
    assert not is_refused
    assert (groups_of(world, "his"), groups_of(world, "hers")) == ([], ["theirs"])


READS_THEIRS = [Thing(READ, ResourceKind.TOPIC, "his"), Thing(READ, ResourceKind.GROUP, "theirs")]


def changes(world: Tenants) -> dict[str, Callable[[], object]]:
    """Changes the lease of the group `theirs` of the topic `his`, by each protocol.

    Returns the code of the error, if there is one.
    """
    own = {"topic": "his", "group": "theirs", "settings": [{"name": "lease", "value": "0.1"}]}
    return {
        "own": lambda: getattr(world.ann.call(NativeKey.CONFIGURE_GROUP, 0, own).error, "code", None),
        "http": lambda: world.http.ask("PUT", "/v1/topics/his/groups/theirs", {"lease": 0.1}).document.get("code"),
    }


@pytest.mark.parametrize("door", ["own", "http"])
def test_a_reader_does_not_change_the_settings_of_a_group_for_its_other_members(world: Tenants, door: str) -> None:
    topic = world.broker.store.topic("his")
    topic.group("theirs", mode="queue", lease=60.0).close()
    world.allow(READS_THEIRS)
    refused, lease_s = changes(world)[door](), topic.group_settings("theirs").lease_s

    world.allow([*READS_THEIRS, Thing(Operation.ALTER_CONFIGS, ResourceKind.GROUP, "theirs")])
    allowed = changes(world)[door]()

    assert (refused, lease_s) == ("no_right", 60.0)
    assert (allowed, topic.group_settings("theirs").lease_s) == (None, 0.1)


def test_a_reader_makes_a_group_with_settings_and_may_say_them_again(world: Tenants) -> None:
    world.allow(READS_THEIRS)
    path, settings = "/v1/topics/his/groups/theirs", {"lease": 20, "start": "start"}

    answers = [world.http.ask("PUT", path, body).status for body in (settings, settings, {**settings, "start": "end"})]

    assert answers == [200, 200, 200]
    assert world.broker.store.topic("his").group_settings("theirs").lease_s == 20.0


def test_a_group_that_another_user_has_just_created_is_not_changed_by_a_reader(world: Tenants) -> None:
    topic, route = world.broker.store.topic("his"), "PUT /v1/topics/{topic}/groups/{group}"
    world.allow(READS_THEIRS)
    path = {"topic": "his", "group": "theirs"}
    request = HttpRequest(broker=world.broker, peer=world.peer, row=HTTP[route], path=path, body={"lease": 0.1})
    world.on_loop(request.check)
    topic.group("theirs", mode="queue", lease=60.0).close()

    answer = asyncio.run_coroutine_threadsafe(configure_group(request), world.http.running.loop)

    with pytest.raises(SettingsDiffer):
        answer.result(30)
    assert topic.group_settings("theirs").lease_s == 60.0


@pytest.mark.parametrize("key", [NativeKey.OPEN_GROUP, NativeKey.CONFIGURE_GROUP])
@pytest.mark.parametrize("option", ["name", "mode", "self"])
def test_an_option_that_no_group_has_is_an_error_in_the_answer(world: Tenants, key: NativeKey, option: str) -> None:
    values: dict[str, Any] = {"topic": "hers", "group": "hers", "settings": [{"name": option, "value": "1"}]}
    if key is NativeKey.OPEN_GROUP:
        values.update(handle=1, mode="queue")

    answer = world.ann.call(key, 0, values)

    assert answer.error.code == "bad_input"
    assert groups_of(world, "hers") == []


def test_groups_of_a_topic_are_listed_for_users_who_may_describe_them(world: Tenants) -> None:
    world.broker.store.topic("his").group("theirs", mode="queue").close()

    def named() -> tuple[list[str], list[str]]:
        own = world.ann.call(NativeKey.OPEN_TOPIC, 0, {"topic": "his", "must_exist": True, "is_described": True})
        return list(own.groups), world.http.get("/v1/topics/his")["groups"]

    answers = []
    for more in ([], [Thing(DESCRIBE, ResourceKind.GROUP, "theirs")], [Thing(ALTER, ResourceKind.TOPIC, "his")]):
        world.allow([Thing(DESCRIBE, ResourceKind.TOPIC, "his"), *more])
        answers.append(named())

    assert answers == [([], []), (["theirs"], ["theirs"]), (["theirs"], ["theirs"])]


# --- Dead letters ---


def test_a_dead_letter_topic_that_is_not_changed_takes_no_right(world: Tenants) -> None:
    world.broker.store.configure_topic("hers", {"dead_letter": "his"})

    same = world.http.ask("PATCH", "/v1/topics/hers", {"dead_letter": "his", "retention_bytes": 1 << 30})
    default = world.http.ask("PATCH", "/v1/topics/hers", {"dead_letter": ""})
    other = world.http.ask("PATCH", "/v1/topics/hers", {"dead_letter": "his"})

    assert (same.status, default.status, other.status) == (200, 200, 403)


# --- Rights that are gone ---


def test_a_share_session_returns_nothing_of_a_topic_whose_right_was_removed(world: Tenants) -> None:
    world.allow([*HERS, Thing(READ, ResourceKind.TOPIC, "his")])
    world.broker.store.topic("his").put(b"1")
    beat(world, ApiKey.SHARE_GROUP_HEARTBEAT, subscribed_topic_names=["his"])
    topics = [{"topic_id": topic_id(world, "his"), "partitions": [{"partition_index": 0}]}]
    fetching = {"group_id": "hers", "member_id": "m", "max_wait_ms": 0, "max_bytes": 1 << 20, "max_records": 1}
    first = world.ann.call(ApiKey.SHARE_FETCH, 1, {**fetching, "share_session_epoch": 0, "topics": topics})
    world.broker.store.topic("his").put(b"2")

    world.allow(HERS)
    second = world.ann.call(ApiKey.SHARE_FETCH, 1, {**fetching, "share_session_epoch": 1, "topics": []})

    (part,) = second.responses[0].partitions
    assert first.responses[0].partitions[0].error_code == 0
    assert (part.error_code, part.records) == (REFUSED, None)
    assert "--topic his --operation read" in part.error_message


def waits(world: Tenants) -> dict[str, Callable[[], Any]]:
    """Returns requests that wait for a message of the topic `hers`, and whether they were refused."""
    topic = {"topic": "hers", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
    fetching = {"max_wait_ms": 20_000, "min_bytes": 1, "max_bytes": 1 << 20}
    by_id = {**topic, "topic_id": topic_id(world, "hers")}
    reading = {"topic": "hers", "positions": [{"partition": 0, "number": 0}], "limit": 1, "wait_ms": 20_000}
    for handle, mode in ((1, "stream"), (2, "queue")):
        opened = {"handle": handle, "topic": "hers", "group": "hers" if mode == "queue" else "hers2", "mode": mode}
        assert world.ann.call(NativeKey.OPEN_GROUP, 0, opened).error is None
    ask, call = world.http.ask, world.ann.call
    # So many that the broker handles them in turns with other requests.
    parts = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for number in range(WIDE)]
    many = [{"topic": "hers", "partitions": parts}]
    return {
        "fetch of many": lambda: is_denied(call(ApiKey.FETCH, 12, {**fetching, "topics": many})),
        "fetch": lambda: is_denied(call(ApiKey.FETCH, 12, {**fetching, "topics": [topic]})),
        "fetch by id": lambda: is_denied(call(ApiKey.FETCH, 13, {**fetching, "topics": [by_id]})),
        "read": lambda: call(NativeKey.READ, 0, reading).error.code == "no_right",
        "read group": lambda: (
            call(NativeKey.READ_GROUP, 0, {"handle": 1, "limit": 1, "wait_ms": 20_000}).error.code == "no_right"
        ),
        "take": lambda: call(NativeKey.TAKE, 0, {"handle": 2, "limit": 1, "wait_ms": 20_000}).error.code == "no_right",
        "http read": lambda: ask("GET", "/v1/topics/hers/messages?wait_s=20&partition=0").status == 403,
        "http take": lambda: ask("POST", "/v1/topics/hers/groups/hers/take", {"wait_s": 20}).status == 403,
    }


@pytest.mark.parametrize(
    "which", ["fetch", "fetch by id", "fetch of many", "read", "read group", "take", "http read", "http take"]
)
def test_a_waiting_user_does_not_get_a_message_when_the_right_was_removed(world: Tenants, which: str) -> None:
    world.allow([*HERS, Thing(READ, ResourceKind.GROUP, "hers2")])
    if which == "fetch of many":
        world.broker.store.configure_topic("hers", {"partitions": WIDE})
    wait = waits(world)[which]

    with ThreadPoolExecutor(1) as pool:
        refused: Future[bool] = pool.submit(wait)
        until(lambda: world.broker.long_polls._waiting)
        world.allow([])
        with world.caller("root") as root:
            assert root.produce("hers", batch_of([(None, b"secret", [])]))[0] == 0

        assert refused.result(30)


# --- Durable queues ---


def test_a_user_with_read_and_write_on_a_queue_needs_no_other_right_to_use_it(world: Tenants) -> None:
    world.broker.store.queue("jobs")
    world.allow([Thing(READ, ResourceKind.TOPIC, "jobs"), Thing(WRITE, ResourceKind.TOPIC, "jobs")])

    with warren.connect(world.http.running.address, user=USER, password=PASSWORD) as store:
        jobs = store.queue("jobs")
        jobs.put("task")
        size = jobs.qsize()
        item = jobs.get(timeout=30)
        jobs.task_done()
        is_joined = jobs.join(30)
        with pytest.raises(NoRight, match="may not read topic 'other'"):
            store.queue("other").put("task")

    assert (size, item, is_joined) == (1, "task", True)
    assert not world.broker.store.has_topic("other")


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        (READ, {"get", "skip", "join", "size"}),
        (WRITE, {"put", "size"}),
        (DESCRIBE, {"size"}),
        (Operation.CREATE, set()),
    ],
)
def test_one_right_to_a_queue_allows_its_calls_and_opens_no_other_queue(
    world: Tenants, operation: Operation, allowed: set[str]
) -> None:
    world.broker.store.queue("jobs")
    world.allow([Thing(READ, ResourceKind.TOPIC, "jobs"), Thing(WRITE, ResourceKind.TOPIC, "jobs")])
    assert world.ann.call(NativeKey.OPEN_QUEUE, 0, {"handle": 1, "queue": "jobs"}).error is None
    world.allow([Thing(operation, ResourceKind.TOPIC, "jobs")])

    def error(key: NativeKey, **values: Any) -> str:
        return getattr(world.ann.call(key, 0, values).error, "code", "")

    actions = ("put", "get", "back", "skip", "done", "join", "size")
    used = {each: error(NativeKey.USE_QUEUE, handle=1, action=each, item=b"1", delay=-1) for each in actions}

    assert {each for each, code in used.items() if not code} == allowed
    refused = "bad_input" if operation is READ else "no_right"
    assert (used["done"], used["back"]) == (refused, refused)
    assert {code for each, code in used.items() if each not in ("done", "back")} <= {"", "no_right"}
    assert error(NativeKey.OPEN_QUEUE, handle=2, queue="jobs") == "no_right"


def test_a_waiting_get_gets_no_item_when_the_right_to_read_was_removed(world: Tenants) -> None:
    queue = world.broker.store.queue("jobs", codec="bytes")
    writes = Thing(WRITE, ResourceKind.TOPIC, "jobs")
    world.allow([Thing(READ, ResourceKind.TOPIC, "jobs"), writes])
    assert world.ann.call(NativeKey.OPEN_QUEUE, 0, {"handle": 1, "queue": "jobs"}).error is None

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(world.ann.call, NativeKey.USE_QUEUE, 0, {"handle": 1, "action": "get", "wait_ms": 20_000})
        until(lambda: world.broker.long_polls._waiting)
        world.allow([writes])
        queue.put(b"secret")
        answer = waiting.result(30)

    assert (answer.error.code, queue.qsize()) == ("no_right", 1)
    assert (
        world.ann.call(NativeKey.USE_QUEUE, 0, {"handle": 1, "action": "put", "item": b"x", "delay": -1}).error is None
    )


# --- Topics that a put makes ---


def test_a_put_in_a_transaction_or_with_a_number_makes_no_topic_if_none_is_to_be_made(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", settings=BrokerSettings(auto_create_topics=False)) as running:
        with warren.connect(running.address) as store:
            with pytest.raises(NoSuchTopic), store.transaction() as transaction:
                transaction.put("new", b"1")
            with pytest.raises(NoSuchTopic), store.producer("p") as producer:
                producer.put("new", b"1")

        assert running.broker.store.topics() == []


# --- Errors ---


def test_a_denial_names_user_operation_thing_and_the_command_that_grants_it(world: Tenants, tmp_path: Path) -> None:
    address = world.http.running.address
    with warren.connect(address, user=USER, password=PASSWORD) as store, pytest.raises(NoRight) as own:
        store.topic("his")
    over_http = world.http.ask("GET", "/v1/topics/his/messages").document["detail"]
    created = world.ann.call(
        ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]}
    )

    command = over_http.partition("grants it with: ")[2]
    ran = run_warren(*shlex.split(command)[1:], "--store", "data", folder=tmp_path)

    assert str(own.value).startswith("user 'ann' may not describe topic 'his'; an admin grants it with: ")
    assert over_http == (
        "user 'ann' may not read topic 'his'; an admin grants it with: "
        "warren acl add --user ann --topic his --operation read"
    )
    assert created.topics[0].error_message.endswith("warren acl add --user ann --topic new --operation create")
    assert ran.returncode == 0, ran.stderr
    until(lambda: world.http.ask("GET", "/v1/topics/his/messages").status == 200)


@pytest.mark.parametrize(
    ("kind", "name", "resource", "flag"),
    [
        ("cluster", "kafka-cluster", "the cluster", "--cluster"),
        ("transactional_id", "a b", "transactional id 'a b'", "--transaction 'a b'"),
    ],
)
def test_the_command_of_a_denial_is_right_for_every_kind_of_resource(
    kind: str, name: str, resource: str, flag: str
) -> None:
    message, _, command = str(NoRight("ann", "alter", kind, name)).partition("; an admin grants it with: ")

    assert message == f"user 'ann' may not alter {resource}"
    assert command == f"warren acl add --user ann {flag} --operation alter"


def test_a_denial_is_the_same_whether_the_topic_exists_or_not(world: Tenants) -> None:
    there = world.http.ask("GET", "/v1/topics/his").document["detail"]
    missing = world.http.ask("GET", "/v1/topics/hos").document["detail"]

    assert there == missing.replace("hos", "his")


def test_denials_are_logged_and_those_over_the_limit_are_counted(
    world: Tenants, caplog: pytest.LogCaptureFixture
) -> None:
    topics = [{"name": f"t{number}", "num_partitions": 1, "replication_factor": 1} for number in range(50)]
    with caplog.at_level(logging.WARNING, "warren.broker"):
        world.ann.call(ApiKey.CREATE_TOPICS, 7, {"topics": topics})
        world.on_loop(world.broker.denials.close)

    lines = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
    assert len(lines) == LIMITED_LOG_LINES_MAX + 1
    assert lines[0].startswith("denied to ann@127.0.0.1:")
    assert lines[0].endswith("warren acl add --user ann --topic t0 --operation create")
    assert lines[-1].startswith(f"{50 - LIMITED_LOG_LINES_MAX} more")
