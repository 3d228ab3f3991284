"""ShardLeadership: what one replica says to clients of its shard: who leads it, since when, and who has it."""

from __future__ import annotations

from collections.abc import Sequence

from warren.broker.cluster.full_disk import FullDisk
from warren.broker.cluster.node import NO_REPLICA, ReplicaNode
from warren.broker.cluster.paths import node_id
from warren.broker.security.replica_user import ReplicaUser
from warren.broker.services.leadership import NO_EPOCH, BrokerNode, ShardStanding, SlaveStanding
from warren.errors import NotEnoughReplicas, WarrenError
from warren.replication.disk.log_facts import directory_of
from warren.replication.mastership import Promotion


class ShardLeadership:
    """The view of one replica, as a Leadership. For the event loop's thread."""

    def __init__(self, replica: ReplicaNode) -> None:
        self.replica = replica
        self._full_disk = FullDisk(replica)

    def silent_ms(self, replica: int) -> int:
        """Returns for how long a slave has sent no fetch; -1 if it has not joined, or this replica does not lead."""
        if self.replica.master is None:
            return NO_REPLICA
        if replica == self.replica.setup.replica:
            return 0
        silent_s = self.replica.master.silent_s(replica, self.replica.now())
        return NO_REPLICA if silent_s is None else round(silent_s * 1000)

    @property
    def node(self) -> int:
        return node_id(self.replica.setup.shard, self.replica.setup.replica)

    @property
    def leader(self) -> int:
        if self.replica.is_serving:
            return self.node
        # The registry notices the death of a master later than its slaves do.
        master = self.replica.watch.other_master() if self.replica.is_linked else None
        return NO_REPLICA if master is None else node_id(self.replica.setup.shard, master.replica)

    @property
    def epoch(self) -> int:
        if self.replica.master is not None:
            return self.replica.master.epoch
        return 0 if self.replica.view is None else self.replica.view.state.epoch

    @property
    def nodes(self) -> Sequence[BrokerNode]:
        shard = self.replica.setup.shard
        return [
            BrokerNode(node_id(shard, each.replica), each.host, each.port, each.rack)
            for _, each in sorted(self.replica.living.items())
        ]

    @property
    def replicas(self) -> Sequence[int]:
        settings = self.replica.settings
        numbers = () if settings is None else (*settings.replicas, *settings.observers)
        return [node_id(self.replica.setup.shard, replica) for replica in numbers]

    @property
    def insync(self) -> Sequence[int]:
        members = self.replica.master.insync.members if self.replica.master is not None else ()
        if self.replica.master is None and self.replica.view is not None:
            members = self.replica.view.state.insync
        return sorted(node_id(self.replica.setup.shard, member.replica) for member in members)

    @property
    def standing(self) -> ShardStanding | None:
        replica, settings = self.replica, self.replica.settings
        master, setup = replica.master, replica.setup
        if master is None or settings is None:
            return None
        insync, barriers = master.insync.members, master.barriers
        slaves = []
        for number in (*settings.replicas, *settings.observers):
            living = replica.living.get(number)
            if number == setup.replica:
                continue
            acknowledged = NO_REPLICA if living is None else barriers.acked_by(living.identity)
            slaves.append(
                SlaveStanding(
                    number,
                    living is not None and living.identity in insync,
                    number in settings.observers,
                    NO_REPLICA if acknowledged < 0 else max(0, barriers.last - acknowledged),
                    self.silent_ms(number),
                )
            )
        return ShardStanding(setup.shard, setup.replica, master.epoch, len(insync), settings.min_insync, slaves)

    def refusal_of_puts(self) -> WarrenError | None:
        master, now = self.replica.master, self.replica.now()
        if master is None or master.takes_puts(now):
            return None if master is not None else self.replica.watch.not_master()
        if master.promotion is Promotion.SERVING and master.is_short_of_replicas(now):
            return NotEnoughReplicas(len(master.insync.members), master.insync.min_insync)
        return self.replica.watch.not_master()

    def note_full_disk(self) -> None:
        self._full_disk.refused()

    def refusal_of_ends(self) -> WarrenError | None:
        master = self.replica.master
        if master is not None and master.may_tell_ends(self.replica.now()):
            return None
        return self.replica.watch.not_master()

    def near(self, rack: str) -> Sequence[BrokerNode]:
        nodes, insync = self.nodes, self.insync
        if self.replica.master is None or any(node.id == self.node and node.rack == rack for node in nodes):
            return ()
        return [node for node in nodes if node.rack == rack and node.id in insync]

    @property
    def replica_user(self) -> ReplicaUser | None:
        return self.replica.setup.user

    @property
    def checks_epochs(self) -> bool:
        return True

    @property
    def batch_epoch(self) -> int:
        # Clients that know the epoch of a batch look for a cut when the leader changes. What they get is never cut.
        return NO_EPOCH

    def end_of_epoch(self, topic: str, partition: int, epoch: int, end: int) -> tuple[int, int]:
        master = self.replica.master
        if master is None or epoch > master.epoch:
            return NO_EPOCH, NO_EPOCH
        directory = f"topics/{topic}/{partition}"
        log = next((name for name in master.barriers.position().tails if directory_of(name) == directory), "")
        entries = master.epochs.entries
        numbers = [entry.epoch for entry in entries if entry.epoch <= epoch]
        if not numbers:
            return NO_EPOCH, NO_EPOCH
        later = [entry.tails.get(log, 0) for entry in entries if entry.epoch > epoch]
        return numbers[-1], min([end, *later])
