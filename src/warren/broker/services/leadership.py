"""Leadership: which broker leads the store, in which epoch, and who else has it. Alone, or in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from warren.broker.security.replica_user import ReplicaUser
from warren.errors import WarrenError

NO_EPOCH: Final = -1
"""The epoch of a client that knows none."""
NO_NODE: Final = -1


class BrokerNode(NamedTuple):
    """A broker as Kafka's clients know it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Returns `host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SlaveStanding(NamedTuple):
    """How far a slave is, as its master sees it. `behind` counts changes; -1 stands for a slave that is not connected.

    `silent_ms` is for how long it has sent no fetch; -1 as well.
    """

    replica: int
    is_insync: bool
    is_observer: bool
    behind: int
    silent_ms: int


class ShardStanding(NamedTuple):
    """A shard as its master sees it. `insync` counts the master, too."""

    shard: int
    replica: int
    epoch: int
    insync: int
    min_insync: int
    slaves: Sequence[SlaveStanding]


class Leadership(Protocol):
    """What a broker says of itself and of the others. For the event loop's thread."""

    @property
    def node(self) -> int:
        """The id of this broker."""
        ...

    @property
    def leader(self) -> int:
        """The id of the broker that takes requests; -1 if there is none now."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the leader, which grows with each one."""
        ...

    @property
    def nodes(self) -> Sequence[BrokerNode]:
        """The brokers that live."""
        ...

    @property
    def replicas(self) -> Sequence[int]:
        """The ids of the brokers that have, or should have, the store."""
        ...

    @property
    def insync(self) -> Sequence[int]:
        """The ids of those that have everything that was acknowledged."""
        ...

    @property
    def checks_epochs(self) -> bool:
        """Returns whether a client that names another epoch is refused."""
        ...

    @property
    def batch_epoch(self) -> int | None:
        """The epoch that batches name when they are fetched; None for that which they were stored with."""
        ...

    @property
    def replica_user(self) -> ReplicaUser | None:
        """The user as which other replicas log in; None if they need not, or there are none."""
        ...

    @property
    def standing(self) -> ShardStanding | None:
        """The shard as this broker sees it as its master; None if it does not lead, or belongs to no cluster."""
        ...

    def refusal_of_puts(self) -> WarrenError | None:
        """Returns why no put may be taken now; None if puts are taken."""
        ...

    def note_full_disk(self) -> None:
        """Takes the event that a request was refused because the disk of this broker is full."""
        ...

    def refusal_of_ends(self) -> WarrenError | None:
        """Returns why no end of a log or position of a group may be given now; None if no other broker can lead yet.

        Asked after the request has come. Messages that were committed may always be given.
        """
        ...

    def near(self, rack: str) -> Sequence[BrokerNode]:
        """Returns the in-sync brokers in `rack` that clients there shall read from; none if this broker does not lead.

        None either if this broker stands there itself.
        """
        ...

    def end_of_epoch(self, topic: str, partition: int, epoch: int, end: int) -> tuple[int, int]:
        """Returns the latest epoch up to `epoch` of a partition that ends at `end`, and where that epoch ends in it.

        Returns -1 and -1 if the epoch is older than what is known, or newer than the present one.
        """
        ...


class Alone:
    """The leadership of a broker that serves its store without others: node 0, epoch 0."""

    node = leader = epoch = 0
    checks_epochs = False
    batch_epoch = replica_user = None
    replicas: Sequence[int] = (0,)
    insync: Sequence[int] = (0,)
    standing: ShardStanding | None = None

    def __init__(self, advertised: Callable[[], tuple[str, int]]) -> None:
        self._advertised = advertised

    @property
    def nodes(self) -> Sequence[BrokerNode]:
        return [BrokerNode(self.node, *self._advertised())]

    def refusal_of_puts(self) -> WarrenError | None:
        return None

    def note_full_disk(self) -> None: ...

    def refusal_of_ends(self) -> WarrenError | None:
        return None

    def near(self, rack: str) -> Sequence[BrokerNode]:
        return ()

    def end_of_epoch(self, topic: str, partition: int, epoch: int, end: int) -> tuple[int, int]:
        return (0, end) if epoch == 0 else (NO_EPOCH, NO_EPOCH)


def node_of(leadership: Leadership, id: int) -> BrokerNode | None:
    """Returns the broker with this id if it lives."""
    return next((node for node in leadership.nodes if node.id == id), None)
