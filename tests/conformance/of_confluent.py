"""The checks with confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin

from tests.conformance.bodies import PARTITIONS, PATIENCE_S, bodies, gathered, new_name, until
from tests.conformance.rows import COMPRESSIONS, Check, Client

# Its stubs do not name its exports.
admin: Any = confluent_kafka.admin


def made_topic(address: str, prefix: str) -> str:
    topic = new_name(prefix)
    client = admin.AdminClient({"log_level": 3, "bootstrap.servers": address})
    client.create_topics([admin.NewTopic(topic, PARTITIONS)])[topic].result(PATIENCE_S)
    return topic


def put(address: str, topic: str, compression: str = "none", **config: Any) -> Any:
    out = confluent_kafka.Producer(
        {"log_level": 3, "bootstrap.servers": address, "compression.type": compression, **config}
    )
    for body in bodies():
        out.produce(topic, body, body[:10])
    assert out.flush(PATIENCE_S) == 0
    return out


def consumer(address: str, group: str, topic: str) -> Any:
    into = confluent_kafka.Consumer(
        {
            "log_level": 3,
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "isolation.level": "read_committed",
        }
    )
    into.subscribe([topic])
    return into


def polled(*consumers: Any) -> list[bytes]:
    values = []
    for each in consumers:
        for message in each.consume(100, 0.1):
            assert message.error() is None, message.error()
            values.append(message.value())
    return values


def produce_and_consume(address: str, compression: str) -> None:
    topic = made_topic(address, "plain")
    put(address, topic, compression)
    into = consumer(address, new_name("group"), topic)

    values = gathered(lambda: polled(into), bodies())
    into.close()

    assert sorted(values) == sorted(bodies())


def groups(address: str, compression: str) -> None:
    topic, group = made_topic(address, "groups"), new_name("group")
    put(address, topic)
    first = consumer(address, group, topic)
    gathered(lambda: polled(first), bodies())
    first.commit(asynchronous=False)
    first.close()
    put(address, topic)
    second = consumer(address, group, topic)

    values = gathered(lambda: polled(second), bodies())
    second.close()

    assert sorted(values) == sorted(bodies())


def rebalancing(address: str, compression: str) -> None:
    topic, group = made_topic(address, "rebalancing"), new_name("group")
    members = [consumer(address, group, topic) for _ in range(2)]

    until(lambda: [len(each.assignment()) for each in members] == [2, 2], lambda: polled(*members))
    members.pop().close()
    until(lambda: len(members[0].assignment()) == PARTITIONS, lambda: polled(*members))
    put(address, topic)
    gathered(lambda: polled(*members), bodies())
    members[0].close()


def transactions(address: str, compression: str) -> None:
    topic = made_topic(address, "transactions")
    out = confluent_kafka.Producer(
        {"log_level": 3, "bootstrap.servers": address, "transactional.id": new_name("transaction")}
    )
    out.init_transactions(PATIENCE_S)
    out.begin_transaction()
    out.produce(topic, b"aborted")
    out.flush(PATIENCE_S)
    out.abort_transaction(PATIENCE_S)
    out.begin_transaction()
    for body in bodies():
        out.produce(topic, body)
    out.commit_transaction(PATIENCE_S)
    into = consumer(address, new_name("group"), topic)

    values = gathered(lambda: polled(into), bodies())
    into.close()

    assert sorted(values) == sorted(bodies())


def administration(address: str, compression: str) -> None:
    client, topic = admin.AdminClient({"log_level": 3, "bootstrap.servers": address}), made_topic(address, "admin")
    resource = admin.ConfigResource("topic", topic, {"retention.ms": "3600000"})
    client.alter_configs([resource])[resource].result(PATIENCE_S)
    entries = client.describe_configs([resource])[resource].result(PATIENCE_S)
    assert entries["retention.ms"].value == "3600000"
    client.create_partitions([admin.NewPartitions(topic, PARTITIONS + 1)])[topic].result(PATIENCE_S)
    assert len(client.list_topics(topic, PATIENCE_S).topics[topic].partitions) == PARTITIONS + 1
    client.delete_topics([topic])[topic].result(PATIENCE_S)
    until(lambda: topic not in client.list_topics(timeout=PATIENCE_S).topics)


CHECKS: Final[Mapping[str, Check]] = {
    "produce and consume": produce_and_consume,
    "groups": groups,
    "rebalancing": rebalancing,
    "transactions": transactions,
    "admin": administration,
}
CLIENT: Final = Client(
    "confluent-kafka",
    f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
    COMPRESSIONS,
    CHECKS,
)
