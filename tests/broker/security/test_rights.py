"""Rights: a request without a right is refused; of several topics only the one without a right is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import warren
from tests.support.broker.calls import Caller, numbered_batch
from tests.support.broker.kafka_python import LEAVES_SOCKETS
from tests.support.broker.process import run_warren
from tests.support.broker.running import PATIENCE_S, RunningBroker, running_broker
from tests.support.kafka_batches import batch_of
from warren.broker.security.peer import Peer
from warren.broker.security.rights import (
    CLUSTER_NAME,
    RIGHTS_REMEMBERED_SIZE_MAX,
    Operation,
    Pattern,
    Permission,
    ResourceKind,
    Right,
    Rights,
    RightsFile,
)
from warren.broker.settings import BrokerSettings
from warren.errors import BadInput, CorruptSettings, NoRight

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
kafka = pytest.importorskip("kafka")
kafka_admin = pytest.importorskip("kafka.admin")
kafka_errors = pytest.importorskip("kafka.errors")
pytestmark = LEAVES_SOCKETS

PASSWORD = "the password"
REFUSED = confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
EVERY_RIGHT = kafka_admin.ACLFilter(
    principal=None,
    host=None,
    operation=kafka_admin.ACLOperation.ANY,
    permission_type=kafka_admin.ACLPermissionType.ANY,
    resource_pattern=kafka_admin.ResourcePatternFilter(
        kafka_admin.ResourceType.ANY, None, kafka_admin.ACLResourcePatternType.ANY
    ),
)
ANN = Peer("10.0.0.1", 1, user="ann")


def right(
    kind: ResourceKind = ResourceKind.TOPIC,
    name: str = "orders",
    pattern: Pattern = Pattern.LITERAL,
    user: str = "ann",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> Right:
    return Right(kind, name, pattern, f"User:{user}", host, operation, permission)


def may(tmp_path: Path, rights: list[Right], operation: Operation, kind: ResourceKind, name: str) -> bool:
    file = RightsFile(str(tmp_path))
    file.add(rights)
    return Rights(file, frozenset({"root"})).may(ANN, operation, kind, name)


@pytest.mark.parametrize(
    ("rights", "is_allowed"),
    [
        ([], False),
        ([right()], True),
        ([right(user="bob")], False),
        ([right(user="*")], True),
        ([right(name="*")], True),
        ([right(name="ord")], False),
        ([right(name="ord", pattern=Pattern.PREFIXED)], True),
        ([right(kind=ResourceKind.GROUP)], False),
        ([right(operation=Operation.WRITE)], False),
        ([right(operation=Operation.ALL)], True),
        ([right(host="10.0.0.1")], True),
        ([right(host="10.0.0.2")], False),
        ([right(), right(permission=Permission.DENY, user="*")], False),
        ([right(), right(permission=Permission.DENY, operation=Operation.WRITE)], True),
        ([right(), right(permission=Permission.DENY, operation=Operation.ALL)], False),
    ],
)
def test_a_right_has_a_user_an_operation_and_a_resource(tmp_path: Path, rights: list[Right], is_allowed: bool) -> None:
    assert may(tmp_path, rights, Operation.READ, ResourceKind.TOPIC, "orders") is is_allowed


def test_an_answer_depends_on_all_rights_of_the_resource_and_on_no_others(tmp_path: Path) -> None:
    """The index gives the same result as a check of each right."""
    random = Random(7)
    names, users = ["a", "ab", "abc", "b", "*"], ["ann", "bob", "*"]
    entries = [
        right(
            random.choice([ResourceKind.TOPIC, ResourceKind.GROUP]),
            random.choice(names),
            random.choice([Pattern.LITERAL, Pattern.PREFIXED]),
            random.choice(users),
            host=random.choice(["*", ANN.host, "10.0.0.2"]),
            permission=random.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
            operation=random.choice([Operation.READ, Operation.WRITE]),
        )
        for _ in range(12)
    ]
    file = RightsFile(str(tmp_path))

    for size in range(len(entries)):
        file.remove(lambda right: True)
        file.add(entries[:size])
        rights = Rights(file, frozenset())
        for kind in (ResourceKind.TOPIC, ResourceKind.GROUP):
            for name in ("a", "ab", "abcd", "b", "c"):
                about = [each for each in entries[:size] if each.is_for(ANN) and each.is_about(kind, name)]
                about = [each for each in about if each.operation is Operation.READ]
                is_allowed = {each.permission for each in about} == {Permission.ALLOW}
                assert rights.may(ANN, Operation.READ, kind, name) is is_allowed


def test_read_implies_describe_and_not_the_reverse(tmp_path: Path) -> None:
    assert may(tmp_path / "a", [right()], Operation.DESCRIBE, ResourceKind.TOPIC, "orders")
    describe = right(operation=Operation.DESCRIBE)
    assert not may(tmp_path / "b", [describe], Operation.READ, ResourceKind.TOPIC, "orders")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()


def test_super_users_may_do_everything(tmp_path: Path) -> None:
    rights = Rights(RightsFile(str(tmp_path)), frozenset({"root"}))

    assert rights.may(Peer("h", 1, user="root"), Operation.ALTER, ResourceKind.CLUSTER, CLUSTER_NAME)


def test_a_change_by_another_process_is_read_by_a_thread_and_old_rights_hold_until_then(tmp_path: Path) -> None:
    threads = list[str]()

    async def in_thread(work: Any, *arguments: Any, **named: Any) -> Any:
        threads.append("asked")
        return await asyncio.to_thread(work, *arguments)

    async def changed() -> list[bool]:
        rights = Rights(RightsFile(str(tmp_path)), frozenset())

        def may() -> bool:
            return rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")

        results = [may()]
        RightsFile(str(tmp_path)).add([right()])
        results.append(may())
        await asyncio.gather(rights.refresh(in_thread), rights.refresh(in_thread))
        return [*results, may()]

    assert asyncio.run(changed()) == [False, False, True]
    # The second one found nothing left to do.
    assert threads == ["asked"]


def test_the_first_request_after_a_pause_sees_that_its_right_was_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warren.broker.security.rights.RIGHTS_LOOK_S", 0.01)
    file = RightsFile(str(tmp_path))
    file.add([right()])

    async def in_thread(work: Any, *arguments: Any, **named: Any) -> Any:
        return work(*arguments)

    async def revoked() -> list[bool]:
        rights = Rights(RightsFile(str(tmp_path)), frozenset())
        before = rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")
        watch = asyncio.create_task(rights.watch(in_thread))
        file.remove(lambda each: True)
        # No request is checked during this.
        async with asyncio.timeout(PATIENCE_S):
            while list(rights._rights.about(ANN, ResourceKind.TOPIC, "orders")):
                await asyncio.sleep(0.01)
        watch.cancel()
        return [before, rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")]

    assert asyncio.run(revoked()) == [True, False]


def test_a_file_that_cannot_be_read_any_more_allows_nothing(tmp_path: Path) -> None:
    RightsFile(str(tmp_path)).add([right()])

    async def in_thread(work: Any, *arguments: Any, **named: Any) -> Any:
        return work(*arguments)

    async def broken() -> list[bool]:
        rights = Rights(RightsFile(str(tmp_path)), frozenset())
        before = rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")
        (tmp_path / "rights.json").write_text('{"rights": [{"kind": "moon"}]}')
        await rights.refresh(in_thread)
        return [before, rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")]

    assert asyncio.run(broken()) == [True, False]


def test_a_file_that_cannot_be_read_allows_nothing(tmp_path: Path) -> None:
    (tmp_path / "rights.json").write_text('{"rights": [{"kind": "moon"}]}')
    rights = Rights(RightsFile(str(tmp_path)), frozenset())

    with pytest.raises(CorruptSettings):
        rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")
    assert not rights.may(ANN, Operation.READ, ResourceKind.TOPIC, "orders")


def test_names_that_a_client_makes_up_take_little_memory_and_change_no_result(tmp_path: Path) -> None:
    file = RightsFile(str(tmp_path))
    file.add([Right(ResourceKind.TOPIC, "a", Pattern.PREFIXED, "User:ann", "*", Operation.READ, Permission.ALLOW)])
    rights = Rights(file, frozenset())
    sizes = []
    for number in range(40_000):
        for name, is_allowed in ((f"a{number:0200}", True), (f"b{number:0200}", False)):
            assert rights.may(ANN, Operation.READ, ResourceKind.TOPIC, name) is is_allowed
        if number % 1000 == 0:
            sizes.append(sum(len(question[-1]) for question in rights._answers))
    long_name = "a" * 100_000
    assert rights.may(ANN, Operation.READ, ResourceKind.TOPIC, long_name)

    assert RIGHTS_REMEMBERED_SIZE_MAX // 4 < max(sizes) < RIGHTS_REMEMBERED_SIZE_MAX
    assert all(question[-1] != long_name for question in rights._answers)


@pytest.mark.parametrize(
    "wrong",
    [
        right(kind=ResourceKind.ANY),
        right(pattern=Pattern.MATCH),
        right(operation=Operation.ANY),
        right(permission=Permission.ANY),
        right(name=""),
        right(name="a\nb"),
        right(kind=ResourceKind.CLUSTER),
        right()._replace(principal="ann"),
        right()._replace(principal="User:"),
        right(host=""),
    ],
)
def test_a_malformed_right_is_refused(tmp_path: Path, wrong: Right) -> None:
    with pytest.raises(BadInput):
        RightsFile(str(tmp_path)).add([wrong])


# --- Over the network ---


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    settings = BrokerSettings(sasl=True, rights=True, super_users=frozenset({"root"}))
    with running_broker(tmp_path / "data", settings=settings) as running:
        for user in ("ann", "root"):
            running.broker.users.create(user, PASSWORD)
        for topic in ("orders", "audit", "orders.eu"):
            running.broker.store.topic(topic)
        yield running


def config(broker: RunningBroker, user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "error_cb": lambda error: None,
        **more,
    }


def give(broker: RunningBroker, *bindings: tuple[str, str, str, str, str]) -> None:
    """Gives rights to ann, by root over the network: kind, name, pattern, operation, permission."""
    root = admin.AdminClient(config(broker, "root"))
    entries = [
        admin.AclBinding(
            admin.ResourceType[kind],
            name,
            admin.ResourcePatternType[pattern],
            "User:ann",
            "*",
            admin.AclOperation[operation],
            admin.AclPermissionType[permission],
        )
        for kind, name, pattern, operation, permission in bindings
    ]
    for future in root.create_acls(entries).values():
        future.result(PATIENCE_S)


def produced(broker: RunningBroker, user: str, *topics: str) -> dict[str, int | None]:
    out = confluent_kafka.Producer(config(broker, user))
    errors: dict[str, int | None] = {}
    for topic in topics:
        out.produce(
            topic,
            b"1",
            on_delivery=lambda error, message: errors.setdefault(message.topic(), error.code() if error else None),
        )
    out.flush(PATIENCE_S)
    return errors


def test_one_topic_among_several_without_the_right_is_refused_alone(broker: RunningBroker) -> None:
    give(broker, ("TOPIC", "orders", "PREFIXED", "WRITE", "ALLOW"), ("TOPIC", "audit", "LITERAL", "DESCRIBE", "ALLOW"))

    errors = produced(broker, "ann", "orders", "audit", "orders.eu")

    assert errors == {"orders": None, "audit": REFUSED, "orders.eu": None}


def test_topics_that_may_not_be_described_are_not_shown_and_none_is_made(broker: RunningBroker) -> None:
    give(broker, ("TOPIC", "orders", "LITERAL", "DESCRIBE", "ALLOW"))
    ann = admin.AdminClient(config(broker, "ann"))

    topics = ann.list_topics(timeout=PATIENCE_S).topics
    audit = ann.list_topics("audit", timeout=PATIENCE_S).topics
    made = produced(broker, "ann", "new")

    assert list(topics) == ["orders"]
    assert audit["audit"].error.code() == REFUSED
    assert made == {"new": REFUSED}
    assert not broker.broker.store.has_topic("new")


def test_a_consumer_needs_its_group_and_its_topic(broker: RunningBroker) -> None:
    broker.broker.store.topic("orders").put(b"1")
    more = {"group.id": "readers", "auto.offset.reset": "earliest"}

    def first() -> Any:
        into = confluent_kafka.Consumer(config(broker, "ann", **more))
        into.subscribe(["orders"])
        message = into.poll(PATIENCE_S)
        into.close()
        return message.error().code() if message.error() else message.value()

    give(broker, ("TOPIC", "orders", "LITERAL", "READ", "ALLOW"))
    without_group = first()
    give(broker, ("GROUP", "read", "PREFIXED", "READ", "ALLOW"))
    with_both = first()
    give(broker, ("TOPIC", "*", "LITERAL", "READ", "DENY"))
    denied = first()

    assert without_group == confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
    assert with_both == b"1"
    assert denied == REFUSED


def test_administration_needs_rights_too(broker: RunningBroker) -> None:
    ann = admin.AdminClient(config(broker, "ann"))
    resource = admin.ConfigResource("topic", "orders")
    tries = [
        ann.create_topics([admin.NewTopic("new", 1)])["new"],
        ann.delete_topics(["orders"])["orders"],
        ann.create_partitions([admin.NewPartitions("orders", 3)])["orders"],
        ann.describe_configs([resource])[resource],
    ]

    codes = [future.exception(PATIENCE_S).args[0].code() for future in tries]

    assert codes == [REFUSED] * 4
    assert broker.broker.store.topics() == ["audit", "orders", "orders.eu"]


def anything() -> tuple[Any, ...]:
    return (
        admin.ResourceType.ANY,
        None,
        admin.ResourcePatternType.ANY,
        None,
        None,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )


def test_rights_are_listed_and_taken_away(broker: RunningBroker) -> None:
    give(broker, ("TOPIC", "orders", "LITERAL", "WRITE", "ALLOW"), ("GROUP", "readers", "LITERAL", "READ", "ALLOW"))
    root = admin.AdminClient(config(broker, "root"))
    listed = root.describe_acls(admin.AclBindingFilter(*anything())).result(PATIENCE_S)
    before = produced(broker, "ann", "orders")

    every = admin.AclBindingFilter(*anything())
    gone = root.delete_acls([every])[every].result(PATIENCE_S)

    assert {(each.name, each.principal) for each in listed} == {("orders", "User:ann"), ("readers", "User:ann")}
    assert len(gone) == 2
    assert (before, produced(broker, "ann", "orders")) == ({"orders": None}, {"orders": REFUSED})


def test_the_rights_of_our_own_client_are_checked_too(broker: RunningBroker) -> None:
    give(broker, ("TOPIC", "orders", "LITERAL", "WRITE", "ALLOW"), ("TOPIC", "audit", "LITERAL", "READ", "ALLOW"))

    with warren.connect(broker.address, user="ann", password=PASSWORD) as store:
        number = store.topic("orders").put(b"1").number
        with pytest.raises(NoRight):
            store.topic("orders").last(1)
        with pytest.raises(NoRight):
            store.topic("audit").put(b"1")
        with pytest.raises(NoRight):
            store.topic("audit").group("readers")
        with pytest.raises(NoRight):
            store.topic("new")
        with pytest.raises(NoRight), store.transaction() as transaction:
            transaction.put("audit", b"1")
        assert store.topics() == ["audit", "orders"]
        assert store.topic("audit").last(1) == []

    assert number == 0
    assert broker.broker.store.topics() == ["audit", "orders", "orders.eu"]
    assert broker.broker.store.topic("audit").partition(0).end == 0


@pytest.mark.parametrize("delay", [False, True])
def test_a_transactional_id_of_another_user_cannot_be_produced_with(broker: RunningBroker, delay: bool) -> None:
    give(broker, ("TOPIC", "orders", "LITERAL", "WRITE", "ALLOW"))
    headers = [("warren.deliver-at", b"2100-01-01T00:00:00Z")] if delay else []

    with Caller(broker) as root, Caller(broker) as ann:
        root.login("root", PASSWORD)
        ann.login("ann", PASSWORD)
        _, id, epoch = root.init("roots")
        root.add(("roots", id, epoch), "orders", 0)
        batch = batch_of(
            [(None, b"evil", headers)], is_transactional=True, producer_id=id, producer_epoch=epoch, base_sequence=0
        )
        refused = ann.produce("orders", batch, transactional_id="roots")
        answer = root.produce(
            "orders", numbered_batch((id, epoch), 0, b"good", is_transactional=True), transactional_id="roots"
        )
        ended = root.end(("roots", id, epoch), committed=True)

    assert refused[0] == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (answer[0], ended) == (0, 0)
    assert [message.body for message in broker.broker.store.topic("orders").last(9)] == [b"good"]


@pytest.mark.parametrize("delay", [False, True])
def test_a_producer_id_of_another_user_cannot_be_produced_with(broker: RunningBroker, delay: bool) -> None:
    give(broker, ("TOPIC", "orders", "LITERAL", "WRITE", "ALLOW"))
    headers = [("warren.deliver-at", b"2100-01-01T00:00:00Z")] if delay else []

    with Caller(broker) as root, Caller(broker) as ann:
        root.login("root", PASSWORD)
        ann.login("ann", PASSWORD)
        _, id, epoch = root.init()
        _, of_transactions, _ = root.init("roots")
        first = root.produce("orders", numbered_batch((id, epoch), 0, b"0"))
        evil = [
            ann.produce(
                "orders", batch_of([(None, b"evil", headers)], producer_id=of, producer_epoch=epoch, base_sequence=1)
            )
            for of in (id, of_transactions)
        ]
        second = root.produce("orders", numbered_batch((id, epoch), 1, b"1"))
        _, anns, _ = ann.init()
        hers = ann.produce("orders", numbered_batch((anns, 0), 0, b"hers"))

    assert [each[0] for each in evil] == [confluent_kafka.KafkaError.UNKNOWN_PRODUCER_ID] * 2
    assert [first[0], second[0], hers[0]] == [0, 0, 0]
    assert [message.body for message in broker.broker.store.topic("orders").last(9)] == [b"0", b"1", b"hers"]


def test_without_rights_in_the_configuration_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with running_broker(tmp_path / "open") as running:
        client = kafka.KafkaAdminClient(bootstrap_servers=running.address)

        with pytest.raises(kafka_errors.SecurityDisabledError):
            client.describe_acls(EVERY_RIGHT)
        client.close()


def test_a_user_who_may_not_describe_the_cluster_does_not_see_rights(broker: RunningBroker) -> None:
    client = kafka.KafkaAdminClient(
        bootstrap_servers=broker.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="ann",
        sasl_plain_password=PASSWORD,
    )

    with pytest.raises(kafka_errors.ClusterAuthorizationFailedError):
        client.describe_acls(EVERY_RIGHT)
    client.close()


def test_the_command_adds_lists_and_removes_rights(tmp_path: Path) -> None:
    warren.open(tmp_path / "data").close()
    flags = ("--user", "ann", "--topic", "orders", "--prefix", "--operation", "read", "--store", "data")

    added = run_warren("acl", "add", *flags, folder=tmp_path)
    listed = run_warren("acl", "list", "--store", "data", folder=tmp_path)
    removed = run_warren("acl", "remove", *flags, folder=tmp_path)
    wrong = run_warren("acl", "add", "--user", "ann", "--operation", "fly", "--store", "data", folder=tmp_path)

    assert added.stdout == "1 right added\n"
    assert listed.stdout.splitlines()[-1].split() == ["topic", "orders", "prefixed", "ann", "*", "read", "allow"]
    assert removed.stdout == "1 right removed\n"
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert RightsFile(str(tmp_path / "data")).read() == []


def test_rights_that_are_added_listed_or_removed_are_written_as_json(tmp_path: Path) -> None:
    warren.open(tmp_path / "data").close()
    flags = ("--user", "ann", "--topic", "orders", "--operation", "read", "--store", "data", "--json")
    none = run_warren("acl", "list", "--store", "data", folder=tmp_path)

    added = json.loads(run_warren("acl", "add", *flags, folder=tmp_path).stdout)
    listed = json.loads(run_warren("acl", "list", "--store", "data", "--json", folder=tmp_path).stdout)
    removed = json.loads(run_warren("acl", "remove", *flags, folder=tmp_path).stdout)

    assert none.stdout == "no rights\n"
    assert [right["name"] for right in added] == ["orders"]
    assert added == listed == removed
