"""The requests of slaves and the answers of the master, as values: API keys 10100 to 10104, without their encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from warren.replication.changes import Item
from warren.replication.epochs import Epochs
from warren.replication.shard_state import Identity


class LinkId(NamedTuple):
    """One connection over which a slave fetches: the nonce of its process, and a number that grows."""

    nonce: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinShard:
    """10100. A slave opens a link, which it has not used before.

    `first` and `tails` say where its logs begin and end. `epoch` is the one in which it saw the shard.
    """

    identity: Identity
    link: LinkId
    epoch: int
    epochs: Epochs
    first: Mapping[str, int]
    tails: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardJoined:
    """The answer to JoinShard.

    `cuts` has each log of the master: the slave ends its own there, makes it if it has none, and removes all others.
    None: the two have no epoch in common, and the slave has to start from nothing.
    `barrier`: the slave has reached it when its logs are cut and its state files are the master's; 0 if it also needs
    older records.
    """

    epoch: int
    link: LinkId
    epochs: Epochs
    first: Mapping[str, int]
    cuts: Mapping[str, int] | None
    barrier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListState:
    """10101. A slave asks for the digests of the state files behind `after`, in the order of their paths."""

    identity: Identity
    link: LinkId
    epoch: int
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateListed:
    """The answer to ListState. `is_complete`: there are no more behind the last path."""

    epoch: int
    link: LinkId
    after: str
    digests: Mapping[str, bytes]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchState:
    """10102. A slave asks for the contents of state files."""

    identity: Identity
    link: LinkId
    epoch: int
    paths: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFetched:
    """The answer to FetchState: as many of the files as fit, at least one. A file that is gone meanwhile is None."""

    epoch: int
    link: LinkId
    contents: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchShard:
    """10103. A slave has everything up to barrier `acked`, and asks for what comes next.

    `follows` is the number of the answer that it got last on this link, 0 for the one to JoinShard. So the master knows
    that the fetch was sent after that answer.
    """

    identity: Identity
    link: LinkId
    epoch: int
    follows: int
    acked: int
    size_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFetched:
    """The answer to FetchShard. With `items` carried out in order and synced, the slave has reached `barrier`."""

    epoch: int
    link: LinkId
    number: int
    barrier: int
    items: Sequence[Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverShard:
    """10104. The command line or the controller asks the master to give its office to a member of the set."""

    replica: int


class Refusal(Enum):
    """Why a master does not answer. In both cases the slave looks at the registry and joins again."""

    NOT_MASTER = "not_master"
    JOIN_AGAIN = "join_again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRefused:
    """The answer to any of these requests if the epoch or the link is not that of the master."""

    epoch: int
    link: LinkId
    reason: Refusal


SlaveRequest = JoinShard | ListState | FetchState | FetchShard
MasterAnswer = ShardJoined | StateListed | StateFetched | ShardFetched | ShardRefused
