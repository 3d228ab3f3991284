"""The checks with aiokafka."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any, Final

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.conformance.bodies import PARTITIONS, PATIENCE_S, bodies, new_name
from tests.conformance.rows import COMPRESSIONS, Check, Client


def run(check: Callable[[str, str], Awaitable[None]]) -> Check:
    """Runs the check for a caller without an event loop, with a time limit."""

    @functools.wraps(check)
    def checked(address: str, compression: str) -> None:
        async def limited() -> None:
            async with asyncio.timeout(2 * PATIENCE_S):
                await check(address, compression)

        asyncio.run(limited())

    return checked


async def made_topic(address: str, prefix: str) -> str:
    topic = new_name(prefix)
    client = AIOKafkaAdminClient(bootstrap_servers=address)
    await client.start()
    await client.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await client.close()
    return topic


async def put(address: str, topic: str, compression: str = "none") -> None:
    codec = None if compression == "none" else compression
    out = aiokafka.AIOKafkaProducer(bootstrap_servers=address, compression_type=codec, linger_ms=20)
    await out.start()
    sent = [await out.send(topic, body, key=body[:10]) for body in bodies()]
    await asyncio.gather(*sent)
    await out.stop()


async def consumer(address: str, group: str, topic: str) -> Any:
    into = aiokafka.AIOKafkaConsumer(
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
    await into.start()
    return into


async def gathered(*consumers: Any) -> list[bytes]:
    missing, collected = set(bodies()), list[bytes]()
    while missing:
        for each in consumers:
            values = [message.value for message in chain(*(await each.getmany(timeout_ms=100)).values())]
            collected += values
            missing.difference_update(values)
    return collected


async def produce_and_consume(address: str, compression: str) -> None:
    topic = await made_topic(address, "plain")
    await put(address, topic, compression)
    into = await consumer(address, new_name("group"), topic)

    values = await gathered(into)
    await into.stop()

    assert sorted(values) == sorted(bodies())


async def groups(address: str, compression: str) -> None:
    topic, group = await made_topic(address, "groups"), new_name("group")
    await put(address, topic)
    first = await consumer(address, group, topic)
    await gathered(first)
    await first.commit()
    await first.stop()
    await put(address, topic)
    second = await consumer(address, group, topic)

    values = await gathered(second)
    await second.stop()

    assert sorted(values) == sorted(bodies())


async def rebalancing(address: str, compression: str) -> None:
    topic, group = await made_topic(address, "rebalancing"), new_name("group")
    members = [await consumer(address, group, topic) for _ in range(2)]

    while [len(each.assignment()) for each in members] != [2, 2]:
        await asyncio.sleep(0.05)
    await members.pop().stop()
    while len(members[0].assignment()) != PARTITIONS:
        await asyncio.sleep(0.05)
    await put(address, topic)
    await gathered(*members)
    await members[0].stop()


async def transactions(address: str, compression: str) -> None:
    topic = await made_topic(address, "transactions")
    out = aiokafka.AIOKafkaProducer(bootstrap_servers=address, transactional_id=new_name("transaction"))
    await out.start()
    await out.begin_transaction()
    await out.send_and_wait(topic, b"aborted")
    await out.abort_transaction()
    async with out.transaction():
        for body in bodies():
            await out.send(topic, body)
    await out.stop()
    into = await consumer(address, new_name("group"), topic)

    values = await gathered(into)
    await into.stop()

    assert sorted(values) == sorted(bodies())


async def administration(address: str, compression: str) -> None:
    topic = await made_topic(address, "admin")
    client = AIOKafkaAdminClient(bootstrap_servers=address)
    await client.start()
    await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "3600000"})])
    configs = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "3600000" in str(configs)
    await client.delete_topics([topic])
    while topic in await client.list_topics():
        await asyncio.sleep(0.05)
    await client.close()


CHECKS: Final[Mapping[str, Check]] = {
    "produce and consume": run(produce_and_consume),
    "groups": run(groups),
    "rebalancing": run(rebalancing),
    "transactions": run(transactions),
    "admin": run(administration),
}
CLIENT: Final = Client("aiokafka", str(aiokafka.__version__), COMPRESSIONS, CHECKS)
