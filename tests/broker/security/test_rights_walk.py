"""Every request of every protocol is refused without the rights of the table, and is not refused with them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.broker.calls import numbered_batch
from tests.support.broker.tenants import ALL, USER, Tenants, Thing, implied, is_denied, subscription, tenants, topic_id
from tests.support.kafka_batches import batch_of
from tests.support.message_values import decode_request, encode_request
from warren.broker.dispatch import HANDLERS
from warren.broker.security.table import HTTP, KAFKA, OWN
from warren.gateway.http.counts import Counts
from warren.gateway.http.types import HttpReply, HttpRequest
from warren.gateway.route_table import routes_of
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.kafka.produce import decode_produce
from warren.protocol.native_schemas import NativeKey

Specimen = Callable[[Tenants], dict[str, Any]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with tenants(tmp_path_factory.mktemp("walk") / "data") as made:
        for name in ("orders", "audit"):
            made.broker.store.topic(name)
        yield made


def topic_with(world: Tenants, **settings: Any) -> str:
    name = world.fresh("t")
    world.broker.store.topic(name, **settings)
    return name


# --- Kafka's requests ---


def assignment(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() + struct.pack(">ii", 1, 0) for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def joined(world: Tenants) -> dict[str, Any]:
    """A member that leads a group, and assigns a topic that no member subscribed to."""
    group, values = world.fresh("g"), {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    protocols = [{"name": "range", "metadata": subscription("orders")}]
    member = world.ann.call(
        ApiKey.JOIN_GROUP, 3, {"group_id": group, "protocol_type": "consumer", "protocols": protocols, **values}
    )
    assignments = [{"member_id": member.member_id, "assignment": assignment("orders", "audit")}]
    named = {"member_id": member.member_id, "generation_id": member.generation_id}
    return {
        "group_id": group,
        **named,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": assignments,
    }


def producing(topic: str, transactional_id: str | None = None) -> dict[str, Any]:
    is_transactional = transactional_id is not None
    batch = numbered_batch((0, 0), 0, b"1", is_transactional=True) if is_transactional else batch_of([(None, b"1", [])])
    parts = [{"index": 0, "records": batch}]
    data = [{"name": topic, "partition_data": parts}]
    return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 1000, "topic_data": data}


def named(topic: str, **part: Any) -> list[dict[str, Any]]:
    return [{"name": topic, "partitions": [{"partition_index": 0, **part}]}]


def config(name: str, value: str, **more: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": name,
        "configs": [{"name": "warren.dead.letter", "value": value, **more}],
    }


WHO = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0}
V3 = {f"v3_and_below_{name}": value for name, value in WHO.items()}
FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "x"}],
    "ops": [{"key": "request_rate", "value": 1e9, "remove": False}],
}
ACL = {
    "resource_type": 2,
    "resource_name": "x",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
SHARE = {"group_id": "g", "member_id": "m", "share_session_epoch": 0, "max_wait_ms": 0, "max_bytes": 1}

KAFKA_SPECIMENS: Mapping[tuple[ApiKey, int], Specimen] = {
    (ApiKey.API_VERSIONS, 2): lambda w: {},
    (ApiKey.DESCRIBE_CLUSTER, 1): lambda w: {},
    (ApiKey.PRODUCE, 9): lambda w: producing("orders"),
    (ApiKey.PRODUCE, 8): lambda w: producing("orders", "tx"),
    (ApiKey.PRODUCE, 7): lambda w: producing(w.fresh("new")),
    (ApiKey.FETCH, 12): lambda w: {
        "max_wait_ms": 0,
        "max_bytes": 1,
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0}]}],
    },
    (ApiKey.METADATA, 12): lambda w: {"topics": [{"name": "orders"}]},
    (ApiKey.METADATA, 9): lambda w: {"topics": [{"name": w.fresh("new")}], "allow_auto_topic_creation": True},
    (ApiKey.LIST_OFFSETS, 8): lambda w: {"topics": named("orders", timestamp=-1)},
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4): lambda w: {
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    },
    (ApiKey.DELETE_RECORDS, 2): lambda w: {"topics": named(topic_with(w), offset=0), "timeout_ms": 1},
    (ApiKey.CREATE_TOPICS, 7): lambda w: {
        "topics": [{"name": w.fresh("new"), "num_partitions": 1, "replication_factor": 1}]
    },
    (ApiKey.CREATE_TOPICS, 6): lambda w: {
        "topics": [
            {
                "name": w.fresh("new"),
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": "warren.dead.letter", "value": w.fresh("letters")}],
            }
        ]
    },
    (ApiKey.DELETE_TOPICS, 5): lambda w: {"topic_names": [topic_with(w)], "timeout_ms": 1},
    (ApiKey.DELETE_TOPICS, 6): lambda w: {"topics": [{"name": topic_with(w)}], "timeout_ms": 1},
    (ApiKey.CREATE_PARTITIONS, 3): lambda w: {"topics": [{"name": topic_with(w), "count": 2}], "timeout_ms": 1},
    (ApiKey.DESCRIBE_CONFIGS, 4): lambda w: {"resources": [{"resource_type": 2, "resource_name": "orders"}]},
    (ApiKey.DESCRIBE_CONFIGS, 3): lambda w: {"resources": [{"resource_type": 4, "resource_name": "0"}]},
    (ApiKey.ALTER_CONFIGS, 2): lambda w: {"resources": [config(topic_with(w), "audit")]},
    (ApiKey.ALTER_CONFIGS, 1): lambda w: {"resources": [{**config("0", "x"), "resource_type": 4}]},
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1): lambda w: {"resources": [config(topic_with(w), w.fresh("letters"))]},
    (ApiKey.FIND_COORDINATOR, 4): lambda w: {"key_type": 0, "coordinator_keys": ["g", "h"]},
    (ApiKey.FIND_COORDINATOR, 3): lambda w: {"key_type": 1, "key": "tx"},
    (ApiKey.JOIN_GROUP, 9): lambda w: {
        "group_id": "g",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("orders", "audit")}],
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
    },
    (ApiKey.SYNC_GROUP, 5): joined,
    (ApiKey.HEARTBEAT, 4): lambda w: {"group_id": "g", "member_id": "m"},
    (ApiKey.LEAVE_GROUP, 5): lambda w: {"group_id": "g", "members": []},
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1): lambda w: {
        "group_id": w.fresh("g"),
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["orders", "audit"],
        "topic_partitions": [],
    },
    (ApiKey.SHARE_GROUP_HEARTBEAT, 1): lambda w: {
        "group_id": w.fresh("g"),
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": ["orders", "audit"],
    },
    (ApiKey.OFFSET_COMMIT, 9): lambda w: {
        "group_id": w.fresh("g"),
        "generation_id_or_member_epoch": -1,
        "topics": named("orders", committed_offset=0),
    },
    (ApiKey.OFFSET_FETCH, 9): lambda w: {"groups": [{"group_id": "g", "topics": None, "member_epoch": -1}]},
    (ApiKey.OFFSET_FETCH, 7): lambda w: {"group_id": "g", "topics": None},
    (ApiKey.OFFSET_DELETE, 0): lambda w: {"group_id": "g", "topics": named("orders")},
    (ApiKey.LIST_GROUPS, 5): lambda w: {},
    (ApiKey.DESCRIBE_GROUPS, 5): lambda w: {"groups": ["g"]},
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1): lambda w: {"group_ids": ["g"]},
    (ApiKey.SHARE_GROUP_DESCRIBE, 1): lambda w: {"group_ids": ["g"]},
    (ApiKey.DELETE_GROUPS, 2): lambda w: {"groups_names": [w.fresh("g")]},
    (ApiKey.SHARE_FETCH, 1): lambda w: {
        **SHARE,
        "topics": [{"topic_id": topic_id(w), "partitions": [{"partition_index": 0}]}],
    },
    (ApiKey.SHARE_ACKNOWLEDGE, 1): lambda w: {
        "group_id": "g",
        "member_id": "m",
        "topics": [{"topic_id": topic_id(w), "partitions": [{"partition_index": 0}]}],
    },
    (ApiKey.INIT_PRODUCER_ID, 4): lambda w: {"transactional_id": "tx", "transaction_timeout_ms": 1000},
    (ApiKey.INIT_PRODUCER_ID, 3): lambda w: {"transactional_id": None},
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3): lambda w: {**V3, "v3_and_below_topics": [{"name": "orders", "partitions": [0]}]},
    (ApiKey.ADD_OFFSETS_TO_TXN, 3): lambda w: {**WHO, "group_id": "g"},
    (ApiKey.TXN_OFFSET_COMMIT, 3): lambda w: {
        **WHO,
        "group_id": "g",
        "generation_id": -1,
        "topics": named("orders", committed_offset=0),
    },
    (ApiKey.END_TXN, 3): lambda w: {**WHO, "committed": False},
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1): lambda w: {"components": [], "strict": False},
    (ApiKey.ALTER_CLIENT_QUOTAS, 1): lambda w: {"entries": [QUOTA], "validate_only": False},
    (ApiKey.DESCRIBE_ACLS, 3): lambda w: FILTER,
    (ApiKey.CREATE_ACLS, 3): lambda w: {"creations": [ACL]},
    (ApiKey.DELETE_ACLS, 3): lambda w: {"filters": [{**FILTER, "resource_type_filter": 5}]},
}
BEFORE_LOGIN = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def needed_by(world: Tenants, key: int, version: int, values: dict[str, Any]) -> list[Thing]:
    body = encode_request(key, version, values)
    request: Any = (
        decode_produce(version, memoryview(body)) if key == ApiKey.PRODUCE else decode_request(key, version, body)
    )
    if key == ApiKey.FETCH:
        request = named_topics(request)
    return world.needed((KAFKA if key < NativeKey.OPEN_SESSION else OWN)[key], key, version, request)


def named_topics(request: Any) -> Any:
    return SimpleNamespace(topics=[SimpleNamespace(name=topic.topic) for topic in request.topics])


def walk(
    world: Tenants, key: ApiKey | NativeKey, version: int, specimen: Specimen, is_refused: Callable[[Any], bool]
) -> None:
    def ask(leave_out: Callable[[int], bool]) -> tuple[bool, list[Thing]]:
        world.allow(ALL)
        values = specimen(world)
        rights = needed_by(world, key, version, values)
        granted = [right for number, right in enumerate(rights) if not leave_out(number)]
        world.allow(granted)
        return is_refused(world.ann.call(key, version, values)), rights

    without, rights = ask(lambda number: True)
    with_all, _ = ask(lambda number: False)

    assert (without, with_all) == (bool(rights), False)
    for number, right in enumerate(rights):
        if not implied(right, rights):
            assert ask(lambda each, number=number: each == number)[0], right  # type: ignore[misc]


@pytest.mark.parametrize(("key", "version"), KAFKA_SPECIMENS, ids=lambda value: getattr(value, "name", str(value)))
def test_a_request_of_kafka_is_refused_without_each_right_that_it_needs(
    world: Tenants, key: ApiKey, version: int
) -> None:
    walk(world, key, version, KAFKA_SPECIMENS[key, version], is_denied)


def test_every_request_of_kafka_has_a_row_and_is_walked() -> None:
    served = {key for key in HANDLERS if key < NativeKey.OPEN_SESSION}

    assert served == set(KAFKA) == {key for key, _ in KAFKA_SPECIMENS} | BEFORE_LOGIN
    assert all(APIS[key].first <= version <= APIS[key].last for key, version in KAFKA_SPECIMENS)


# --- Our own calls ---

HANDLES = iter(range(1, 1_000_000))


def opened(world: Tenants, key: NativeKey, **values: Any) -> int:
    handle = next(HANDLES)
    answer = world.ann.call(key, 0, {"handle": handle, **values})
    assert answer.error is None, answer
    return handle


def group_of(world: Tenants, mode: str, topic: str = "orders") -> int:
    return opened(world, NativeKey.OPEN_GROUP, topic=topic, group=world.fresh("g"), mode=mode)


def transaction(world: Tenants, id: str | None = None) -> int:
    return opened(world, NativeKey.BEGIN_TRANSACTION, id=id, timeout=60.0, prepared_timeout=-1.0)


def setting(value: str) -> list[dict[str, str]]:
    return [{"name": "dead_letter", "value": f'"{value}"'}]


def with_letters(world: Tenants) -> str:
    return topic_with(world, dead_letter=topic_with(world))


def doomed(world: Tenants) -> dict[str, Any]:
    topic = topic_with(world)
    world.broker.store.topic(topic).group("g", mode="queue").close()
    return {"topic": topic, "group": "g"}


def made_queue(world: Tenants) -> str:
    name = world.fresh("q")
    world.broker.store.queue(name)
    return name


def using(world: Tenants, action: str) -> dict[str, Any]:
    return {"handle": opened(world, NativeKey.OPEN_QUEUE, queue=made_queue(world)), "action": action}


def handle_specimen(mode: str) -> Specimen:
    return lambda world: {"handle": group_of(world, mode)}


NATIVE_SPECIMENS: Mapping[tuple[NativeKey, str], Specimen] = {
    (NativeKey.OPEN_SESSION, ""): lambda w: {"session": bytes(range(16)), "software": "test"},
    (NativeKey.CLOSE_HANDLE, ""): handle_specimen("stream"),
    (NativeKey.LIST_TOPICS, ""): lambda w: {},
    (NativeKey.OPEN_TOPIC, ""): lambda w: {"topic": "orders", "must_exist": True},
    (NativeKey.OPEN_TOPIC, "new"): lambda w: {"topic": w.fresh("new")},
    (NativeKey.OPEN_TOPIC, "with letters"): lambda w: {
        "topic": w.fresh("new"),
        "settings": setting(w.fresh("letters")),
    },
    (NativeKey.CONFIGURE_TOPIC, ""): lambda w: {"topic": topic_with(w), "settings": setting("audit")},
    (NativeKey.CONFIGURE_TOPIC, "new letters"): lambda w: {
        "topic": topic_with(w),
        "settings": setting(w.fresh("letters")),
    },
    (NativeKey.DELETE_TOPIC, ""): lambda w: {"topic": topic_with(w)},
    (NativeKey.RETIRE_TOPIC, ""): lambda w: {"topic": "orders"},
    (NativeKey.APPEND, ""): lambda w: {"topic": "orders"},
    (NativeKey.READ, ""): lambda w: {"topic": "orders", "limit": 1},
    (NativeKey.FIND_TIME, ""): lambda w: {"topic": "orders", "time": 0},
    (NativeKey.SCAN, ""): lambda w: {"topic": "orders", "end": -1},
    (NativeKey.PARK, ""): lambda w: {"topic": "orders"},
    (NativeKey.LIST_PARKED, ""): lambda w: {"topic": "orders", "limit": 1},
    (NativeKey.CANCEL_PARKED, ""): lambda w: {"topic": "orders", "id": "hour-0-1"},
    (NativeKey.OPEN_GROUP, ""): lambda w: {
        "handle": next(HANDLES),
        "topic": "orders",
        "group": w.fresh("g"),
        "mode": "queue",
    },
    (NativeKey.CONFIGURE_GROUP, ""): lambda w: {"topic": "orders", "group": "g"},
    (NativeKey.SEE_GROUP, ""): lambda w: {"topic": "orders", "group": "g"},
    (NativeKey.DELETE_GROUP, ""): doomed,
    (NativeKey.DESCRIBE_GROUP, ""): handle_specimen("stream"),
    (NativeKey.DESCRIBE_GROUP, "dead"): lambda w: {
        "handle": group_of(w, "queue", with_letters(w)),
        "is_dead_wanted": True,
    },
    (NativeKey.DESCRIBE_GROUP, "new dead"): lambda w: {
        "handle": group_of(w, "queue", topic_with(w)),
        "is_dead_wanted": True,
    },
    (NativeKey.READ_GROUP, ""): lambda w: {"handle": group_of(w, "stream"), "limit": 1},
    (NativeKey.COMMIT_GROUP, ""): handle_specimen("stream"),
    (NativeKey.SEEK_GROUP, ""): lambda w: {"handle": group_of(w, "stream"), "to": "start", "partition": -1},
    (NativeKey.TAKE, ""): lambda w: {"handle": group_of(w, "queue"), "limit": 1},
    (NativeKey.SETTLE, ""): lambda w: {"handle": group_of(w, "queue"), "action": "ack"},
    (NativeKey.REDRIVE, ""): lambda w: {"handle": group_of(w, "queue", with_letters(w)), "limit": -1},
    (NativeKey.LIST_DEAD, ""): lambda w: {"topic": with_letters(w), "group": "g", "limit": 1},
    (NativeKey.BEGIN_TRANSACTION, ""): lambda w: {"handle": next(HANDLES), "id": w.fresh("id"), "timeout": 1.0},
    (NativeKey.CHANGE_TRANSACTION, ""): lambda w: {"handle": transaction(w, w.fresh("id")), "topic": "orders"},
    (NativeKey.CHANGE_TRANSACTION, "new"): lambda w: {"handle": transaction(w), "topic": w.fresh("new")},
    (NativeKey.CHANGE_TRANSACTION, "group"): lambda w: {"handle": transaction(w), "group": group_of(w, "stream")},
    (NativeKey.END_TRANSACTION, ""): lambda w: {"handle": transaction(w, w.fresh("id")), "action": "abort"},
    (NativeKey.END_TRANSACTION, "by id"): lambda w: {"id": "theirs", "action": "state"},
    (NativeKey.OPEN_PRODUCER, ""): lambda w: {"handle": next(HANDLES), "producer": w.fresh("p")},
    (NativeKey.NUMBERED_PUT, ""): lambda w: {
        "handle": opened(w, NativeKey.OPEN_PRODUCER, producer=w.fresh("p")),
        "topic": w.fresh("new"),
    },
    (NativeKey.STATISTICS, ""): lambda w: {},
    (NativeKey.COMMIT_BATCH, ""): lambda w: {"application": None},
    (NativeKey.RECOVER, ""): lambda w: {"action": "recover"},
    (NativeKey.SEE_CLUSTER, ""): lambda w: {},
    (NativeKey.FIND_REPLICAS, ""): lambda w: {"rack": "b"},
    (NativeKey.HAND_OVER_SHARD, ""): lambda w: {},
    (NativeKey.LIST_COPY, ""): lambda w: {},
    (NativeKey.DIGEST_RECORDS, ""): lambda w: {},
    (NativeKey.OPEN_QUEUE, ""): lambda w: {"handle": next(HANDLES), "queue": w.fresh("q")},
    (NativeKey.OPEN_QUEUE, "with letters"): lambda w: {
        "handle": next(HANDLES),
        "queue": w.fresh("q"),
        "settings": setting(w.fresh("letters")),
    },
    (NativeKey.OPEN_QUEUE, "that exists"): lambda w: {"handle": next(HANDLES), "queue": made_queue(w)},
    (NativeKey.USE_QUEUE, "put"): lambda w: using(w, "put"),
    (NativeKey.USE_QUEUE, "get"): lambda w: using(w, "get"),
    (NativeKey.USE_QUEUE, "back"): lambda w: using(w, "back"),
    (NativeKey.USE_QUEUE, "skip"): lambda w: using(w, "skip"),
    (NativeKey.USE_QUEUE, "done"): lambda w: using(w, "done"),
    (NativeKey.USE_QUEUE, "join"): lambda w: using(w, "join"),
    (NativeKey.USE_QUEUE, "size"): lambda w: using(w, "size"),
    (NativeKey.USE_QUEUE, "no action"): lambda w: using(w, "no action"),
}


@pytest.mark.parametrize(("key", "case"), NATIVE_SPECIMENS, ids=lambda value: getattr(value, "name", value))
def test_a_call_of_our_own_is_refused_without_each_right_that_it_needs(
    world: Tenants, key: NativeKey, case: str
) -> None:
    walk(world, key, 0, NATIVE_SPECIMENS[key, case], lambda answer: getattr(answer.error, "code", "") == "no_right")


def test_every_call_of_our_own_has_a_row_and_is_walked() -> None:
    served = {key for key in HANDLERS if key >= NativeKey.OPEN_SESSION}

    assert served == set(OWN) == set(NativeKey) == {key for key, _ in NATIVE_SPECIMENS} | set(OF_REPLICAS)


OF_REPLICAS = (NativeKey.JOIN_SHARD, NativeKey.LIST_STATE, NativeKey.FETCH_STATE, NativeKey.FETCH_SHARD)


@pytest.mark.parametrize("user", [USER, "root"])
@pytest.mark.parametrize("key", OF_REPLICAS, ids=lambda key: key.name)
def test_no_right_lets_a_user_follow_the_master(world: Tenants, key: NativeKey, user: str) -> None:
    world.allow(ALL)

    with contextlib.ExitStack() as stack:
        caller = world.ann if user == USER else stack.enter_context(world.caller(user))
        answer = caller.call(key, 0, {})

    assert answer.error.code == "replicas_only"
    assert user in answer.error.sentence


# --- HTTP ---

HttpSpecimen = Callable[[Tenants], tuple[dict[str, str], Any]]
"""The parameters of the path, and the body."""


def lettered(world: Tenants) -> str:
    topic = with_letters(world)
    world.broker.store.topic(topic).group("g", mode="queue").close()
    return topic


def at(topic: str = "orders", body: Any = None, **more: str) -> HttpSpecimen:
    return lambda world: (
        {"topic": topic, "group": "g", "partition": "0", "number": "0", "id": "hour-0-1", **more},
        body,
    )


TOPIC = "/v1/topics/{topic}"
GROUP = TOPIC + "/groups/{group}"
LEASES = {"leases": ["nothing"]}
HTTP_SPECIMENS: Mapping[tuple[str, str], HttpSpecimen] = {
    ("GET /", ""): at(),
    ("GET /healthz", ""): at(),
    ("GET /readyz", ""): at(),
    ("GET /openapi.json", ""): at(),
    ("GET /metrics", ""): at(),
    ("GET /v1/statistics", ""): at(),
    ("GET /v1/topics", ""): at(),
    ("GET /v1/groups", ""): at(),
    ("POST /v1/topics", ""): lambda w: ({}, {"topic": w.fresh("new")}),
    ("POST /v1/topics", "letters"): lambda w: ({}, {"topic": w.fresh("new"), "dead_letter": w.fresh("letters")}),
    (f"GET {TOPIC}", ""): at(),
    (f"PATCH {TOPIC}", ""): lambda w: ({"topic": topic_with(w)}, {"dead_letter": w.fresh("letters")}),
    (f"DELETE {TOPIC}", ""): lambda w: ({"topic": topic_with(w)}, None),
    (f"POST {TOPIC}/messages", ""): at(body={"messages": [{"body": "1"}]}),
    (f"POST {TOPIC}/messages", "new"): lambda w: ({"topic": w.fresh("new")}, {"messages": [{"body": "1"}]}),
    (f"GET {TOPIC}/messages", ""): at(),
    (f"GET {TOPIC}/messages/{{partition}}/{{number}}", ""): at(),
    (f"GET {TOPIC}/scheduled", ""): at(),
    (f"DELETE {TOPIC}/scheduled/{{id}}", ""): at(),
    (f"GET {TOPIC}/groups", ""): at(),
    (f"GET {GROUP}", ""): at(),
    (f"PUT {GROUP}", ""): at(body={}),
    (f"PUT {GROUP}", "new with settings"): lambda w: ({"topic": "orders", "group": w.fresh("g")}, {"lease": 20}),
    (f"PUT {GROUP}", "same settings"): lambda w: (doomed(w), {"lease": 30, "start": "end", "ordered_by_key": False}),
    (f"PUT {GROUP}", "other settings"): lambda w: (doomed(w), {"lease": 20}),
    (f"DELETE {GROUP}", ""): lambda w: (doomed(w), None),
    (f"POST {GROUP}/take", ""): at(body={}),
    (f"POST {GROUP}/ack", ""): at(body=LEASES),
    (f"POST {GROUP}/nack", ""): at(body=LEASES),
    (f"POST {GROUP}/reject", ""): at(body={"partition": 0, "number": 0}),
    (f"POST {GROUP}/extend", ""): at(body={**LEASES, "seconds": 1}),
    (f"GET {GROUP}/dead", ""): lambda w: ({"topic": lettered(w), "group": "g"}, None),
    (f"POST {GROUP}/dead/redrive", ""): lambda w: ({"topic": lettered(w), "group": "g"}, {}),
}


@pytest.mark.parametrize(("route", "case"), HTTP_SPECIMENS)
def test_a_route_is_refused_without_each_right_that_it_needs(world: Tenants, route: str, case: str) -> None:
    method, _, path = route.partition(" ")

    def ask(leave_out: Callable[[int], bool]) -> tuple[int, list[Thing]]:
        world.allow(ALL)
        values, body = HTTP_SPECIMENS[route, case](world)
        row = HTTP[route]
        request: Any = HttpRequest(broker=world.broker, peer=world.peer, row=row, path=values, body=body)
        rights = world.needed(row, 0, 0, request)
        world.allow([right for number, right in enumerate(rights) if not leave_out(number)])
        return world.http.ask(method, path.format(**values), body).status, rights

    without, rights = ask(lambda number: True)
    with_all, _ = ask(lambda number: False)

    assert (without == 403, with_all == 403) == (bool(rights), False)
    for number, right in enumerate(rights):
        if not implied(right, rights):
            assert ask(lambda each, number=number: each == number)[0] == 403, right  # type: ignore[misc]


def test_every_route_has_a_row_and_is_walked() -> None:
    async def openapi(request: HttpRequest) -> HttpReply:
        raise NotImplementedError

    served = {route.name for route in routes_of(openapi, Counts()).routes}

    assert served == set(HTTP) == {route for route, _ in HTTP_SPECIMENS}


def test_the_user_of_the_walk_has_no_other_rights(world: Tenants) -> None:
    world.allow([])

    assert world.peer.user == USER
    assert not world.on_loop(lambda: world.broker.rights.may(world.peer, *ALL[0]))  # type: ignore[union-attr]
