"""Serving: the listener, and stopping so that everything that was taken is answered."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Final

from warren.broker.background import Background
from warren.broker.broker import Broker
from warren.broker.connection import Connection
from warren.broker.limits import Limits
from warren.broker.settings import BrokerSettings
from warren.config import BROKER_BACKLOG, TLS_HANDSHAKE_S_MAX
from warren.errors import CannotListen, StoreServed, WarrenError
from warren.queue import store_paths
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.broker")
LOOK_S: Final = 0.01
Beside = Callable[[Broker], AbstractAsyncContextManager[None]]
"""Something that serves beside the broker, in its event loop, from its start to its end."""


class _Stopped(Exception):
    """Ends what still waits in the task group of a broker that has stopped."""


@asynccontextmanager
async def nothing_beside(broker: Broker) -> AsyncIterator[None]:
    """The broker is alone."""
    yield


async def serve(
    store: Store,
    host: str,
    port: int,
    *,
    stopping: asyncio.Event,
    settings: BrokerSettings | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    advertised: tuple[str, int] | None = None,
    beside: Beside = nothing_beside,
    started: Callable[[Broker], None] = lambda broker: None,
) -> None:
    """Serve `store` until `stopping` is set; then finish what was accepted, at most as long as the limits say.

    `started` is told when connections are taken; port 0 takes any that is free. Clients are told to connect to
    `advertised`, or to where the broker listens. What serves `beside` it ends last. StoreServed where another broker
    serves the store, and CannotListen where the address cannot be had.
    """
    failure: Exception | None = None
    with _served_alone(store):
        try:
            async with Background() as tasks:
                broker = Broker(store, settings or BrokerSettings(), limits or Limits(), tasks)
                try:
                    listener = await _listen(broker, host, port, tls)
                    broker.advertised = advertised or listener.sockets[0].getsockname()[:2]
                    await _serve(broker, listener, stopping, beside, started)
                finally:
                    broker.close()
                raise _Stopped
        except* _Stopped:
            pass
        except* WarrenError as failed:
            failure = failed.exceptions[0]
    if failure is not None:
        raise failure


@contextmanager
def _served_alone(store: Store) -> Iterator[None]:
    lock = store.filesystem.lock(store_paths.broker_lock(store.path))
    try:
        if not lock.try_acquire():
            raise StoreServed(store.path, lock.holder())
        lock.note_holder(os.getpid())
        yield
        lock.note_holder(0)
    finally:
        lock.close()


async def _listen(broker: Broker, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    handshake_s = None if tls is None else TLS_HANDSHAKE_S_MAX
    try:
        return await loop.create_server(
            lambda: Connection(broker), host, port, ssl=tls, backlog=BROKER_BACKLOG, ssl_handshake_timeout=handshake_s
        )
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise CannotListen(host, port, reason) from error


async def _serve(
    broker: Broker,
    listener: asyncio.Server,
    stopping: asyncio.Event,
    beside: Beside,
    started: Callable[[Broker], None],
) -> None:
    broker.tasks.create_task(broker.progress.watch())
    broker.tasks.create_task(broker.transactions.watch())
    if broker.settings.sasl:
        broker.tasks.create_task(broker.logged_in.watch())
    broker.tasks.create_task(broker.failed_logs.watch())
    broker.tasks.create_task(broker.pauses.watch())
    LOGGER.info("serving %s on %s:%d", broker.store.path, *listener.sockets[0].getsockname()[:2])
    try:
        async with beside(broker):
            started(broker)
            try:
                await stopping.wait()
            finally:
                listener.close()
                await _finish(broker)
    finally:
        listener.close()


async def _finish(broker: Broker) -> None:
    """Answer what was taken, as long as the limits say."""
    loop = asyncio.get_running_loop()
    broker.stop()
    while broker.connections and loop.time() < broker.stop_by_s:
        await asyncio.sleep(LOOK_S)
    if broker.connections:
        LOGGER.warning("%d connections were not answered in time", len(broker.connections))
