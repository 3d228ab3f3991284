"""A broker as a process: serves a store until a signal says that it should stop."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import logging
import signal
import ssl
import sys
from collections.abc import Callable
from typing import Final

from warren.broker.broker import Broker
from warren.broker.configuration import Configuration
from warren.broker.heap import Heap, keep_memory
from warren.broker.places import is_loopback
from warren.broker.security.tls import tls_context
from warren.broker.server import Beside, nothing_beside, serve
from warren.errors import OpenToAll
from warren.transaction.store import Store

LOGGER: Final = logging.getLogger("warren.broker")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
COLLECT_AT: Final = (20_000, 5, 1_000)
"""After how many more objects than are gone again the young ones are looked at; and how many such looks, in two steps,
before one at the older ones. A look stops all threads, for about 10 ms at 100,000 objects: those of the second step
are that many at most."""
SWITCH_S: Final = 0.0005
"""How long a thread may run while another wants to."""


Neighbour = Callable[[Configuration, ssl.SSLContext | None], Beside]
"""Makes what serves beside a broker, of the same configuration."""


def run(store: Store, configuration: Configuration, neighbour: Neighbour | None = None) -> None:
    """Serve until SIGTERM or SIGINT, answer what was accepted, and return. A second signal ends the process at once."""
    check_address(configuration)
    tls = tls_context(**configuration.section("tls"))
    beside = nothing_beside if neighbour is None else neighbour(configuration, tls)
    _settle_down()
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_run(store, configuration, tls, beside))


def _settle_down() -> None:
    """Set the interpreter up for serving: what is there now stays, and who comes back from the disk gets a turn."""
    # Arrow, which scans need. While it is loaded no other thread runs, for a quarter of a second from a slow disk.
    importlib.import_module("warren.storage.scan")
    # With hundreds of requests under way a collector that looks at all modules each time takes a tenth of all time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AT)
    keep_memory()
    # Whoever has synced would otherwise wait until the event loop has answered all who waited before.
    sys.setswitchinterval(SWITCH_S)


def check_address(configuration: Configuration) -> None:
    """OpenToAll where other machines could reach the broker, and nobody would have to say who they are."""
    hosts = [configuration["broker.host"]]
    if configuration["http.port"] is not None:
        hosts.append(configuration["http.host"])
    has_names = configuration["security.sasl"] or configuration["tls.client_ca"]
    for host in hosts:
        if not is_loopback(host) and not has_names and not configuration["broker.insecure"]:
            raise OpenToAll(host or "every address")


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; None for Python's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


async def _run(store: Store, configuration: Configuration, tls: ssl.SSLContext | None, beside: Beside) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(name: str) -> None:
        stopping.set()
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        # Said last: who reads it may rely on what a second signal does.
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
        beside=beside,
        started=_watch_heap,
    )
    LOGGER.info("stopped")


def _watch_heap(broker: Broker) -> None:
    broker.tasks.create_task(Heap().watch(lambda: broker.budget.size, broker.in_thread))
