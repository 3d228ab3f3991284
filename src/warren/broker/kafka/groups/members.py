"""A member of a classic group: its protocols, its session timeout, and the callbacks of its waiting requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from warren.broker.kafka.errors import Code
from warren.broker.kafka.groups.limits import GROUP_MEMBER_SIZE


class Protocol(NamedTuple):
    """A way to assign partitions that a member supports, and its metadata for it."""

    name: str
    metadata: bytes


class MemberIdentity(NamedTuple):
    """The ids by which a client names itself."""

    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A request to join. `topics` are those that the member subscribes to, if its protocol names topics."""

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
    """Whether a client without an id gets one first, and joins again with it. Clients since 2018 do."""
    can_skip_assignment: bool = False
    """Whether the client understands that it leads and has nothing to assign."""
    size: int = 0
    """About how many bytes the request takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a join: the generation, the leader, and all members if this one leads."""

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
    """A request for the member's assignment. The leader sends the assignments of all, and the topics in them."""

    claim: MemberIdentity
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes]
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a request for an assignment."""

    error: Code = Code.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


TellJoined = Callable[[Joined], None]
TellSynced = Callable[[Synced], None]


class Member:
    """One member. For the event loop's thread alone.

    Invariant: each request is answered once, by `tell_joined` or `tell_synced`. While the member waits for an answer
    its session does not expire.
    """

    def __init__(self, id: str, request: Joining, now_s: float, assignment: bytes = b"") -> None:
        self.id, self.join_request, self.assignment = id, request, assignment
        self.deadline_s = now_s + request.session_timeout_s
        self._joining: TellJoined | None = None
        self._syncing: TellSynced | None = None

    @property
    def instance_id(self) -> str | None:
        return self.join_request.instance_id

    @property
    def is_joining(self) -> bool:
        return self._joining is not None

    @property
    def is_waiting(self) -> bool:
        return self._joining is not None or self._syncing is not None

    @property
    def size(self) -> int:
        """Returns about how many bytes it takes."""
        return GROUP_MEMBER_SIZE + self.join_request.size + len(self.assignment)

    def metadata(self, protocol: str) -> bytes:
        """Returns its metadata for this protocol."""
        return next((each.metadata for each in self.join_request.protocols if each.name == protocol), b"")

    def knows(self, request: Joining) -> bool:
        """Returns whether `request` is the same as the last request to join."""
        return list(self.join_request.protocols) == list(request.protocols)

    def renew_session(self, now_s: float) -> None:
        """Renews the session."""
        self.deadline_s = now_s + self.join_request.session_timeout_s

    def wait_to_join(self, tell: TellJoined) -> None:
        """Stores the callback until all have joined."""
        # The client sent another request, so it no longer waits for the earlier one.
        self.tell_joined(Joined(error=Code.REBALANCE_IN_PROGRESS, member_id=self.id))
        self._joining = tell

    def wait_to_sync(self, tell: TellSynced) -> None:
        """Stores the callback until the leader has assigned the partitions."""
        self.tell_synced(Synced(error=Code.REBALANCE_IN_PROGRESS))
        self._syncing = tell

    def tell_joined(self, joined: Joined) -> None:
        """Answers its JoinGroup, if one waits."""
        tell, self._joining = self._joining, None
        if tell is not None:
            tell(joined)

    def tell_synced(self, synced: Synced) -> None:
        """Answers its SyncGroup, if one waits."""
        tell, self._syncing = self._syncing, None
        if tell is not None:
            tell(synced)

    def tell(self, error: Code) -> None:
        """Answers the waiting request, if there is one, with this error."""
        self.tell_joined(Joined(error=error, member_id=self.id))
        self.tell_synced(Synced(error=error))
