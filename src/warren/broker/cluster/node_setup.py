"""What a replica gets when it starts, and what it asks of its process."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from warren.broker.cluster.shard_registry import LivingReplica
from warren.broker.security.replica_user import ReplicaUser
from warren.replication.changes import Item
from warren.replication.shard_state import Identity
from warren.replication.time_limits import TimeLimits
from warren.storage.disk.filesystem import FileSystem
from warren.transaction.store import Store


class NodeEnd(Enum):
    """Why a process has to end."""

    AGAIN = auto()
    """It was deposed, handed over or starts from nothing. It comes back immediately, as a slave."""
    FAILED = auto()
    """Something did not work, which may work later."""
    REFUSED = auto()
    """It cannot be this replica. Another start would end in the same way."""


class NodeOwner(Protocol):
    """The process of a replica, as its node sees it."""

    def open_store(self, filesystem: FileSystem) -> Store:
        """Opens the store as master. Called on a thread."""
        ...

    def serve(self, store: Store) -> None:
        """Takes requests of clients, from now until the process ends."""
        ...

    def end(self, reason: str, end: NodeEnd) -> None:
        """Ends the process immediately, without touching a file. Its parent starts it again."""
        ...


class SlaveReaders(Protocol):
    """What reads the store of a slave in its process. Called on the event loop."""

    @property
    def are_active(self) -> bool:
        """Whether clients read here, so that the event loop must not wait for the disk."""
        ...

    def wake_readers(self, ends: Mapping[str, int]) -> None:
        """Readers see these logs up to these ends."""
        ...

    def prepare_for(self, items: Sequence[Item]) -> None:
        """These items are about to be carried out."""
        ...

    def close_store(self) -> None:
        """Logs are about to be removed."""
        ...


class NoReaders:
    """No part of this process reads the store of a slave."""

    are_active = False

    def wake_readers(self, ends: Mapping[str, int]) -> None: ...

    def prepare_for(self, items: Sequence[Item]) -> None: ...

    def close_store(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetup:
    """What a replica is, and how long it waits."""

    cluster: str
    shard: int
    replica: int
    host: str
    port: int
    nonce: str
    timing: TimeLimits
    session_s: float
    is_power_safe: bool
    rack: str | None = None
    slave_group: str = ""
    http: str = ""
    tls: ssl.SSLContext | None = None
    user: ReplicaUser | None = None
    """As which replicas log in to each other; None if they need not."""

    def living(self, identity: Identity, epoch: int, *, is_empty: bool) -> LivingReplica:
        """Returns what the registry shows of this process."""
        return LivingReplica(
            shard=self.shard,
            replica=self.replica,
            host=self.host,
            port=self.port,
            nonce=self.nonce,
            incarnation=identity.incarnation,
            boot=identity.boot,
            epoch=epoch,
            is_empty=is_empty,
            rack=self.rack,
            slave_group=self.slave_group,
            http=self.http,
        )
