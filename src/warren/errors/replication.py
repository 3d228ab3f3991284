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


class MalformedState(ReplicationError):
    """The state of a shard, or the list of its epochs, is not what a replica writes. Nothing was changed."""

    code = "malformed_state"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"the {what} cannot be used: {reason}")
        self.what, self.reason = what, reason
