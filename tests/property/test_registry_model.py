"""The registry inside one process compared with a plain dict: after any writes, losses and exits, both have the same
content.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.simulated_clock import SimulatedClock
from warren.registry.local import Fault, LocalEnsemble, LocalRegistry
from warren.registry.registry import DONE, UNKNOWN, Change, Check, Create, Delete, Outcome, Reason, Set, refused

SESSIONS_MAX = 3
NAMES = ("a", "b")
PATHS = [
    *(f"/{one}" for one in NAMES),
    *(f"/{one}/{two}" for one in NAMES for two in NAMES),
    *(f"/a/{one}/{two}" for one in NAMES for two in NAMES),
]

paths = st.sampled_from(PATHS)
data = st.sampled_from([b"", b"1", b"22"])
versions = st.sampled_from([-1, -1, 0, 1, 2])
changes = st.lists(
    st.one_of(
        st.builds(Create, paths, data, st.booleans()),
        st.builds(Create, paths, data),
        st.builds(Set, paths, data, versions),
        st.builds(Delete, paths, versions),
        st.builds(Check, paths, versions),
    ),
    min_size=1,
    max_size=4,
)
places = st.integers(0, 10)


class Entry(NamedTuple):
    """The expected state of a node."""

    data: bytes
    version: int
    owner: int


Tree = dict[str, Entry]


def expected(tree: Tree, changes: list[Change], session: int) -> tuple[Outcome, Tree]:
    """Makes the changes in a copy of the tree, and returns the copy, or the original tree if one is refused."""
    copy = dict(tree)
    for index, change in enumerate(changes):
        reason = make(copy, change, session)
        if reason is not None:
            return refused(index, reason), tree
    return DONE, copy


def make(tree: Tree, change: Change, session: int) -> Reason | None:
    path = change.path
    if isinstance(change, Create):
        parent = path.rpartition("/")[0]
        if parent and parent not in tree:
            return Reason.MISSING
        if path in tree:
            return Reason.EXISTS
        if parent and tree[parent].owner:
            return Reason.EPHEMERAL_PARENT
        tree[path] = Entry(change.data, 0, session if change.is_ephemeral else 0)
        return None
    if path not in tree:
        return Reason.MISSING
    if change.version not in (-1, tree[path].version):
        return Reason.VERSION
    if isinstance(change, Set):
        tree[path] = Entry(change.data, tree[path].version + 1, tree[path].owner)
    elif isinstance(change, Delete):
        if any(other.startswith(f"{path}/") for other in tree):
            return Reason.NOT_EMPTY
        del tree[path]
    return None


class RegistryBesideDict(RuleBasedStateMachine):
    """Every rule does one thing to the registry and to the dict."""

    @initialize()
    def begin(self) -> None:
        self.clock = SimulatedClock()
        self.ensemble = LocalEnsemble(self.clock)
        self.tree: Tree = {}
        self.registries: list[LocalRegistry] = []
        self.observer = self.ensemble.connect()
        self.calls: dict[str, int] = {}
        for path in PATHS:
            self.observer.watch(path, lambda path=path: self.count(path))  # type: ignore[misc]
        self.calls.clear()

    def count(self, path: str) -> None:
        self.calls[path] = self.calls.get(path, 0) + 1

    def end_session(self, session: int) -> None:
        self.tree = {path: entry for path, entry in self.tree.items() if entry.owner != session}

    @precondition(lambda self: len(self.registries) < SESSIONS_MAX)
    @rule()
    def connect(self) -> None:
        self.registries.append(self.ensemble.connect())

    @precondition(lambda self: self.registries)
    @rule(place=places, changes=changes)
    def write(self, place: int, changes: list[Change]) -> None:
        registry = self.registries[place % len(self.registries)]
        before = self.tree
        outcome, self.tree = expected(self.tree, changes, registry.session())
        self.calls.clear()

        assert registry.write(changes) == outcome

        # A node with the same state as before may have been changed twice, so a call is allowed there.
        assert self.changed(before) <= self.calls.keys()

    def changed(self, before: Tree) -> set[str]:
        """Returns the paths whose node or list of children has changed."""
        nodes = {path for path in PATHS if before.get(path) != self.tree.get(path)}
        moved = {path for path in PATHS if (path in before) != (path in self.tree)}
        return nodes | {path.rpartition("/")[0] for path in moved} - {""}

    @precondition(lambda self: self.registries)
    @rule(place=places, changes=changes, fault=st.sampled_from([Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE]))
    def lose_the_answer(self, place: int, changes: list[Change], fault: Fault) -> None:
        registry = self.registries[place % len(self.registries)]
        self.ensemble.plan(registry, fault)

        assert registry.write(changes) == UNKNOWN

        if fault is not Fault.LOST_BEFORE:
            _, self.tree = expected(self.tree, changes, registry.session())
        # The next call of the session settles the outcome.
        registry.read("/")

    @precondition(lambda self: self.registries)
    @rule(place=places, is_long=st.booleans())
    def cut_and_connect_again(self, place: int, is_long: bool) -> None:
        registry = self.registries[place % len(self.registries)]
        session = registry.session()
        self.ensemble.disconnect(registry)
        self.clock.sleep(registry.session_s + (1 if is_long else -1))
        self.ensemble.reconnect(registry)

        assert (registry.session() != session) is is_long
        if is_long:
            self.end_session(session)

    @precondition(lambda self: self.registries)
    @rule(place=places)
    def expire(self, place: int) -> None:
        registry = self.registries[place % len(self.registries)]
        self.end_session(registry.session())
        self.ensemble.expire(registry)

    @precondition(lambda self: self.registries)
    @rule(place=places)
    def close(self, place: int) -> None:
        registry = self.registries.pop(place % len(self.registries))
        self.end_session(registry.session())
        registry.close()

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "tree"):
            return
        for path in PATHS:
            node = self.observer.read(path)
            assert (node and Entry(node.data, node.version, node.owner)) == self.tree.get(path)
        for path in ("", *PATHS):
            names = {other.removeprefix(f"{path}/") for other in self.tree if other.startswith(f"{path}/")}
            assert self.observer.children(path or "/") == sorted(name for name in names if "/" not in name)


TestRegistry = RegistryBesideDict.TestCase
TestRegistry.settings = settings(max_examples=examples(30), stateful_step_count=40)
