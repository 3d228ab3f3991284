"""The contract of a registry: a tree of small nodes, changed by compare-and-set, and watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from warren.errors import BadInput, TooLarge

CHANGE_SIZE: Final = 256
"""The bytes that one change takes in a request in addition to its path and data: kind, version and ACL."""
CHANGES_MAX: Final = 1000
"""The changes of one write."""

WRITE_SIZE_MAX: Final = 0xFFFFF - 4096
"""All changes of one write. ZooKeeper closes the connection of a client that sends more than its jute.maxbuffer."""
PATH_SIZE_MAX: Final = 1024
CALL_S_MAX: Final = 600.0

ANY_VERSION: Final = -1
"""Stands for any version of a node."""
Callback: TypeAlias = Callable[[], None]


class Node(NamedTuple):
    """The content of a node of the tree.

    `version` starts at 0 and grows by 1 with each Set. `created` is greater for nodes that were created later, so a
    node that was deleted and created again is a different one. `owner` is the session of an ephemeral node, and 0 for a
    persistent one. `modified_ms` is the time of the last change by the clock of the server that made it.
    """

    data: bytes
    version: int
    created: int
    owner: int
    modified_ms: int


class Check(NamedTuple):
    """Holds if the node exists and has this version."""

    path: str
    version: int = ANY_VERSION


class Create(NamedTuple):
    """Creates a node. Its parent must exist. An ephemeral node is deleted with the session that created it."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False


class Set(NamedTuple):
    """Replaces the data of a node that has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Removes a node that has this version and no children."""

    path: str
    version: int = ANY_VERSION


Change: TypeAlias = Check | Create | Set | Delete


class Reason(Enum):
    """The reason why a change was refused."""

    EXISTS = "the node exists already"
    MISSING = "the node or its parent does not exist"
    VERSION = "the node has another version"
    NOT_EMPTY = "the node has children"
    EPHEMERAL_PARENT = "an ephemeral node cannot have children"


class Outcome(NamedTuple):
    """The result of a write: DONE, UNKNOWN, or refused because of one change.

    `change` is the index of the first change that was refused, and `reason` says why. Then nothing was changed.
    """

    state: str
    change: int | None = None
    reason: Reason | None = None

    @property
    def is_done(self) -> bool:
        """Every change was made, in one step."""
        return self.state == "done"

    @property
    def is_refused(self) -> bool:
        """Nothing was changed."""
        return self.state == "refused"

    @property
    def is_unknown(self) -> bool:
        """The answer was lost. A later `read` of the same registry, once it is answered, shows the result."""
        return self.state == "unknown"


DONE: Final = Outcome("done")
UNKNOWN: Final = Outcome("unknown")


def refused(change: int, reason: Reason) -> Outcome:
    """Returns the outcome of a write whose change number `change` was refused."""
    return Outcome("refused", change, reason)


class Registry(Protocol):
    """One session at a registry. Any thread may call it.

    Every call ends within `within_s` seconds, or within CALL_S_DEFAULT. Raises BadInput for input that is not valid,
    RegistryUnreached if no server answers in time, RegistryBusy if too many calls wait already, and RegistryDenied if
    the node belongs to another secret. In all these cases nothing was changed.
    """

    def read(self, path: str, within_s: float | None = None) -> Node | None:
        """Returns the node, or None if it does not exist.

        Sees every write that was acknowledged to any client before this call began. It also sees every write of this
        registry, even one whose outcome is UNKNOWN: if this call does not see such a write, it was not made and never
        will be.
        """
        ...

    def children(self, path: str, within_s: float | None = None) -> list[str]:
        """Returns the names of the children in order. The list is empty if the node does not exist."""
        ...

    def write(self, changes: Sequence[Change], within_s: float | None = None) -> Outcome:
        """Makes all changes in one step, or none. A later change sees the effect of an earlier one.

        The outcome is UNKNOWN if the changes were sent and no answer came. They are never sent again: the caller reads
        and decides.
        """
        ...

    def watch(self, path: str, callback: Callback) -> None:
        """Calls `callback` soon, after the node or its list of children may have changed, and after each reconnection.

        A call means "read again": several changes may cause one call, and a call may come without a change. It runs on
        a thread of the registry, one callback at a time, and may use the registry. The node need not exist.
        """
        ...

    def unwatch(self, path: str, callback: Callback) -> None:
        """Ends a watch. Does not wait for a callback that is running."""
        ...

    def is_connected(self) -> bool:
        """Returns whether a server answers this session."""
        ...

    def session(self) -> int:
        """Returns the number of the session, 0 before the first one.

        A new number means that ephemeral nodes were deleted.
        """
        ...

    def remaining_s(self) -> float:
        """Returns how long the session is certain to live if no server answers from now on. 0.0 means that it may be
        over.

        Measured on the steady clock, from the time at which the last answered request was sent.
        """
        ...

    def close(self) -> None:
        """Ends the session and its ephemeral nodes. Watches are no longer called."""
        ...


def checked_changes(changes: Sequence[Change]) -> Sequence[Change]:
    """Returns `changes`. Raises BadInput if a registry cannot make them in one write."""
    if not 1 <= len(changes) <= CHANGES_MAX:
        raise BadInput(f"a write has {len(changes)} changes; expected 1 to {CHANGES_MAX}")
    size = 0
    for change in changes:
        checked_path(change.path)
        if change.path == "/" and isinstance(change, Create | Delete):
            raise BadInput("the root of the tree always exists")
        if not isinstance(change, Create) and not ANY_VERSION <= change.version < 1 << 31:
            raise BadInput(f"{change.path}: the version {change.version} is not possible for a node")
        data = change.data if isinstance(change, Create | Set) else b""
        if not isinstance(data, bytes):
            raise BadInput(f"{change.path}: the data of a node must be bytes")
        size += CHANGE_SIZE + len(change.path.encode()) + len(data)
    if size > WRITE_SIZE_MAX:
        raise TooLarge("a write to the registry", size, WRITE_SIZE_MAX)
    return changes


def checked_path(path: str) -> str:
    """Returns `path`. Raises BadInput if ZooKeeper has no node with such a path."""
    if not path.startswith("/"):
        raise BadInput(f"path {path[:200]!r}: it must start with a slash")
    if path == "/":
        return path
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"path {path[:200]!r}: it is not Unicode") from error
    if size > PATH_SIZE_MAX:
        raise TooLarge("the path of a node", size, PATH_SIZE_MAX)
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            raise BadInput(f"path {path[:200]!r}: {name!r} is not a valid name of a node")
    if any(map(_is_forbidden, path)):
        raise BadInput(f"path {path[:200]!r}: it has a character that is not allowed")
    return path


def checked_wait(within_s: float, what: str = "within_s") -> float:
    """Returns `within_s`. Raises BadInput if it is not a valid time limit of a call."""
    if not 0 < within_s <= CALL_S_MAX:
        raise BadInput(f"{what}: expected more than 0 and at most {CALL_S_MAX:g} seconds, not {within_s!r}")
    return within_s


def parent_of(path: str) -> str:
    """Returns the path of the parent."""
    return path.rpartition("/")[0] or "/"


def _is_forbidden(character: str) -> bool:
    """Returns whether ZooKeeper forbids a character: control characters, private ones and non-characters."""
    code = ord(character)
    return code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or 0xFFF0 <= code <= 0xFFFF
