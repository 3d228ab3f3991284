"""ZooKeeper servers that tests run, kill and cut off: Warren's own, from the jars that pip brings."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.support.patience import until
from warren.registry.addresses import Address, EnsembleMember
from warren.registry.class_path import class_path
from warren.registry.security import TlsFiles
from warren.registry.server import Server, free_port
from warren.registry.server_files import ServerSettings
from warren.registry.status import ServerStatus, ask_statuses

HOST: Final = "127.0.0.1"
SERVE_S_MAX: Final = 60.0


@dataclass
class RunningServer:
    """A server in a thread of this process. `served` counts how often it began to serve."""

    settings: ServerSettings
    sentences: list[str] = field(default_factory=list)
    statuses: list[ServerStatus] = field(default_factory=list)
    served: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self) -> None:
        jars = class_path(is_tls=self.settings.tls is not None)
        self.server = Server(self.settings, jars, os.environ, serves=self._serves, says=self.sentences.append)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def _serves(self, status: ServerStatus) -> None:
        self.statuses.append(status)
        self.served.release()

    def wait_until_serving(self) -> None:
        assert self.served.acquire(timeout=SERVE_S_MAX)

    def stop(self) -> None:
        self.server.stop()
        self.thread.join()

    def signal(self, number: signal.Signals) -> None:
        pid = self.server.pid
        assert pid is not None
        os.kill(pid, number)

    @property
    def address(self) -> str:
        return str(self.settings.address)


@contextmanager
def running_server(folder: Path, **settings: object) -> Iterator[RunningServer]:
    """A standalone server that serves."""
    address = Address(HOST, free_port(HOST))
    server = RunningServer(replace(ServerSettings(directory=str(folder), address=address), **settings))  # type: ignore[arg-type]
    server.start()
    try:
        server.wait_until_serving()
        yield server
    finally:
        server.stop()


@dataclass
class Ensemble:
    """Servers that elect a leader among them."""

    servers: Sequence[RunningServer]
    tls: TlsFiles | None = None

    @property
    def addresses(self) -> str:
        return ",".join(server.address for server in self.servers)

    def modes(self) -> list[str]:
        context = None if self.tls is None else self.tls.context()
        return [status.mode for status in ask_statuses([each.settings.address for each in self.servers], context)]

    def leader(self) -> RunningServer:
        until(lambda: "leader" in self.modes())
        return self.servers[self.modes().index("leader")]

    def followers(self) -> list[RunningServer]:
        leader = self.leader()
        return [server for server in self.servers if server is not leader]


@contextmanager
def running_ensemble(
    folder: Path,
    count: int = 3,
    tls: TlsFiles | None = None,
    host_of: Callable[[int], str] = lambda number: HOST,
    place: Callable[[int], AbstractContextManager[None]] = lambda number: nullcontext(),
) -> Iterator[Ensemble]:
    """An ensemble whose servers all serve. They may have hosts of their own: server N is started within `place(N)`."""
    members = [EnsembleMember(host_of(number), free_port(HOST), free_port(HOST)) for number in range(1, count + 1)]
    servers = [
        RunningServer(
            ServerSettings(
                directory=str(folder / f"zk{number}"),
                address=Address(host_of(number), free_port(HOST)),
                id=number,
                members=members,
                tls=tls,
            )
        )
        for number in range(1, count + 1)
    ]
    for number, server in enumerate(servers, 1):
        with place(number):
            server.start()
    try:
        for server in servers:
            server.wait_until_serving()
        yield Ensemble(servers, tls)
    finally:
        for server in servers:
            server.server.stop()
        for server in servers:
            server.stop()
