"""The paths of a cluster in the registry. Those below `brokers/ids` and `brokers/topics…` are MetaMorphosis' own."""

from __future__ import annotations

from typing import Final

from warren.errors import BadInput

ROOT_DEFAULT: Final = "/warren"
NODES_PER_SHARD: Final = 16
"""The replicas that a shard may have. Kafka's node id of a replica is `shard * 16 + replica`."""
SHARDS_MAX: Final = 4096


def node_id(shard: int, replica: int) -> int:
    """Returns the number by which Kafka's clients know a replica."""
    return shard * NODES_PER_SHARD + replica


class ClusterPaths:
    """Makes every path of a cluster below its root."""

    def __init__(self, root: str = ROOT_DEFAULT) -> None:
        if not root.startswith("/") or root.endswith("/"):
            raise BadInput(f"the root {root!r} of a cluster starts with a slash and does not end with one")
        self.root = root

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return f"{self.root}/cluster"

    @property
    def shards(self) -> str:
        return f"{self.root}/shards"

    def shard(self, shard: int) -> str:
        """Its replicas and how many of them must have a put."""
        return f"{self.root}/shards/{shard}"

    def state(self, shard: int) -> str:
        """Its epoch, master and in-sync set."""
        return f"{self.root}/shards/{shard}/state"

    def unreached(self, shard: int) -> str:
        return f"{self.root}/shards/{shard}/unreached"

    def unreached_by(self, shard: int, replica: int) -> str:
        """Made by a replica that gets no answer from the master."""
        return f"{self.root}/shards/{shard}/unreached/{replica}"

    def dead(self, shard: int) -> str:
        """The latest epoch whose master is known to be dead."""
        return f"{self.root}/shards/{shard}/dead"

    @property
    def nodes(self) -> str:
        return f"{self.root}/brokers/nodes"

    def node(self, shard: int, replica: int) -> str:
        """A living replica: where it listens, its disk and its process."""
        return f"{self.root}/brokers/nodes/{node_id(shard, replica)}"

    # --- MetaMorphosis ---

    def ids(self, shard: int) -> str:
        """The master's address, for old clients."""
        return f"{self.root}/brokers/ids/{shard}"

    def ids_of(self, shard: int, role: str) -> str:
        """The address of the `master`, or of `slave1`."""
        return f"{self.root}/brokers/ids/{shard}/{role}"

    def topics(self, kind: str) -> str:
        """`kind` is topics, topics-pub (where a topic takes puts) or topics-sub (where it can be read)."""
        return f"{self.root}/brokers/{kind}"

    def topic(self, kind: str, topic: str) -> str:
        return f"{self.root}/brokers/{kind}/{topic}"

    def topic_at(self, kind: str, topic: str, broker: str) -> str:
        """`broker` is `0-m` for the master of shard 0, `0-s1` for its slave 1."""
        return f"{self.root}/brokers/{kind}/{topic}/{broker}"
