"""A network of proxies on loopback, between all processes of a cluster. It needs no root."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Final

from tests.soak.cluster.network import CLIENTS, Link

HOST: Final = "127.0.0.1"
PIECE: Final = 64 << 10
LOOK_S: Final = 0.02
START_S_MAX: Final = 10.0


class Matrix:
    """Listens in front of each process, in a thread of its own.

    Bytes of a link that is cut are held until it is whole again, as TCP holds what is lost on the way. So one direction
    can be cut alone, and a connection may survive a short cut. The servers of ZooKeeper meet each other without it.
    `owner_of` finds the host of a connection by its port.
    """

    kind = "proxies"

    def __init__(self, owner_of: Callable[[int], str] = lambda port: CLIENTS) -> None:
        self.owner_of = owner_of
        self.connections = 0
        self._cut: set[Link] = set()
        self._slow: dict[Link, float] = {}
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        started = threading.Event()
        self._loop.call_soon(started.set)
        self._thread = threading.Thread(target=self._loop.run_forever, name="matrix")
        self._thread.start()
        assert started.wait(START_S_MAX)

    def place(self, name: str) -> AbstractContextManager[None]:
        """Does nothing: all processes are on loopback."""
        return nullcontext()

    def host(self, name: str) -> str:
        return HOST

    def address(self, target: str, port: int, source: str | None = None) -> str:
        """Returns the address of a new proxy. Without `source` the owner of each connection is looked up."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(reader, writer, target, port, source)

        started = asyncio.start_server(accept, HOST, 0)
        server = asyncio.run_coroutine_threadsafe(started, self._loop).result(START_S_MAX)
        self._servers.append(server)
        return f"{HOST}:{server.sockets[0].getsockname()[1]}"

    def cut(self, links: Set[Link]) -> None:
        self._cut |= links

    def join(self, links: Set[Link]) -> None:
        self._cut -= links

    def slow(self, links: Mapping[Link, float]) -> None:
        self._slow |= links

    def heal(self) -> None:
        self._cut.clear()
        self._slow.clear()

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, port: int, source: str | None
    ) -> None:
        peer_port = writer.get_extra_info("peername")[1]
        name = source if source is not None else await self._loop.run_in_executor(None, self.owner_of, peer_port)
        self.connections += 1
        try:
            there_reader, there_writer = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forward(reader, there_writer, (name, target)))
                tasks.create_task(self._forward(there_reader, writer, (target, name)))
        except* (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()
            there_writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
        while data := await reader.read(PIECE):
            await self._pass(link)
            writer.write(data)
            await writer.drain()
        # The end of a connection is a packet, too.
        await self._pass(link)
        raise EOFError

    async def _pass(self, link: Link) -> None:
        if (delay_s := self._slow.get(link)) is not None:
            await asyncio.sleep(delay_s)
        while link in self._cut:
            await asyncio.sleep(LOOK_S)

    def close(self) -> None:
        """Ends all connections, and stops listening."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(START_S_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S_MAX)
        self._loop.close()


def is_socket_of(pid: int, local_port: int) -> bool:
    """Returns whether a process has a TCP socket on loopback whose own port is this one."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(local_port)}
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()) in inodes:
                    return True
    return False


def _inodes(local_port: int) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            columns = line.split()
            if int(columns[1].rpartition(":")[2], 16) == local_port:
                yield columns[9]
