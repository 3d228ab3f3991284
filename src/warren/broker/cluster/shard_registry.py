"""One shard in the registry: its settings, its state, its living replicas, and changes by compare-and-set.

Every call blocks, so one thread makes them. What a replica believes of the registry comes from `view`, which reads the
state before the nodes, so that the nodes are never older than the state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from warren.broker.cluster.paths import NODES_PER_SHARD, ClusterPaths
from warren.errors import BadInput, MalformedState, RegistryUnreached, WrongCluster
from warren.registry.registry import ANY_VERSION, Change, Check, Create, Delete, Outcome, Registry, Set
from warren.replication.shard_state import (
    Identity,
    Proposal,
    ProposalOutcome,
    RegistryView,
    ShardState,
    is_count,
    parse_json,
)

LOGGER: Final = logging.getLogger("warren.broker")
CLUSTER_VERSION: Final = 1
WRITE_S: Final = 2.0
"""After so long without an answer the outcome of a compare-and-set is unknown."""
TRIES_MAX: Final = 5
PUBLISHED_MAX: Final = 300
"""How many nodes for clients of MetaMorphosis one step writes: some hundredths of a second for a ZooKeeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSettings:
    """The replicas of a shard in the order in which they should lead, and how many must have a put at least.

    `observers` follow the master, and neither count nor lead.
    """

    replicas: tuple[int, ...]
    observers: tuple[int, ...] = ()
    min_insync: int

    def check(self) -> ShardSettings:
        """Returns itself. Raises BadInput if no shard can be like that."""
        numbers = (*self.replicas, *self.observers)
        if not self.replicas:
            raise BadInput("a shard needs at least one replica")
        if len(set(numbers)) < len(numbers) or not all(0 <= replica < NODES_PER_SHARD for replica in numbers):
            raise BadInput(f"replicas {list(numbers)}: expected different numbers from 0 to {NODES_PER_SHARD - 1}")
        if not 1 <= self.min_insync <= len(self.replicas):
            raise BadInput(
                f"min_insync {self.min_insync}: expected 1 to {len(self.replicas)}, the number of replicas; "
                "no put could ever be acknowledged"
            )
        return self

    def to_json(self) -> bytes:
        return _json({"replicas": self.replicas, "observers": self.observers, "min_insync": self.min_insync})

    @staticmethod
    def from_json(data: bytes) -> ShardSettings:
        """Raises MalformedState if `data` is not what `to_json` writes."""
        what = "settings of the shard"
        value = parse_json(data, what)
        if not isinstance(value, dict) or not {"replicas", "min_insync"} <= value.keys():
            raise MalformedState(what, "replicas and min_insync are needed")
        replicas, observers, least = value["replicas"], value.get("observers", []), value["min_insync"]
        lists = isinstance(replicas, list) and isinstance(observers, list)
        if not lists or not all(map(is_count, [*replicas, *observers, least])):
            raise MalformedState(what, "replicas, observers or min_insync has the wrong type")
        return ShardSettings(replicas=tuple(replicas), observers=tuple(observers), min_insync=least)


def min_insync_default(replicas: int) -> int:
    """Returns the usual minimum: 2 of 3 or more. With two replicas 1, so that either may fail."""
    return 2 if replicas >= 3 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingReplica:
    """What a replica says of itself in the registry, as long as its process lives."""

    shard: int
    replica: int
    host: str
    port: int
    nonce: str
    incarnation: str
    boot: str
    epoch: int
    """The latest epoch that it has seen; 0 before the first one."""
    is_empty: bool
    """Whether it has no messages, topics, users or other state of a store."""
    rack: str | None = None
    slave_group: str = ""
    software: str = ""
    http: str = ""
    """Where clients reach its HTTP port, such as `http://a:8080`; empty if it has none that they reach."""

    @property
    def identity(self) -> Identity:
        return Identity(self.replica, self.incarnation, self.boot)

    @property
    def address(self) -> str:
        """Returns `host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def to_json(self) -> bytes:
        return _json(asdict(self))

    @staticmethod
    def from_json(data: bytes) -> LivingReplica:
        """Raises MalformedState if `data` is not what `to_json` writes. Fields of later releases are passed over."""
        what = "node of a replica"
        value = parse_json(data, what)
        if not isinstance(value, dict):
            raise MalformedState(what, "it is not an object")
        fields = {name: value[name] for name in LivingReplica.__slots__ if name in value}
        try:
            return LivingReplica(**fields)
        except TypeError as error:
            raise MalformedState(what, str(error)) from error


class ShardRegistry:
    """One shard of a cluster, through one session of a registry. One thread at a time."""

    def __init__(self, registry: Registry, paths: ClusterPaths, shard: int) -> None:
        self.registry, self.paths, self.shard = registry, paths, shard
        self.living: dict[int, LivingReplica] = {}
        """The living replicas as `view` has seen them last."""
        self._published: dict[str, bytes] = {}
        self._published_address = ""
        self._parents: set[str] = set()
        """Nodes that are there, and stay: those above the published ones."""

    # --- Founding ---

    def cluster_id(self) -> str | None:
        """Returns the id of the cluster; None if it was not founded. Raises MalformedState for another version."""
        node = self.registry.read(self.paths.cluster)
        if node is None:
            return None
        value = parse_json(node.data, "cluster")
        if not isinstance(value, dict) or value.get("version") != CLUSTER_VERSION or not isinstance(value["id"], str):
            raise MalformedState("cluster", "this release knows version 1 only")
        return str(value["id"])

    def found_cluster(self, id: str) -> str:
        """Makes the nodes that all shards share, and returns the id of the cluster, which may be an older one."""
        create_parents(self.registry, self.paths.cluster)
        self._create(self.paths.cluster, _json({"version": CLUSTER_VERSION, "id": id}))
        for path in (self.paths.shards, self.paths.nodes):
            create_parents(self.registry, path)
            self._create(path, b"")
        founded = self.cluster_id()
        assert founded is not None
        return founded

    def found_shard(self, settings: ShardSettings) -> bool:
        """Makes the shard. Returns whether it was not there before; then it has the settings that it had."""
        is_new = self._create(self.paths.shard(self.shard), settings.check().to_json())
        self._create(self.paths.unreached(self.shard), b"")
        return is_new

    def settings(self) -> ShardSettings | None:
        """Returns the settings of the shard; None if it was not made."""
        node = self.registry.read(self.paths.shard(self.shard))
        return None if node is None else ShardSettings.from_json(node.data)

    def change_settings(self, change: Callable[[ShardSettings], ShardSettings]) -> ShardSettings:
        """Changes the settings by compare-and-set, and returns the new ones. Raises BadInput if they are not valid."""
        path = self.paths.shard(self.shard)
        for _ in range(TRIES_MAX):
            node = self.registry.read(path)
            if node is None:
                break
            changed = change(ShardSettings.from_json(node.data)).check()
            if self.registry.write([Set(path, changed.to_json(), node.version)]).is_done:
                return changed
        raise BadInput(f"shard {self.shard} is not there, or others change it all the time")

    def found_state(self, members: Collection[LivingReplica]) -> bool:
        """Makes the first state of the shard: these replicas, which are equal, are its in-sync set.

        Returns whether this call made it. It does so only as long as each of these processes lives.
        """
        insync = frozenset(each.identity for each in members)
        state = ShardState(epoch=0, master=None, insync=insync, nonce="")
        checks: list[Change] = [Check(self.paths.node(self.shard, each.replica)) for each in members]
        return self.registry.write([*checks, Create(self.paths.state(self.shard), state.to_json())], WRITE_S).is_done

    # --- Reading ---

    def view(self) -> RegistryView | None:
        """Returns the registry as it is; None if the shard has no state yet. `living` is newer than the state."""
        node = self.registry.read(self.paths.state(self.shard))
        self.living = self._read_living()
        if node is None:
            return None
        state = ShardState.from_json(node.data)
        dead = self.registry.read(self.paths.dead(self.shard))
        return RegistryView(
            state=state,
            version=node.version,
            nodes={replica: living.nonce for replica, living in self.living.items()},
            unreached=self._read_unreached(),
            dead=None if dead is None else _epoch_of(dead.data),
        )

    def _read_living(self) -> dict[int, LivingReplica]:
        living = {}
        first = self.shard * NODES_PER_SHARD
        for name in self.registry.children(self.paths.nodes):
            if not name.isdecimal() or not first <= int(name) < first + NODES_PER_SHARD:
                continue
            node = self.registry.read(f"{self.paths.nodes}/{name}")
            if node is not None:
                replica = LivingReplica.from_json(node.data)
                living[replica.replica] = replica
        return living

    def _read_unreached(self) -> dict[int, int]:
        unreached = {}
        for name in self.registry.children(self.paths.unreached(self.shard)):
            node = self.registry.read(f"{self.paths.unreached(self.shard)}/{name}")
            if node is not None and name.isdecimal():
                unreached[int(name)] = _epoch_of(node.data)
        return unreached

    def watch(self, callback: Callable[[], None]) -> None:
        """Calls back on a thread of the registry, soon after anything that `view` shows may have changed."""
        paths, shard = self.paths, self.shard
        for path in (
            paths.state(shard),
            paths.nodes,
            paths.unreached(shard),
            paths.dead(shard),
            paths.shard(shard),
        ):
            self.registry.watch(path, callback)

    # --- Writing ---

    def propose(self, proposal: Proposal, own: LivingReplica | None) -> ProposalOutcome:
        """Makes a compare-and-set of the state. With `own`, only as long as the node of that process is there."""
        changes: list[Change] = []
        if own is not None:
            changes.append(Check(self.paths.node(self.shard, own.replica)))
        changes.append(Set(self.paths.state(self.shard), proposal.state.to_json(), proposal.version))
        try:
            outcome = self.registry.write(changes, WRITE_S)
        except RegistryUnreached:
            return ProposalOutcome.UNKNOWN
        return ProposalOutcome(outcome.state)

    def register(self, own: LivingReplica) -> LivingReplica | None:
        """Makes the node of this process. Returns the process that has the place, if it uses another directory.

        A node that another process of the same directory has left goes: the lock of the directory says that it is dead.
        """
        path = self.paths.node(self.shard, own.replica)
        for _ in range(TRIES_MAX):
            node = self.registry.read(path)
            if node is None:
                self.registry.write([Create(path, own.to_json(), is_ephemeral=True)], WRITE_S)
                continue
            there = LivingReplica.from_json(node.data)
            if there.nonce == own.nonce and node.owner in (0, self.registry.session()):
                return None
            if there.incarnation != own.incarnation and there.nonce != own.nonce:
                return there
            self.registry.write([Delete(path, node.version)], WRITE_S)
        return None

    def unregister(self, replica: int, nonce: str) -> None:
        """Removes the node of a process that has ended, and notes that its epoch has no master if it led."""
        path = self.paths.node(self.shard, replica)
        node = self.registry.read(path)
        changes: list[Change] = []
        if node is not None and LivingReplica.from_json(node.data).nonce == nonce:
            changes.append(Delete(path, node.version))
        state = self.registry.read(self.paths.state(self.shard))
        if state is not None:
            shard = ShardState.from_json(state.data)
            if shard.nonce == nonce and shard.master == replica:
                changes.append(self._note_dead(shard.epoch))
        if changes:
            outcome = self.registry.write(changes, WRITE_S)
            LOGGER.debug("the node of replica %d was removed: %s", replica, outcome.state)

    def _note_dead(self, epoch: int) -> Change:
        path = self.paths.dead(self.shard)
        data = _json({"epoch": epoch})
        return Create(path, data) if self.registry.read(path) is None else Set(path, data, ANY_VERSION)

    def note_unreached(self, replica: int, epoch: int) -> None:
        """Says that this replica gets no answer from the master of an epoch."""
        path = self.paths.unreached_by(self.shard, replica)
        data = _json({"epoch": epoch})
        if self.registry.write([Create(path, data, is_ephemeral=True)], WRITE_S).is_refused:
            self.registry.write([Set(path, data)], WRITE_S)

    def clear_unreached(self, replica: int) -> None:
        """Takes back what `note_unreached` said."""
        self.registry.write([Delete(self.paths.unreached_by(self.shard, replica))], WRITE_S)

    # --- MetaMorphosis' nodes ---

    def publish(self, own: LivingReplica, role: str, broker: str, topics: Mapping[str, int]) -> bool:
        """Keeps the nodes that clients of MetaMorphosis read: the address of this replica, and its topics.

        `role` is master or slave1, and `broker` 0-m or 0-s1. What an earlier call published and this one does not is
        removed. Writes at most PUBLISHED_MAX nodes, so that calls about the lead do not wait for thousands of topics.
        Returns False if there is more to publish now: then the caller calls again.
        """
        nodes = self._topic_nodes(own, role, broker, topics)
        changed = [path for path in self._published if path not in nodes]
        changed += [path for path, data in nodes.items() if self._published.get(path) != data]
        step = changed[:PUBLISHED_MAX]
        if role == "master" and self._published_address != own.address:
            self._publish_address(own)
        self._make_parents([path for path in step if path in nodes])
        if step and not self._replace_all(step, nodes):
            for path in step:
                self._replace(path, nodes)
        is_refused = all(self._published.get(path) != nodes.get(path) for path in step)
        return is_refused or len(changed) <= len(step)

    def _topic_nodes(self, own: LivingReplica, role: str, broker: str, topics: Mapping[str, int]) -> dict[str, bytes]:
        paths = self.paths
        nodes = {paths.ids_of(self.shard, role): _metaq_address(own)}
        for topic, partitions in topics.items():
            nodes[paths.topic_at("topics", topic, broker)] = str(partitions).encode()
            described = _json({"numParts": partitions, "broker": broker})
            nodes[paths.topic_at("topics-sub", topic, broker)] = described
            if role == "master":
                nodes[paths.topic_at("topics-pub", topic, broker)] = described
        return nodes

    def _publish_address(self, own: LivingReplica) -> None:
        path = self.paths.ids(self.shard)
        create_parents(self.registry, path)
        if not self._create(path, _metaq_address(own)):
            self.registry.write([Set(path, _metaq_address(own))])
        self._published_address = own.address

    def _make_parents(self, paths: Sequence[str]) -> None:
        """Makes the nodes above `paths` that are missing. They stay, so each is looked for only once."""
        parents = {path.rpartition("/")[0] for path in paths} - self._parents
        for above in {parent.rpartition("/")[0] for parent in parents}:
            create_parents(self.registry, f"{above}/")
            there = {f"{above}/{name}" for name in self.registry.children(above)}
            missing = [parent for parent in parents - there if parent.startswith(f"{above}/")]
            if missing and not self.registry.write([Create(parent) for parent in missing]).is_done:
                # Another replica makes the same nodes at the same time.
                for parent in missing:
                    self._create(parent, b"")
        self._parents |= parents

    def _replace_all(self, paths: Sequence[str], nodes: Mapping[str, bytes]) -> bool:
        """Makes the published nodes at `paths` like `nodes`, in one write. Returns False if nothing was changed."""
        created = [Create(path, nodes[path], is_ephemeral=True) for path in paths if path in nodes]
        published = [Delete(path) for path in paths if path in self._published]
        # A process of this replica that died may have left all of the nodes; its session ends later.
        for deleted in (published, [Delete(path) for path in paths]):
            if self.registry.write([*deleted, *created]).is_done:
                for path in paths:
                    self._published.pop(path, None)
                self._published.update((each.path, each.data) for each in created)
                return True
        return False

    def _replace(self, path: str, nodes: Mapping[str, bytes]) -> None:
        self.registry.write([Delete(path)])
        self._published.pop(path, None)
        if path in nodes and self.registry.write([Create(path, nodes[path], is_ephemeral=True)]).is_done:
            self._published[path] = nodes[path]
        elif path in nodes:
            # Perhaps the node above it is gone. The next call looks for it.
            self._parents.discard(path.rpartition("/")[0])

    def forget_published(self) -> None:
        """Notes that the session is another one, so that the ephemeral nodes are gone."""
        self._published.clear()
        self._parents.clear()
        self._published_address = ""

    def _create(self, path: str, data: bytes) -> bool:
        outcome: Outcome = self.registry.write([Create(path, data)])
        return outcome.is_done


def create_parents(registry: Registry, path: str) -> None:
    """Makes the nodes above `path` that are missing, empty."""
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts) + 1):
        parent = "/" + "/".join(parts[:count])
        if registry.read(parent) is None:
            registry.write([Create(parent)])


def founders(
    settings: ShardSettings, living: Mapping[int, LivingReplica], *, is_all_awaited: bool
) -> Sequence[LivingReplica]:
    """Returns the replicas that may found the state of a shard, which must be equal; none if it is too early.

    Empty ones are equal. If one has a store already, it is the only founder, and the others get its store from it.
    Raises WrongCluster if several have a store, or one has seen an epoch: then there was a state before.
    """
    there = [living[replica] for replica in settings.replicas if replica in living]
    earlier = [each for each in there if each.epoch > 0]
    if earlier:
        raise WrongCluster(
            f"the registry has no state of shard {earlier[0].shard}, and replica {earlier[0].replica} has seen epoch "
            f"{max(each.epoch for each in earlier)}: the registry lost its data, or is another one",
            "start the right registry, or let `warren cluster elect --unclean` write the state again",
        )
    stored = [each for each in there if not each.is_empty]
    if len(stored) > 1:
        names = " and ".join(str(each.replica) for each in stored)
        raise WrongCluster(
            f"replicas {names} of shard {stored[0].shard} have different stores",
            "start all but one of them with an empty directory",
        )
    is_enough = len(there) == len(settings.replicas) or (not is_all_awaited and len(there) >= settings.min_insync)
    if not is_enough:
        return ()
    return stored or there


def _metaq_address(own: LivingReplica) -> bytes:
    return f"meta://{own.address}".encode()


def _epoch_of(data: bytes) -> int:
    value: Any = parse_json(data, "epoch")
    epoch = value.get("epoch") if isinstance(value, dict) else None
    if not isinstance(epoch, int):
        raise MalformedState("epoch", "there is none")
    return epoch


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
