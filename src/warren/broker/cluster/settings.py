"""The settings of a replica: the section `cluster` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warren.broker.cluster.paths import NODES_PER_SHARD, ROOT_DEFAULT, SHARDS_MAX
from warren.registry.limits import SESSION_S_DEFAULT
from warren.replication.time_limits import TimeLimits
from warren.settings import Count, OneOf, Seconds, Table, Text, setting

SYNC: Final = "sync"
ASYNC: Final = "async"
TIMES: Final = TimeLimits()
WAIT: Final = Seconds(0.05, 60)
SESSION: Final = Seconds(1, 60)
"""What a ZooKeeper agrees to at most depends on its tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Where the registry is, which replica this broker is, and how long replicas wait for each other."""

    zookeeper: str = setting(
        Text(), "the addresses of ZooKeeper, as in `a,b:2182`; if empty, the broker belongs to no cluster", ""
    )
    root: str = setting(Text(), "the path in ZooKeeper below which the cluster lies", ROOT_DEFAULT)
    secret_file: str = setting(Text(), "the file with the secret of the cluster; without a secret, if empty", "")
    tls_ca: str = setting(Text(), "the certificate that has signed those of ZooKeeper; no TLS to it, if empty", "")
    tls_certificate: str = setting(Text(), "the certificate that this broker shows to ZooKeeper", "")
    tls_key: str = setting(Text(), "its private key (PKCS #8)", "")
    shard: int = setting(Count(0, SHARDS_MAX - 1), "the shard that the broker belongs to", 0)
    replica: int = setting(Count(0, NODES_PER_SHARD - 1), "its number among the replicas of the shard", 0)
    mode: str = setting(
        OneOf((SYNC, ASYNC)),
        "`sync`: it can be in the in-sync set and lead; `async`: it follows, and no put waits for it",
        SYNC,
    )
    slave_group: str = setting(Text(), "a name for slaves of one purpose, which the registry shows", "")
    rack: str = setting(Text(), "where the broker stands, for clients that prefer one nearby", "")
    session_timeout_s: float = setting(
        SESSION,
        "seconds after which a broker that ZooKeeper does not hear from counts as gone",
        SESSION_S_DEFAULT,
    )
    lag_s: float = setting(
        WAIT, "seconds after which a member that acknowledges nothing leaves the in-sync set", TIMES.lag_s
    )
    lease_s: float = setting(
        WAIT, "seconds for which a slave promises not to lead when it fetches; the same on all replicas", TIMES.lease_s
    )

    @property
    def timing(self) -> TimeLimits:
        """Returns how long replicas wait for each other."""
        return TimeLimits(lease_s=self.lease_s, lag_s=self.lag_s)


CLUSTER_SETTINGS: Final = Table.of("key", ClusterSettings)
"""The keys of the section `cluster` of the configuration."""
