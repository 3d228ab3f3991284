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
    """10100. A slave opens a link, with an id that it has not used before.

    `first` and `tails` say where its logs begin and end. `epoch` is that of the state that it has read last.
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

    `cuts` has an end for each log of the master: the slave cuts its own log there, makes the log if it has none, and
    removes all other logs. None: the two have no epoch in common, so the slave has to start from nothing.
    `barrier`: the slave has reached it when its logs are cut and its state files equal the master's; 0 if it also needs
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
    """10101. A slave asks for the digests of the state files after the path `after`, in the order of their paths."""

    identity: Identity
    link: LinkId
    epoch: int
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateListed:
    """The answer to ListState. `is_complete`: there are no more files after the last path."""

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
    """The answer to FetchState: as many of the files as fit, at least one. None is a file that exists no more."""

    epoch: int
    link: LinkId
    contents: Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchShard:
    """10103. A slave has everything up to barrier `acked`, and asks for what comes next.

    `follows` is the number of the last answer on this link; the answer to JoinShard has 0. So the master knows that the
    fetch was sent after that answer.
    """

    identity: Identity
    link: LinkId
    epoch: int
    follows: int
    acked: int
    size_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFetched:
    """The answer to FetchShard. A slave that has carried out and synced `items`, in order, has reached `barrier`."""

    epoch: int
    link: LinkId
    number: int
    barrier: int
    items: Sequence[Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverShard:
    """10104. The command line or the controller asks the master to hand over to a member of the set."""

    replica: int


class Refusal(Enum):
    """Why a master refuses a request. In both cases the slave reads the registry and joins again."""

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
