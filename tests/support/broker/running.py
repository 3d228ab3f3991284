"""A broker that runs in a thread of the test's own process, on loopback."""

from __future__ import annotations

import asyncio
import queue
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import warren
from warren.broker.broker import Broker
from warren.broker.server import NO_SIDE_SERVER, SideServer, serve
from warren.broker.settings import BrokerLimits, BrokerSettings

HOST = "127.0.0.1"
PATIENCE_S = 30.0


class RunningBroker:
    """Its address, and its objects."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.broker, self.loop = broker, loop

    @property
    def address(self) -> str:
        host, port = self.broker.advertised
        return f"{host}:{port}"


@contextmanager
def running_broker(
    path: Path,
    *,
    port: int = 0,
    durability: str = "os",
    settings: BrokerSettings | None = None,
    limits: BrokerLimits | None = None,
    tls: ssl.SSLContext | None = None,
    side_server: SideServer = NO_SIDE_SERVER,
) -> Iterator[RunningBroker]:
    """A broker of the store at `path`, stopped at the end as a SIGTERM stops it."""
    started: queue.Queue[tuple[Broker, asyncio.AbstractEventLoop, asyncio.Event] | None] = queue.Queue()

    async def main() -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        with warren.open(path, durability=durability) as store:
            await serve(
                store,
                HOST,
                port,
                stopping=stopping,
                settings=settings,
                limits=limits,
                tls=tls,
                side_server=side_server,
                started=lambda broker: started.put((broker, loop, stopping)),
            )

    with ThreadPoolExecutor(1, "broker") as pool:
        serving = pool.submit(asyncio.run, main())
        serving.add_done_callback(lambda _: started.put(None))
        start = started.get(timeout=PATIENCE_S)
        if start is None:
            serving.result()
            raise AssertionError("the broker ended before it served")
        broker, loop, stopping = start
        try:
            yield RunningBroker(broker, loop)
        finally:
            loop.call_soon_threadsafe(stopping.set)
            serving.result(PATIENCE_S)
