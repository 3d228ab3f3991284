"""The state of a shard as the registry keeps it: epoch, master and in-sync set, changed by compare-and-set only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from warren.errors import MalformedState

WHAT: Final = "state of the shard"


class ProposalOutcome(Enum):
    """The outcome of a compare-and-set. UNKNOWN: the answer was lost; it may be applied already, later, or never."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Identity(NamedTuple):
    """A replica as the in-sync set names it.

    A replica whose disk was replaced has another `incarnation`. After its machine was restarted it has another `boot`.
    """

    replica: int
    incarnation: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """One value of the shard's node in the registry.

    The values form one line, because each one replaces the version that its writer has read.
    """

    epoch: int
    master: int | None
    """None: the shard was founded, and has had no master yet."""
    insync: frozenset[Identity]
    nonce: str
    """Names the process that is master. A later process of the same replica has another nonce."""

    def identity_of(self, replica: int) -> Identity | None:
        """Returns the identity of `replica` in the set; None if it is not a member."""
        return next((member for member in self.insync if member.replica == replica), None)

    def led_by(self, identity: Identity, nonce: str) -> ShardState:
        """Returns the state in which a member of the set leads the next epoch. The replicas of the set are the same."""
        others = frozenset(member for member in self.insync if member.replica != identity.replica)
        return ShardState(epoch=self.epoch + 1, master=identity.replica, insync=others | {identity}, nonce=nonce)

    def to_json(self) -> bytes:
        insync = {
            str(member.replica): {"incarnation": member.incarnation, "boot": member.boot}
            for member in sorted(self.insync)
        }
        value = {"epoch": self.epoch, "master": self.master, "insync": insync, "nonce": self.nonce}
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def from_json(data: bytes) -> ShardState:
        """Raises MalformedState if `data` is not what `to_json` writes."""
        value = parse_json(data, WHAT)
        if not isinstance(value, dict) or not {"epoch", "master", "insync", "nonce"} <= value.keys():
            raise MalformedState(WHAT, "epoch, master, insync and nonce are needed")
        epoch, master, insync, nonce = value["epoch"], value["master"], value["insync"], value["nonce"]
        if not is_count(epoch) or not (master is None or is_count(master)) or not isinstance(nonce, str):
            raise MalformedState(WHAT, f"epoch {epoch!r}, master {master!r} or nonce {nonce!r} has the wrong type")
        if not isinstance(insync, dict):
            raise MalformedState(WHAT, "insync is not an object")
        members = frozenset(_identity(replica, member) for replica, member in insync.items())
        return ShardState(epoch=epoch, master=master, insync=members, nonce=nonce)


class Proposal(NamedTuple):
    """A request to the registry: set the shard's node to `state` if it still has this version."""

    state: ShardState
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryView:
    """The registry as a replica has read it: the state first, then the rest, so that the rest is never older."""

    state: ShardState
    version: int
    nodes: Mapping[int, str]
    """The living replicas, and the nonce of the process of each."""
    unreached: Mapping[int, int]
    """The replicas that get no answer from the master, and the epoch of that master for each."""
    dead: int | None = None
    """The latest epoch whose master is dead for certain, because its parent process has seen it end."""

    @property
    def is_master_alive(self) -> bool:
        """Whether the process that won this epoch still has its session. A later process of its replica has another."""
        state = self.state
        return state.master is not None and self.nodes.get(state.master) == state.nonce

    def is_master_unreached(self, min_insync: int) -> bool:
        """Whether no other member of the set gets an answer from the master, and they are enough without it."""
        state = self.state
        others = [member.replica for member in state.insync if member.replica != state.master]
        return len(others) >= max(min_insync, 1) and all(
            self.unreached.get(replica) == state.epoch for replica in others
        )


def parse_json(data: bytes, what: str) -> Any:
    """Raises MalformedState if `data` is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedState(what, f"it is not JSON: {error}") from error


def is_count(value: object) -> bool:
    """Whether `value` is a whole number that is not negative. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _identity(replica: str, member: object) -> Identity:
    if not replica.isascii() or not replica.isdigit():
        raise MalformedState(WHAT, f"{replica!r} is not the number of a replica")
    if not isinstance(member, dict):
        raise MalformedState(WHAT, f"replica {replica} is not an object")
    incarnation, boot = member.get("incarnation"), member.get("boot")
    if not isinstance(incarnation, str) or not isinstance(boot, str):
        raise MalformedState(WHAT, f"replica {replica} has no incarnation and boot")
    return Identity(int(replica), incarnation, boot)
