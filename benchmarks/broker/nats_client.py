"""NATS JetStream as a contender, by nats-py: one message after the other, each acknowledged before the next."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self

STREAM: Final = "orders"


class JetStream:
    """One connection to a server, and a stream in files with a subject of the same name."""

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner(loop_factory=_fast_loop())
        self._runner.run(self._connect(address))

    async def _connect(self, address: str) -> None:
        import nats
        from nats.js.api import StorageType

        self._connection: Any = await nats.connect(f"nats://{address}")
        self._stream = self._connection.jetstream()
        await self._stream.add_stream(name=STREAM, subjects=[STREAM], storage=StorageType.FILE)

    def publish_each(self, bodies: Sequence[bytes], count: int) -> float:
        """The seconds for `count` messages."""
        return self._runner.run(self._publish_each(bodies, count))

    async def _publish_each(self, bodies: Sequence[bytes], count: int) -> float:
        publish = self._stream.publish
        await publish(STREAM, bodies[0])
        start = perf_counter()
        for body in islice(cycle(bodies), count):
            await publish(STREAM, body)
        return perf_counter() - start

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, as for the broker."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
