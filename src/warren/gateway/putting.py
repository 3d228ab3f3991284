"""Putting over HTTP: through the broker's door, where all who wait share one sync; or parked until due."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from warren.broker.topics import found_or_made
from warren.config import DELAY_S_MAX, HTTP_LIMIT_MAX, PARTITIONS_MAX
from warren.errors import GONE, NoSuchTopic
from warren.gateway.exchange import Asked, Reply, json_reply
from warren.gateway.json_messages import NUMBER_MAX, PUT_FIELDS, batch_of
from warren.gateway.shapes import Fields, Listed, Seconds, Text, Whole
from warren.queue.topic import Topic
from warren.storage.columns import Batch
from warren.storage.compression import compression_code
from warren.storage.packing import pack_batch
from warren.storage.record import Packed

DUE_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
PUT: Final = Fields(
    {
        "messages": Listed(PUT_FIELDS, HTTP_LIMIT_MAX, 1),
        "partition": Whole(0, PARTITIONS_MAX - 1),
        "delay_s": Seconds(DELAY_S_MAX),
    },
    required=("messages",),
)
_PLACE: Final = Fields(
    {"partition": Whole(0, NUMBER_MAX), "number": Whole(0, NUMBER_MAX)}, required=("partition", "number")
)
_PARKED: Final = Fields({"id": Text(100), "due": Text(64)}, required=("id", "due"))
PUT_ANSWER: Final = Fields(
    {"places": Listed(_PLACE, HTTP_LIMIT_MAX), "parked": Listed(_PARKED, HTTP_LIMIT_MAX)}, required=("places", "parked")
)
"""One of the two lists is empty: where the messages are, or the ids by which they can be cancelled."""

Parts = dict[int, tuple[list[int], list[Packed]]]
"""By partition: which rows go there, and their records."""


async def put(asked: Asked) -> Reply:
    """Put messages together; answered when all are as durable as the topic's settings say."""
    topic = await found_or_made(asked, asked.path["topic"])
    batch = batch_of(asked.body["messages"])
    partition, delay_s = asked.body.get("partition"), asked.body.get("delay_s")
    if delay_s is not None:
        return json_reply(await asked.broker.in_thread(_parked, topic, batch, partition, delay_s), 201)
    try:
        places = await _stored(asked, topic, batch, partition)
    except GONE as error:
        raise NoSuchTopic(topic.name) from error
    shown = [{"partition": place[0], "number": place[1]} for place in places]
    return json_reply({"places": shown, "parked": []}, 201)


def _parked(topic: Topic, batch: Batch, partition: int | None, delay_s: float) -> dict[str, Any]:
    columns: dict[str, Any] = {name: column for name, column in batch._asdict().items() if name != "bodies"}
    handles = topic.put_many(batch.bodies, partition=partition, delay=delay_s, **columns)
    return {"places": [], "parked": [{"id": each.id, "due": each.due.strftime(DUE_FORMAT)} for each in handles]}


async def _stored(asked: Asked, topic: Topic, batch: Batch, partition: int | None) -> list[tuple[int, int]]:
    """Partition and number of each message, in order."""
    broker = asked.broker
    if topic.settings.version == 1:
        # Its logs take no packed records.
        columns: dict[str, Any] = {name: column for name, column in batch._asdict().items() if name != "bodies"}
        found = await broker.in_thread(lambda: topic.put_many(batch.bodies, partition=partition, **columns))
        for log in topic.logs:
            broker.long_polls.ring(log)
        return [(place.partition, place.number) for place in found]
    parts = await broker.in_thread(_packed, topic, batch, partition)
    if topic.settings.durability == "commit":
        puts = [broker.door.put(topic.partition(number), records) for number, (_, records) in parts.items()]
        numbers = await asyncio.gather(*puts)
    else:
        numbers = [broker.door.put_now(topic.partition(number), records) for number, (_, records) in parts.items()]
    places = [(0, 0)] * len(batch.bodies)
    for (number, (rows, _)), stored in zip(parts.items(), numbers, strict=True):
        for row, at in zip(rows, stored, strict=True):
            places[row] = number, at
    return places


def _packed(topic: Topic, batch: Batch, partition: int | None) -> Parts:
    """The records for each partition. What is over a limit is refused here, and nothing has changed."""
    batch.check()
    topic.check_bodies(batch.bodies)
    keys = batch.keys
    if partition is not None or keys is None:
        rows = {topic.route(None) if partition is None else partition: list(range(len(batch.bodies)))}
    else:
        keyless, rows = topic.route(None), {}
        for row, key in enumerate(keys):
            rows.setdefault(keyless if key is None else topic.route(key), []).append(row)
    compression = compression_code(topic.settings.compression)
    parts: Parts = {}
    for number, chosen in rows.items():
        log = topic.partition(number)
        records = list(pack_batch(_part(batch, chosen), "", compression, log.record_size_max))
        parts[number] = chosen, records
    return parts


def _part(batch: Batch, rows: list[int]) -> Batch:
    columns: dict[str, Any] = {
        name: None if column is None else [column[row] for row in rows] for name, column in batch._asdict().items()
    }
    return Batch(**columns)
