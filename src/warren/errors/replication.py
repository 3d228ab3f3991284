"""Errors of replication: a master that lost its office, and values of the registry or the disk that make no sense."""

from __future__ import annotations

from warren.errors.root import WarrenError


class ReplicationError(WarrenError):
    """An error between the replicas of a store."""

    code = "replication"


class Deposed(ReplicationError):
    """Another replica is master of a higher epoch. This process must end and come back as a slave."""

    code = "deposed"

    def __init__(self, epoch: int, higher: int) -> None:
        super().__init__(f"this process is master of epoch {epoch}, and epoch {higher} has begun; it ends")
        self.epoch, self.higher = epoch, higher


class MasterBroke(ReplicationError):
    """A sync failed in this master, or a log broke. This process must end, so that another replica leads."""

    code = "master_broke"

    def __init__(self, reason: str) -> None:
        super().__init__(f"this process must not lead any more: {reason}")
        self.reason = reason


class MalformedState(ReplicationError):
    """The state of a shard, or the list of its epochs, is not what a replica writes. Nothing was changed."""

    code = "malformed_state"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"the {what} cannot be used: {reason}")
        self.what, self.reason = what, reason


class NotMaster(ReplicationError):
    """This replica does not lead the shard. `address` is that of the master, or empty if none is known.

    `location` is where the master answers the same request over HTTP; empty if it does not, or this is no such request.
    """

    code = "not_master"
    retryable = True
    location = ""

    def __init__(self, shard: int, epoch: int, address: str, location: str = "") -> None:
        who = f"its master is {address}" if address else "it has no master now"
        super().__init__(f"this broker does not lead shard {shard}; in epoch {epoch} {who}")
        self.shard, self.epoch, self.address, self.location = shard, epoch, address, location


class NotEnoughReplicas(ReplicationError):
    """Too few replicas are in sync to make the put as safe as promised. Nothing was put."""

    code = "not_enough_replicas"
    retryable = True

    def __init__(self, insync: int, min_insync: int) -> None:
        super().__init__(
            f"{insync} replicas are in the in-sync set, one of them is silent, and {min_insync} are needed; "
            "nothing was put"
        )
        self.insync, self.min_insync = insync, min_insync


class NotInCluster(ReplicationError):
    """The broker serves its store alone, so it has no replicas to answer."""

    code = "not_in_cluster"

    def __init__(self) -> None:
        super().__init__("this broker belongs to no cluster: it was started without --cluster")


class ReplicasOnly(ReplicationError):
    """A user sent a request by which replicas follow their master. No right allows it."""

    code = "replicas_only"

    def __init__(self, user: str) -> None:
        super().__init__(
            f"user {user!r} may not follow the master: only replicas may, which log in with the secret of the cluster"
        )
        self.user = user


class WrongCluster(ReplicationError):
    """The directory and the registry do not belong together. The replica does not start, and nothing was changed."""

    code = "wrong_cluster"

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason, self.remedy = reason, remedy


class ReplicaTaken(ReplicationError):
    """Another broker serves as this replica of the shard already."""

    code = "replica_taken"

    def __init__(self, shard: int, replica: int, address: str) -> None:
        super().__init__(
            f"replica {replica} of shard {shard} is served from another directory, by the broker at {address}; "
            "give this one another --replica"
        )
        self.shard, self.replica, self.address = shard, replica, address
