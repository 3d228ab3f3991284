"""The actions that a Master or a Slave returns. Its process carries them out in order, and reports their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from warren.replication.changes import Item
from warren.replication.epochs import Epochs
from warren.replication.messages import LinkId, MasterAnswer, SlaveRequest
from warren.replication.shard_state import Proposal


class Propose(NamedTuple):
    """Ask the registry for a compare-and-set; report with `outcome`.

    `needs_own_node`: the registry must check in the same step that the node of this process exists.
    """

    proposal: Proposal
    needs_own_node: bool


class ReadRegistry(NamedTuple):
    """Read the registry as soon as it can be reached; report with `see`."""


class EndProcess(NamedTuple):
    """End the process immediately, without touching a file. Its parent starts it again as a slave."""

    reason: str


class SendAnswer(NamedTuple):
    """Send an answer to a slave. Read the data of its log ranges now, because the answer does not contain it yet."""

    replica: int
    answer: MasterAnswer


class SendRanges(NamedTuple):
    """Answer a fetch with old records: as many of `ranges`, in their order, as fit into `size_max`.

    Report the rest with `ranges_left` before anything else. The answer has `barrier` if nothing is left, and barrier 0
    otherwise. If a range cannot be read because its log was removed, report `connection_lost`.
    """

    replica: int
    link: LinkId
    number: int
    barrier: int
    ranges: Sequence[tuple[str, int, int]]
    size_max: int


class SendDigests(NamedTuple):
    """Answer ListState with the digests of the state files, as they are now, without the list of epochs."""

    replica: int
    link: LinkId
    after: str


class SendContents(NamedTuple):
    """Answer FetchState with the contents of state files, as they are now."""

    replica: int
    link: LinkId
    paths: Sequence[str]


class KeepEpochs(NamedTuple):
    """Write the list of epochs and sync it; report with `epochs_kept` (master) or `disk_done` (slave)."""

    epochs: Epochs


class OpenStore(NamedTuple):
    """Open the store as master; report with `store_opened`."""


class LiftVisible(NamedTuple):
    """Let readers see the logs up to these ends, because the whole set has them."""

    ends: Mapping[str, int]


class Serve(NamedTuple):
    """Accept requests, because the promotion is complete."""


class SendJoin(NamedTuple):
    """Send JoinShard on a new connection, with the epochs and the logs as they are on disk."""

    replica: int
    link: LinkId
    epoch: int


class SendRequest(NamedTuple):
    """Send a request to the master on the link's connection."""

    replica: int
    request: SlaveRequest


class CutLogs(NamedTuple):
    """Cut each log of `cuts` there, make the missing ones, remove all others, and sync; report with `disk_done`.

    A log that ends before its number in `first`, at which the master's log begins, is emptied.
    """

    cuts: Mapping[str, int]
    first: Mapping[str, int]


class StartFromNothing(NamedTuple):
    """Write and sync a new incarnation, and only then remove everything. The process ends and starts again empty.

    The new incarnation comes first, because the old one may be in the in-sync set, and must not lead an empty store.
    """


class CompareState(NamedTuple):
    """Compare the state files with the master's digests; report with `state_compared`."""

    digests: Mapping[str, bytes]


class WriteState(NamedTuple):
    """Write these state files, remove those that are None, and sync; report with `disk_done`."""

    contents: Mapping[str, bytes | None]


class Apply(NamedTuple):
    """Carry out the items of a round in order and sync each file once; report with `disk_done`."""

    items: Sequence[Item]


class Show(NamedTuple):
    """Let readers of this slave see the logs up to these ends, as far as it has them."""

    ends: Mapping[str, int]


class NoteUnreached(NamedTuple):
    """Write to the registry that the master of this epoch does not answer this replica."""

    epoch: int


class ClearUnreached(NamedTuple):
    """Remove from the registry what NoteUnreached wrote."""


class Promote(NamedTuple):
    """This process has won the election: build a Master with this state and version."""

    won: Proposal


MasterAction: TypeAlias = (
    Propose
    | ReadRegistry
    | EndProcess
    | SendAnswer
    | SendRanges
    | SendDigests
    | SendContents
    | KeepEpochs
    | OpenStore
    | LiftVisible
    | Serve
)
SlaveAction: TypeAlias = (
    Propose
    | ReadRegistry
    | SendJoin
    | SendRequest
    | CutLogs
    | StartFromNothing
    | KeepEpochs
    | CompareState
    | WriteState
    | Apply
    | Show
    | NoteUnreached
    | ClearUnreached
    | Promote
)
