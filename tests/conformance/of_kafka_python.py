"""The checks with kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import chain
from typing import Any, Final

import kafka
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.conformance.bodies import PARTITIONS, PATIENCE_S, bodies, gathered, new_name, until
from tests.conformance.rows import COMPRESSIONS, Check, Client


def made_topic(address: str, prefix: str) -> str:
    topic = new_name(prefix)
    client = kafka.KafkaAdminClient(bootstrap_servers=address)
    client.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    client.close()
    return topic


def put(address: str, topic: str, compression: str = "none") -> None:
    codec = None if compression == "none" else compression
    out = kafka.KafkaProducer(bootstrap_servers=address, compression_type=codec, linger_ms=20)
    sent = [out.send(topic, body, key=body[:10]) for body in bodies()]
    for each in sent:
        each.get(PATIENCE_S)
    out.close()


def consumer(address: str, group: str, topic: str) -> Any:
    return kafka.KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        isolation_level="read_committed",
        partition_assignment_strategy=[RangePartitionAssignor],
    )


def polled(*consumers: Any) -> list[bytes]:
    return [each.value for one in consumers for each in chain(*one.poll(100).values())]


def produce_and_consume(address: str, compression: str) -> None:
    topic = made_topic(address, "plain")
    put(address, topic, compression)

    with closing(consumer(address, new_name("group"), topic)) as into:
        values = gathered(lambda: polled(into), bodies())

    assert sorted(values) == sorted(bodies())


def groups(address: str, compression: str) -> None:
    topic, group = made_topic(address, "groups"), new_name("group")
    put(address, topic)
    with closing(consumer(address, group, topic)) as first:
        gathered(lambda: polled(first), bodies())
        first.commit()
    put(address, topic)

    with closing(consumer(address, group, topic)) as second:
        values = gathered(lambda: polled(second), bodies())

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
    out = kafka.KafkaProducer(bootstrap_servers=address, transactional_id=new_name("transaction"))
    out.init_transactions()
    out.begin_transaction()
    out.send(topic, b"aborted").get(PATIENCE_S)
    out.abort_transaction()
    out.begin_transaction()
    for body in bodies():
        out.send(topic, body)
    out.commit_transaction()
    out.close()

    with closing(consumer(address, new_name("group"), topic)) as into:
        values = gathered(lambda: polled(into), bodies())

    assert sorted(values) == sorted(bodies())


def administration(address: str, compression: str) -> None:
    topic = made_topic(address, "admin")
    client = kafka.KafkaAdminClient(bootstrap_servers=address)
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "3600000"})])
    configs = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "3600000" in str(configs)
    assert topic in client.list_topics()
    client.delete_topics([topic])
    until(lambda: topic not in client.list_topics())
    client.close()


CHECKS: Final[Mapping[str, Check]] = {
    "produce and consume": produce_and_consume,
    "groups": groups,
    "rebalancing": rebalancing,
    "transactions": transactions,
    "admin": administration,
}
CLIENT: Final = Client("kafka-python", str(kafka.__version__), COMPRESSIONS, CHECKS)
