"""Serving: the listener, and stopping so that everything that was taken is answered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from warren.broker.broker import Broker
from warren.broker.connection import Connection
from warren.broker.limits import Limits
from warren.broker.settings import BrokerSettings
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.broker")
LOOK_S: Final = 0.01


async def serve(
    store: Store,
    host: str,
    port: int,
    *,
    stopping: asyncio.Event,
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    started: Callable[[Broker], None] = lambda broker: None,
) -> None:
    """Serve `store` until `stopping` is set; then finish what was accepted, at most as long as the limits say.

    `started` is told when connections are taken; port 0 takes any that is free.
    """
    async with asyncio.TaskGroup() as tasks:
        broker = Broker(store, settings or BrokerSettings(), limits or Limits(), tasks)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Connection(broker), host, port, ssl=tls, backlog=1024)
        bound_host, bound_port = listener.sockets[0].getsockname()[:2]
        broker.advertised = bound_host, bound_port
        LOGGER.info("serving %s on %s:%d", store.path, bound_host, bound_port)
        started(broker)
        try:
            await stopping.wait()
        finally:
            listener.close()
            broker.stop()
            deadline = loop.time() + broker.limits.stop_s_max
            while broker.connections and loop.time() < deadline:
                await asyncio.sleep(LOOK_S)
            broker.close()
