"""A member of a classic group: what it can do, until when it must be heard of, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from warren.broker.kafka_errors import Code


class Protocol(NamedTuple):
    """A way to share partitions out that a member knows, and what it wants by it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a member says when it joins."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocol_type: str
    protocols: Sequence[Protocol]
    needs_id_first: bool = False
    """Whether a member without an id is first told one, and joins with that: clients since 2018."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a member is told when it has joined: the generation, who leads, and, if it leads, of all members."""

    error: Code = Code.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    members: Sequence[tuple[str, str | None, bytes]] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a member is told when partitions are shared out."""

    error: Code = Code.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False)
class Member:
    """One member. `joining` and `syncing` are what it waits for; while it waits it need not be heard of."""

    id: str
    said: Joining
    deadline_s: float
    assignment: bytes = b""
    joining: asyncio.Future[Joined] | None = None
    syncing: asyncio.Future[Synced] | None = None
    is_new: bool = field(default=True)

    @property
    def instance_id(self) -> str | None:
        return self.said.instance_id

    def metadata(self, protocol: str) -> bytes:
        """What it wants by this protocol."""
        return next((each.metadata for each in self.said.protocols if each.name == protocol), b"")

    def knows(self, said: Joining) -> bool:
        """Whether `said` brings nothing new."""
        return list(self.said.protocols) == list(said.protocols)

    def heard(self, now_s: float) -> None:
        """It lives."""
        self.deadline_s = now_s + self.said.session_timeout_s

    def tell_joined(self, joined: Joined) -> None:
        """Answer its JoinGroup, where one waits."""
        waiting, self.joining = self.joining, None
        if waiting is not None and not waiting.done():
            waiting.set_result(joined)

    def tell_synced(self, synced: Synced) -> None:
        """Answer its SyncGroup, where one waits."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None and not waiting.done():
            waiting.set_result(synced)
