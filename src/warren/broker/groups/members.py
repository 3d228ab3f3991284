"""A member of a classic group: what it can do, until when it must be heard of, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from warren.broker.kafka_errors import Code
from warren.config import GROUP_MEMBER_SIZE


class Protocol(NamedTuple):
    """A way to share partitions out that a member knows, and what it wants by it."""

    name: str
    metadata: bytes


class Claim(NamedTuple):
    """Who somebody says that it is."""

    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a member says when it joins. `topics` are those that it subscribes to, where that can be told."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocol_type: str
    protocols: Sequence[Protocol]
    topics: frozenset[str] = frozenset()
    needs_id_first: bool = False
    """Whether a member without an id is first told one, and joins with that: clients since 2018."""
    can_skip_assignment: bool = False
    """Whether a leader understands that it leads and has nothing to share out."""
    size: int = 0
    """About how many bytes that takes."""


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
class Syncing:
    """What a member says when it asks for its share; the leader says everybody's, and of which topics."""

    claim: Claim
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes]
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What a member is told when partitions are shared out."""

    error: Code = Code.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


TellJoined = Callable[[Joined], None]
TellSynced = Callable[[Synced], None]


class Member:
    """One member. For the event loop's thread alone.

    Invariant: whoever asked is answered once, by `tell_joined` or `tell_synced`. While it waits for an answer it need
    not be heard of.
    """

    def __init__(self, id: str, said: Joining, now_s: float, assignment: bytes = b"") -> None:
        self.id, self.said, self.assignment = id, said, assignment
        self.deadline_s = now_s + said.session_timeout_s
        self._joining: TellJoined | None = None
        self._syncing: TellSynced | None = None

    @property
    def instance_id(self) -> str | None:
        return self.said.instance_id

    @property
    def is_joining(self) -> bool:
        return self._joining is not None

    @property
    def is_waiting(self) -> bool:
        return self._joining is not None or self._syncing is not None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return GROUP_MEMBER_SIZE + self.said.size + len(self.assignment)

    def metadata(self, protocol: str) -> bytes:
        """What it wants by this protocol."""
        return next((each.metadata for each in self.said.protocols if each.name == protocol), b"")

    def knows(self, said: Joining) -> bool:
        """Whether `said` brings nothing new."""
        return list(self.said.protocols) == list(said.protocols)

    def heard(self, now_s: float) -> None:
        """It lives."""
        self.deadline_s = now_s + self.said.session_timeout_s

    def wait_to_join(self, tell: TellJoined) -> None:
        """It is told when all have joined."""
        # Whoever asked before does not listen any more: it asked again.
        self.tell_joined(Joined(error=Code.REBALANCE_IN_PROGRESS, member_id=self.id))
        self._joining = tell

    def wait_to_sync(self, tell: TellSynced) -> None:
        """It is told when the leader has shared out."""
        self.tell_synced(Synced(error=Code.REBALANCE_IN_PROGRESS))
        self._syncing = tell

    def tell_joined(self, joined: Joined) -> None:
        """Answer its JoinGroup, where one waits."""
        tell, self._joining = self._joining, None
        if tell is not None:
            tell(joined)

    def tell_synced(self, synced: Synced) -> None:
        """Answer its SyncGroup, where one waits."""
        tell, self._syncing = self._syncing, None
        if tell is not None:
            tell(synced)

    def tell(self, error: Code) -> None:
        """Answer whatever it waits for."""
        self.tell_joined(Joined(error=error, member_id=self.id))
        self.tell_synced(Synced(error=error))
