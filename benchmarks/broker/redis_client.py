"""Redis Streams as a contender, by redis-py with hiredis: XADDs in a pipeline, XREADGROUP and XACK."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

GROUP: Final = "group"


def connect(port: int) -> Any:
    import redis

    return redis.Redis(host="127.0.0.1", port=port)


def add(client: Any, stream: str, bodies: Sequence[bytes], count: int) -> float:
    """Returns the seconds until `count` messages are added, as many together as there are bodies."""
    pipeline = client.pipeline(transaction=False)
    start = perf_counter()
    for _ in range(0, count, len(bodies)):
        for body in bodies:
            pipeline.xadd(stream, {"body": body})
        pipeline.execute()
    seconds = perf_counter() - start
    assert client.xlen(stream) == count
    return seconds


def added(client: Any, stream: str, bodies: Sequence[bytes], count: int) -> float:
    """The same to a new stream, which is deleted afterwards."""
    seconds = add(client, stream, bodies, count)
    client.delete(stream)
    return seconds


def read(client: Any, stream: str, count: int, at_once: int) -> float:
    """Returns the seconds until a new group has read and acknowledged all `count` messages of a stream."""
    client.xgroup_create(stream, GROUP, id="0")
    try:
        start = perf_counter()
        read_count = 0
        while read_count < count:
            ((_, messages),) = client.xreadgroup(GROUP, "consumer", {stream: ">"}, count=at_once)
            client.xack(stream, GROUP, *(id for id, _ in messages))
            read_count += len(messages)
        return perf_counter() - start
    finally:
        client.xgroup_destroy(stream, GROUP)
