"""Server: a broker as a process, with its listener and a stop that answers every request that was accepted."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import logging
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from warren.broker.broker import Broker
from warren.broker.configuration import Configuration
from warren.broker.dispatch import answer
from warren.broker.net.connection import Connection
from warren.broker.net.malloc import MemoryTrimmer
from warren.broker.net.places import BROKER_BACKLOG, is_loopback
from warren.broker.net.tasks import BackgroundTasks
from warren.broker.net.tls_listener import Reserve, TlsListener, bound_sockets
from warren.broker.security.tls import tls_context
from warren.broker.services.leadership import Leadership
from warren.broker.settings import BrokerLimits, BrokerSettings
from warren.errors import CannotListen, OpenToAll, StoreServed, WarrenError
from warren.queue.state import paths
from warren.storage.disk.filesystem import FileSystem
from warren.transaction.store import Store

if TYPE_CHECKING:
    from warren.broker.cluster.replica_host import ReplicaHost

LOGGER: Final = logging.getLogger("warren.broker")
LOOK_S: Final = 0.01


class SideServer(Protocol):
    """Another server in the event loop of the broker, such as HTTP."""

    def serving(self, broker: Broker) -> AbstractAsyncContextManager[None]:
        """Serves a broker. It starts after the broker and ends last. If it serves a replica, its address stays."""
        ...

    def following(self, host: ReplicaHost) -> AbstractAsyncContextManager[None]:
        """Serves a replica that does not lead, until `serving` gets its broker."""
        ...


SideServerFactory = Callable[[Configuration, ssl.SSLContext | None], SideServer]
"""Makes the side server from the configuration of the broker."""


class Listener(Protocol):
    """Accepts connections on its sockets until it is closed."""

    @property
    def sockets(self) -> Sequence[Any]: ...

    def close(self) -> None: ...


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
COLLECT_AT: Final = (5_000, 4, 4_000)
"""The thresholds of Python's garbage collector. It examines the youngest objects when 5,000 more were made than freed,
and the next generation every fourth time. A collection stops all threads: with four times as many objects, that of the
second generation took up to 90 ms while a request for 10,000 partitions was answered."""
SWITCH_S: Final = 0.0005
"""How long a thread may run while another one waits for the interpreter."""


# --- The process ---


def run(store: Store, configuration: Configuration, side_server_factory: SideServerFactory | None = None) -> None:
    """Serves until SIGTERM or SIGINT, answers what was accepted, and returns. A second signal ends the process."""
    check_address(configuration)
    tls = tls_context(**configuration.section("tls"))
    side_server = NO_SIDE_SERVER if side_server_factory is None else side_server_factory(configuration, tls)
    settle_down()
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_run(store, configuration, tls, side_server))


def settle_down() -> None:
    """Sets up the interpreter for serving: the collector ignores what is loaded now, and threads get short turns."""
    # Scans need Arrow. Loading it later would stop all threads, for a quarter of a second from a slow disk.
    importlib.import_module("warren.storage.arrow.scan")
    # With hundreds of requests in progress, a collector that examines all modules each time takes a tenth of the CPU.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AT)
    # Otherwise a thread that has synced waits until the event loop has answered every request before it.
    sys.setswitchinterval(SWITCH_S)


def check_address(configuration: Configuration) -> None:
    """Raises OpenToAll if other machines could reach the broker and clients need not log in."""
    hosts = [configuration["broker.host"]]
    if configuration["http.port"] is not None:
        hosts.append(configuration["http.host"])
    has_names = configuration["security.sasl"] or configuration["tls.client_ca"]
    for host in hosts:
        if not is_loopback(host) and not has_names and not configuration["broker.insecure"]:
            raise OpenToAll(host or "every address")


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop if it is installed; None for the event loop of Python."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


async def _run(store: Store, configuration: Configuration, tls: ssl.SSLContext | None, side_server: SideServer) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(name: str) -> None:
        stopping.set()
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        # Logged last: from this line on, a second signal ends the process.
        LOGGER.info("%s: stopping", name)

    for each in SIGNALS:
        loop.add_signal_handler(each, stop, each.name)
    await serve(
        store,
        configuration["broker.host"],
        configuration["broker.port"],
        stopping=stopping,
        settings=configuration.settings(),
        limits=configuration.limits(),
        tls=tls,
        advertised=configuration.advertised(),
        side_server=side_server,
        started=_watch_heap,
    )
    LOGGER.info("stopped")


def _watch_heap(broker: Broker) -> None:
    broker.tasks.create_task(MemoryTrimmer().watch(lambda: broker.budget.size, broker.in_thread))


# --- Serving ---


class _Stopped(Exception):
    """Ends the tasks of a broker that has stopped."""


class NoSideServer:
    """Runs no other server in the event loop of the broker."""

    @asynccontextmanager
    async def serving(self, broker: Broker) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def following(self, host: ReplicaHost) -> AsyncIterator[None]:
        yield


NO_SIDE_SERVER: Final = NoSideServer()


async def serve(
    store: Store,
    host: str,
    port: int,
    *,
    stopping: asyncio.Event,
    settings: BrokerSettings | None = None,
    limits: BrokerLimits | None = None,
    tls: ssl.SSLContext | None = None,
    advertised: tuple[str, int] | None = None,
    side_server: SideServer = NO_SIDE_SERVER,
    started: Callable[[Broker], None] = lambda broker: None,
) -> None:
    """Serves `store` until `stopping` is set; then finishes what was accepted, for `limits.stop_s_max` at most.

    Calls `started` when connections are accepted; port 0 takes a free one. The broker announces `advertised` to clients
    as its address, or, if that is None, the address that it listens on. Raises StoreServed if another broker serves the
    store, and CannotListen if the address cannot be used.
    """
    with served_alone(store.filesystem, store.path):
        await serve_open(
            store,
            lambda broker: _listen(broker, host, port, tls),
            stopping=stopping,
            settings=settings or BrokerSettings(),
            limits=limits or BrokerLimits(),
            advertised=advertised,
            side_server=side_server,
            started=started,
        )


async def serve_open(
    store: Store,
    listen: Callable[[Broker], Awaitable[Listener]],
    *,
    stopping: asyncio.Event,
    settings: BrokerSettings,
    limits: BrokerLimits,
    advertised: tuple[str, int] | None,
    side_server: SideServer,
    started: Callable[[Broker], None],
    leadership: Leadership | None = None,
) -> None:
    """Does what `serve` does, for a store that no other broker can serve. `listen` begins to give it connections."""
    failure: Exception | None = None
    try:
        async with BackgroundTasks() as tasks:
            broker = Broker(store, settings, limits, tasks, leadership)
            try:
                # Before the first connection: later, a request might have to wait for topics of many partitions.
                await broker.open_topics.look()
                listener = await listen(broker)
                broker.advertised = advertised or listener.sockets[0].getsockname()[:2]
                await _serve(broker, listener, stopping, side_server, started)
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
def served_alone(filesystem: FileSystem, path: str) -> Iterator[None]:
    """Holds the lock of the broker that serves the store. Raises StoreServed if another broker has it."""
    lock = filesystem.lock(paths.broker_lock(path))
    try:
        if not lock.try_acquire():
            raise StoreServed(path, lock.holder())
        lock.note_holder(os.getpid())
        yield
        lock.note_holder(0)
    finally:
        lock.close()


async def _listen(broker: Broker, host: str, port: int, tls: ssl.SSLContext | None) -> Listener:
    return await open_listener(connection_factory(broker), broker.reserve, broker.tasks, host, port, tls)


def connection_factory(broker: Broker) -> Callable[..., Connection]:
    """Returns what makes the protocol of each connection to a broker."""
    return partial(Connection, broker, partial(answer, broker))


async def open_listener(
    factory: Callable[..., Connection],
    reserve: Reserve,
    tasks: asyncio.TaskGroup,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
) -> Listener:
    """Accepts connections from now on. Raises CannotListen if the address cannot be used."""
    try:
        if tls is None:
            return await asyncio.get_running_loop().create_server(factory, host, port, backlog=BROKER_BACKLOG)
        return TlsListener(await bound_sockets(host, port), tls, reserve, factory, tasks)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise CannotListen(host, port, reason) from error


async def _serve(
    broker: Broker,
    listener: Listener,
    stopping: asyncio.Event,
    side_server: SideServer,
    started: Callable[[Broker], None],
) -> None:
    broker.tasks.create_task(broker.progress.watch())
    broker.tasks.create_task(broker.transactions.watch())
    if broker.settings.sasl:
        broker.tasks.create_task(broker.logged_in.watch())
    broker.tasks.create_task(broker.failed_logs.watch())
    broker.tasks.create_task(broker.open_topics.watch())
    broker.tasks.create_task(broker.pauses.watch())
    LOGGER.info("serving %s on %s:%d", broker.store.path, *listener.sockets[0].getsockname()[:2])
    try:
        async with side_server.serving(broker):
            started(broker)
            try:
                await stopping.wait()
            finally:
                listener.close()
                await _finish(broker)
    finally:
        listener.close()


async def _finish(broker: Broker) -> None:
    """Waits until every request that was accepted is answered, for `limits.stop_s_max` at most."""
    loop = asyncio.get_running_loop()
    broker.stop()
    while broker.connections and loop.time() < broker.stop_by_s:
        await asyncio.sleep(LOOK_S)
    if broker.connections:
        LOGGER.warning("%d connections were not answered in time", len(broker.connections))
