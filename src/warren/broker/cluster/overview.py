"""What a person sees of a cluster, and may change in it from outside: the registry, and the brokers that answer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from warren.broker.cluster.paths import ClusterPaths
from warren.broker.cluster.shard_registry import LivingReplica, ShardRegistry, ShardSettings
from warren.errors import BadInput, WrongCluster
from warren.registry.registry import Create, Registry, Set
from warren.replication.shard_state import RegistryView, ShardState

NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOverview:
    """One shard as the registry has it. `view` is None if it has had no in-sync set yet."""

    shard: int
    settings: ShardSettings
    view: RegistryView | None
    living: dict[int, LivingReplica]

    @property
    def master(self) -> LivingReplica | None:
        """Returns the master if its process lives."""
        view = self.view
        if view is None or view.state.master is None or not view.is_master_alive:
            return None
        return self.living.get(view.state.master)

    def role(self, replica: int) -> str:
        """Returns `master`, `in sync`, `behind`, `observer` or `gone`."""
        view, living = self.view, self.living.get(replica)
        if living is None:
            return "gone"
        if self.master is not None and self.master.replica == replica:
            return "master"
        if replica in self.settings.observers:
            return "observer"
        member = None if view is None else view.state.identity_of(replica)
        return "in sync" if member is not None and member == living.identity else "behind"

    @property
    def fault(self) -> str:
        """Returns what is wrong with the shard; empty if nothing is."""
        if self.view is None:
            return "it has no in-sync set yet: start its replicas"
        if self.master is None:
            return "it has no master"
        insync = [each for each in self.settings.replicas if self.role(each) in ("master", "in sync")]
        if len(insync) < len(self.settings.replicas):
            missing = sorted(set(self.settings.replicas) - set(insync))
            return f"replicas {missing} are not in sync"
        return ""

    def to_json(self) -> dict[str, Any]:
        state = None if self.view is None else self.view.state
        return {
            "shard": self.shard,
            "epoch": None if state is None else state.epoch,
            "master": None if self.master is None else self.master.replica,
            "min_insync": self.settings.min_insync,
            "fault": self.fault,
            "replicas": [
                {
                    "replica": each,
                    "role": self.role(each),
                    "address": self.living[each].address if each in self.living else None,
                    "epoch": self.living[each].epoch if each in self.living else None,
                }
                for each in (*self.settings.replicas, *self.settings.observers)
            ],
        }


def shards_of(registry: Registry, root: str) -> list[int]:
    """Returns the shards of a cluster. Raises WrongCluster if there is none."""
    paths = ClusterPaths(root)
    if ShardRegistry(registry, paths, 0).cluster_id() is None:
        raise WrongCluster(f"there is no cluster below {root}", "make one: warren cluster init ADDRESSES")
    return sorted(int(name) for name in registry.children(paths.shards) if name.isdecimal())


def overview(registry: Registry, root: str) -> list[ShardOverview]:
    """Returns all shards of a cluster. Raises WrongCluster if there is none."""
    overviews = []
    for shard in shards_of(registry, root):
        of_shard = ShardRegistry(registry, ClusterPaths(root), shard)
        settings = of_shard.settings()
        if settings is not None:
            view = of_shard.view()
            overviews.append(ShardOverview(shard=shard, settings=settings, view=view, living=of_shard.living))
    return overviews


def found_cluster(registry: Registry, root: str, shards: int, settings: ShardSettings) -> str:
    """Makes the cluster and its shards if they are missing, and returns its id."""
    paths = ClusterPaths(root)
    id = ShardRegistry(registry, paths, 0).found_cluster(str(uuid.uuid4()))
    for shard in range(shards):
        of_shard = ShardRegistry(registry, paths, shard)
        if not of_shard.found_shard(settings):
            present = of_shard.settings()
            if present is not None and (present.replicas, present.min_insync) != (
                settings.replicas,
                settings.min_insync,
            ):
                raise BadInput(
                    f"shard {shard} exists with the replicas {list(present.replicas)} and min_insync "
                    f"{present.min_insync}; change it with add-replica and remove-replica"
                )
    return id


def add_replica(registry: Registry, root: str, shard: int, replica: int, *, is_observer: bool) -> ShardSettings:
    """Adds a replica, which may then be started with an empty directory. Returns the new settings of the shard."""

    def add(settings: ShardSettings) -> ShardSettings:
        if replica in (*settings.replicas, *settings.observers):
            raise BadInput(f"shard {shard} has replica {replica} already")
        if is_observer:
            return replace(settings, observers=(*settings.observers, replica))
        return replace(settings, replicas=(*settings.replicas, replica))

    return ShardRegistry(registry, ClusterPaths(root), shard).change_settings(add)


def remove_replica(registry: Registry, root: str, shard: int, replica: int, min_insync: int | None) -> ShardSettings:
    """Removes a replica: the master takes it out of the in-sync set. Returns the new settings of the shard.

    Raises BadInput if it is the master, because then it has to hand over first.
    """
    of_shard = ShardRegistry(registry, ClusterPaths(root), shard)
    view = of_shard.view()
    if view is not None and view.state.master == replica and view.is_master_alive:
        raise BadInput(f"replica {replica} leads shard {shard}: let it hand over first (warren cluster hand-over)")

    def remove(settings: ShardSettings) -> ShardSettings:
        if replica not in (*settings.replicas, *settings.observers):
            raise BadInput(f"shard {shard} has no replica {replica}")
        return replace(
            settings,
            replicas=tuple(each for each in settings.replicas if each != replica),
            observers=tuple(each for each in settings.observers if each != replica),
            min_insync=settings.min_insync if min_insync is None else min_insync,
        )

    return of_shard.change_settings(remove)


def elect_uncleanly(registry: Registry, root: str, shard: int, replica: int) -> ShardState:
    """Makes a living replica the only member of the in-sync set, so that it leads. What it does not have is lost.

    Raises BadInput if the shard has a master that lives, or the replica does not live.
    """
    paths = ClusterPaths(root)
    of_shard = ShardRegistry(registry, paths, shard)
    view = of_shard.view()
    chosen = of_shard.living.get(replica)
    if view is not None and view.is_master_alive:
        raise BadInput(f"shard {shard} has a master, replica {view.state.master}: nothing has to be given up")
    if chosen is None:
        raise BadInput(f"replica {replica} of shard {shard} does not run: start it first")
    epochs: Sequence[int] = [each.epoch for each in of_shard.living.values()]
    epoch = max([*epochs, 0 if view is None else view.state.epoch])
    state = ShardState(epoch=epoch, master=None, insync=frozenset([chosen.identity]), nonce="")
    path, data = paths.state(shard), state.to_json()
    outcome = registry.write([Create(path, data) if view is None else Set(path, data, view.version)])
    if not outcome.is_done:
        raise BadInput(f"the state of shard {shard} changed before this could be written; look at it again")
    return state
