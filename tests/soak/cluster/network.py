"""The network of a cluster of the long run: who may send bytes to whom, and how fast."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from typing import Final, Protocol

CLIENTS: Final = "clients"
SERVERS: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
"""The servers of the ZooKeeper ensemble."""
Link = tuple[str, str]
"""The names of two hosts: bytes from the first to the second."""


class Network(Protocol):
    """Hosts with names: the numbers of the replicas, `SERVERS`, and `CLIENTS`. The process of the run is never cut off.

    `Matrix` needs no root. `Namespaces` does: each host has a network stack of its own.
    """

    kind: str
    connections: int
    """How many connections were made through it, if it counts them."""

    def place(self, name: str) -> AbstractContextManager[None]:
        """While this is entered, processes, threads and sockets that the calling thread makes are of that host."""

    def host(self, name: str) -> str:
        """Returns the address at which the processes of a host listen."""

    def address(self, target: str, port: int, source: str | None = None) -> str:
        """Returns under which address `source` connects to a port of `target`.

        Without a source the address is for all hosts.
        """

    def cut(self, links: Set[Link]) -> None: ...

    def join(self, links: Set[Link]) -> None:
        """Makes links whole that were cut."""

    def slow(self, links: Mapping[Link, float]) -> None:
        """Each small piece of data takes so many seconds on these links."""

    def heal(self) -> None:
        """Makes every link whole and fast."""

    def close(self) -> None:
        """Removes everything that belongs to it."""


def both(first: str, second: str) -> set[Link]:
    return {(first, second), (second, first)}
