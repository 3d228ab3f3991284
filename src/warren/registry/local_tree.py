"""A tree of nodes in memory that answers changes exactly as ZooKeeper does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warren.registry.registry import (
    ANY_VERSION,
    DONE,
    Change,
    Check,
    Create,
    Delete,
    Node,
    Outcome,
    Reason,
    Set,
    parent_of,
    refused,
)

Undo = Callable[[], None]


class LocalTree:
    """Nodes by path. One thread at a time may use it.

    Invariant: the parent of every node exists, is persistent, and lists the node as a child.
    """

    def __init__(self) -> None:
        self._nodes = {"/": Node(b"", 0, 0, 0, 0)}
        self._children: dict[str, set[str]] = {"/": set()}
        self._transaction = 0

    def read(self, path: str) -> Node | None:
        """Returns the node, or None if it does not exist."""
        return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        """Returns the names of the children in order."""
        return sorted(self._children.get(path, ()))

    def apply(self, changes: Sequence[Change], session: int, now_ms: int) -> tuple[Outcome, list[str]]:
        """Makes all changes, or none if one is refused.

        Returns the outcome, and the paths whose node or list of children changed.
        """
        self._transaction += 1
        undo: list[Undo] = []
        touched: list[str] = []
        for index, change in enumerate(changes):
            reason = self._refusal(change)
            if reason is not None:
                for step in reversed(undo):
                    step()
                return refused(index, reason), []
            undo += self._make(change, session, now_ms)
            if not isinstance(change, Check):
                touched.append(change.path)
            if isinstance(change, Create | Delete):
                touched.append(parent_of(change.path))
        return DONE, list(dict.fromkeys(touched))

    def end_session(self, session: int, now_ms: int) -> list[str]:
        """Deletes the ephemeral nodes of a session. Returns the paths that changed."""
        paths = sorted(path for path, node in self._nodes.items() if node.owner == session)
        return self.apply([Delete(path) for path in paths], session, now_ms)[1] if paths else []

    def _refusal(self, change: Change) -> Reason | None:
        """Returns why a change cannot be made, or None if it can. The checks are in ZooKeeper's order."""
        node = self._nodes.get(change.path)
        if isinstance(change, Create):
            parent = self._nodes.get(parent_of(change.path))
            if parent is None:
                return Reason.MISSING
            if node is not None:
                return Reason.EXISTS
            return Reason.EPHEMERAL_PARENT if parent.owner else None
        if node is None:
            return Reason.MISSING
        if change.version not in (ANY_VERSION, node.version):
            return Reason.VERSION
        if isinstance(change, Delete) and self._children[change.path]:
            return Reason.NOT_EMPTY
        return None

    def _make(self, change: Change, session: int, now_ms: int) -> list[Undo]:
        """Makes a change that was not refused. Returns the steps that undo it, in the order of the changes."""
        path = change.path
        siblings = self._children.get(parent_of(path), set())
        name = path.rpartition("/")[2]
        match change:
            case Create(data=data, is_ephemeral=is_ephemeral):
                self._nodes[path] = Node(data, 0, self._transaction, session if is_ephemeral else 0, now_ms)
                self._children[path] = set()
                siblings.add(name)
                return [lambda: self._remove(path, siblings, name)]
            case Set(data=data):
                before = self._nodes[path]
                self._nodes[path] = before._replace(data=data, version=before.version + 1, modified_ms=now_ms)
                return [lambda: self._nodes.__setitem__(path, before)]
            case Delete():
                before = self._nodes[path]
                self._remove(path, siblings, name)
                return [lambda: self._restore(path, before, siblings, name)]
            case Check():
                return []

    def _remove(self, path: str, siblings: set[str], name: str) -> None:
        del self._nodes[path], self._children[path]
        siblings.discard(name)

    def _restore(self, path: str, node: Node, siblings: set[str], name: str) -> None:
        self._nodes[path], self._children[path] = node, set()
        siblings.add(name)
