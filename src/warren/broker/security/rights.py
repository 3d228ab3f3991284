"""Rights (ACLs): which user may do what to which topics and groups, as in Kafka, stored in a file of the store."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from warren.broker.security.peer import Peer
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, CorruptSettings, WarrenError
from warren.limits import NAME_SIZE_MAX
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.shared_lock import SharedLock
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

if TYPE_CHECKING:
    from warren.broker.threads import InThread

RIGHTS_MAX: Final = 10_000
RIGHTS_REMEMBERED_SIZE_MAX: Final = 4 << 20
"""The memory for cached results of checks: about 15,000. Clients choose the names, so they could fill any memory."""
REMEMBERED_SIZE: Final = 230
"""About how many bytes a cached result takes in addition to the name of the resource."""
RIGHTS_LOOK_S: Final = 0.5
"""How soon a change of rights by another process is seen."""
UNREADABLE: Final = -1, -1
"""The stamp of a file that the system does not show."""

LOGGER: Final = logging.getLogger("warren.broker")
EVERY: Final = "*"
USER: Final = "User:"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceKind(IntEnum):
    """The kind of resource that a right is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """How the name in a right matches. ANY and MATCH are only for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operation that a right allows or denies."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(IntEnum):
    """Whether a right allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


IMPLYING: Final[Mapping[Operation, frozenset[Operation]]] = MappingProxyType(
    {
        Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
        Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
    }
)
"""The operations that imply another one: a user who may do one of these may do that as well."""


class Right(NamedTuple):
    """One right, or a denial. `principal` is `User:` and a name; `*` stands for every name, user or host."""

    kind: ResourceKind
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def checked(self) -> Self:
        """Returns the right itself. Raises BadInput if it is not a valid one."""
        if ResourceKind.ANY is self.kind or self.pattern < Pattern.LITERAL:
            raise BadInput("a right is about one kind of thing, with a literal name or a prefix")
        if Operation.ANY is self.operation or Permission.ANY is self.permission:
            raise BadInput("a right allows or denies one operation, or all of them")
        if not self.name or len(self.name.encode()) > NAME_SIZE_MAX or not self.name.isprintable():
            raise BadInput(f"a right is about a name of 1 to {NAME_SIZE_MAX} bytes")
        if self.kind is ResourceKind.CLUSTER and self.name != CLUSTER_NAME:
            raise BadInput(f"the cluster is called {CLUSTER_NAME}")
        if not self.principal.startswith(USER) or self.principal == USER or not self.principal.isprintable():
            raise BadInput(f"principal {self.principal!r}: expected User: and a name, or User:*")
        if not self.host or not self.host.isprintable():
            raise BadInput("a right is for a host, or for * of them")
        return self

    def is_about(self, kind: ResourceKind, name: str) -> bool:
        """Returns whether the right is about the resource of this kind and name."""
        if kind is not self.kind:
            return False
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, EVERY)

    def is_for(self, peer: Peer) -> bool:
        return self.principal in (USER + peer.user, USER + EVERY) and self.host in (peer.host, EVERY)

    def to_json(self) -> dict[str, str]:
        return {
            name: value.name.lower() if isinstance(value, IntEnum) else value for name, value in self._asdict().items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Returns the right that `to_json` returned as JSON.

        Raises BadInput, KeyError, TypeError or AttributeError for any other value.
        """
        return cls(
            ResourceKind[data["kind"].upper()],
            data["name"],
            Pattern[data["pattern"].upper()],
            data["principal"],
            data["host"],
            Operation[data["operation"].upper()],
            Permission[data["permission"].upper()],
        ).checked()


class RightsFile:
    """The rights of the store at `path`. Any thread and process."""

    def __init__(self, path: str, filesystem: FileSystem = SYSTEM_FILE_SYSTEM, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path, self._filesystem = paths.rights_file(path), filesystem
        self._lock = SharedLock(filesystem, paths.security_lock(path), clock)

    def read(self) -> list[Right]:
        """Returns all rights, sorted. Raises CorruptSettings if one in the file is not valid."""
        data = read_json(self._filesystem, self.path) or {}
        try:
            return sorted(Right.from_json(each) for each in data.get("rights", ()))
        except (BadInput, KeyError, TypeError, AttributeError) as error:
            raise CorruptSettings(self.path, f"a right that is none: {error}") from error

    def add(self, rights: Iterable[Right]) -> None:
        """Adds these rights. Raises BadInput, and adds none, if one of them is not valid or there would be too many."""
        new = {right.checked() for right in rights}
        with self._lock:
            self._write(new | set(self.read()))

    def remove(self, is_meant: Callable[[Right], bool]) -> list[Right]:
        """Removes the rights for which `is_meant` is true, and returns them."""
        with self._lock:
            rights = self.read()
            gone = [right for right in rights if is_meant(right)]
            if gone:
                self._write(set(rights) - set(gone))
        return gone

    def _write(self, rights: set[Right]) -> None:
        if len(rights) > RIGHTS_MAX:
            raise BadInput(f"there are more than {RIGHTS_MAX} rights")
        write_json(self._filesystem, self.path, {"rights": [right.to_json() for right in sorted(rights)]})


class _Index:
    """Rights by user and resource, so that a check reads few of them."""

    def __init__(self, rights: Iterable[Right]) -> None:
        self._rights: dict[tuple[str, ResourceKind, Pattern, str], list[Right]] = {}
        sizes: dict[ResourceKind, set[int]] = {}
        for right in rights:
            self._rights.setdefault((right.principal, right.kind, right.pattern, right.name), []).append(right)
            if right.pattern is Pattern.PREFIXED:
                sizes.setdefault(right.kind, set()).add(len(right.name))
        self._sizes = {kind: sorted(lengths) for kind, lengths in sizes.items()}

    def about(self, peer: Peer, kind: ResourceKind, name: str) -> Iterator[Right]:
        """Yields the rights of the peer to the resource of this kind and name."""
        named = [(Pattern.LITERAL, name), (Pattern.LITERAL, EVERY)]
        # Tries only prefixes of a length that some right has.
        named += [(Pattern.PREFIXED, name[:size]) for size in self._sizes.get(kind, ()) if size <= len(name)]
        for principal in (USER + peer.user, USER + EVERY):
            for pattern, part in named:
                for right in self._rights.get((principal, kind, pattern, part), ()):
                    if right.is_for(peer):
                        yield right


class Rights:
    """Checks whether a user may do something. For the event loop's thread alone.

    An operation is forbidden unless a right allows it, and a right that denies it has precedence over those that allow
    it. The first check reads the file. After that `watch` checks for changes by other processes every RIGHTS_LOOK_S,
    also while there are no requests, so that a right that was revoked long ago no longer allows anything. A thread
    reads the file, because it may have thousands of rights; the previous rights apply until then. A file that cannot be
    read allows nothing.
    """

    def __init__(self, file: RightsFile, super_users: frozenset[str]) -> None:
        self.file, self._super_users = file, super_users
        self._refreshing = asyncio.Lock()
        self._rights = _Index(())
        self._answers: dict[tuple[str, str, Operation, ResourceKind, str], bool] = {}
        self._answers_size = 0
        self._stamp: tuple[int, int] | None = None

    def may(self, peer: Peer, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """Returns whether the peer may do this to the resource of this kind and name."""
        if peer.user in self._super_users:
            return True
        if self._stamp is None:
            self._load()
        question = peer.user, peer.host, operation, kind, name
        is_allowed = self._answers.get(question)
        if is_allowed is None:
            is_allowed = self._decided(peer, operation, kind, name)
            if len(name) <= NAME_SIZE_MAX:
                self._remember(question, is_allowed)
        return is_allowed

    def _remember(self, question: tuple[str, str, Operation, ResourceKind, str], is_allowed: bool) -> None:
        size = REMEMBERED_SIZE + len(question[-1])
        if self._answers_size + size > RIGHTS_REMEMBERED_SIZE_MAX:
            self._forget()
        self._answers[question] = is_allowed
        self._answers_size += size

    def _forget(self) -> None:
        self._answers.clear()
        self._answers_size = 0

    def _decided(self, peer: Peer, operation: Operation, kind: ResourceKind, name: str) -> bool:
        about = list(self._rights.about(peer, kind, name))
        meant = {operation, Operation.ALL}
        if any(right.permission is Permission.DENY and right.operation in meant for right in about):
            return False
        enough = meant | IMPLYING.get(operation, frozenset())
        return any(right.permission is Permission.ALLOW and right.operation in enough for right in about)

    def _load(self) -> None:
        stamp = self._current_stamp()
        # Nothing is allowed if the file cannot be read.
        self._take(_Index(()), stamp)
        self._take(self._read(), stamp)

    async def watch(self, in_thread: InThread) -> None:
        """Refreshes the rights every RIGHTS_LOOK_S, without end."""
        while True:
            await asyncio.sleep(RIGHTS_LOOK_S)
            await self.refresh(in_thread)

    async def refresh(self, in_thread: InThread) -> None:
        """Reads the file if it has changed. When this returns, its current rights apply."""
        # One at a time, because a thread that read the file earlier must not finish last.
        async with self._refreshing:
            stamp = UNREADABLE
            try:
                stamp = self._current_stamp()
                if stamp == self._stamp:
                    return
                index = await in_thread(self._read)
            except (WarrenError, OSError) as error:
                LOGGER.error("nothing is allowed: %s", error)
                index = _Index(())
            self._take(index, stamp)

    def _read(self) -> _Index:
        return _Index(self.file.read())

    def _current_stamp(self) -> tuple[int, int]:
        try:
            status = os.stat(self.file.path)
        except FileNotFoundError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino

    def _take(self, rights: _Index, stamp: tuple[int, int]) -> None:
        self._forget()
        self._rights, self._stamp = rights, stamp
