"""What the roles ask their process to do. It does so in the order of the list, and reports what has an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from warren.replication.changes import Item
from warren.replication.epochs import Epochs
from warren.replication.messages import LinkId, MasterAnswer, SlaveRequest
from warren.replication.shard_state import Proposal


class Propose(NamedTuple):
    """Ask the registry for a compare-and-set; report with `outcome`.

    `needs_own_node`: together with a check, in one step, that the node of this process is there.
    """

    proposal: Proposal
    needs_own_node: bool


class ReadRegistry(NamedTuple):
    """Read the registry as soon as it answers; report with `see`."""


class EndProcess(NamedTuple):
    """End the process at once, without touching a file. Its parent starts it again as a slave."""

    reason: str


class SendAnswer(NamedTuple):
    """Send an answer to a slave. Ranges of logs get their data now."""

    replica: int
    answer: MasterAnswer


class SendRanges(NamedTuple):
    """Answer a fetch with old records of the logs, as many of `ranges` in their order as fit into `size_max`.

    Report what did not fit with `ranges_left` before anything else. If nothing is left, the answer has `barrier`, else
    barrier 0. If a range cannot be read, because its log is gone, report with `connection_lost`.
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
    """Let readers see these ends, because the whole set has them."""

    ends: Mapping[str, int]


class Serve(NamedTuple):
    """Take requests: the promotion is complete."""


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
    """End each log of `cuts` there, make those that are missing, remove all others, sync; report with `disk_done`.

    A log that begins behind its own end in `first` is emptied, and begins there.
    """

    cuts: Mapping[str, int]
    first: Mapping[str, int]


class StartFromNothing(NamedTuple):
    """Take a new incarnation, synced, and only then remove everything. The process ends and comes back empty.

    The new incarnation comes first, because the old one may stand in the in-sync set and must not lead empty.
    """


class CompareState(NamedTuple):
    """Compare the state files with the master's digests; report with `state_compared`."""

    digests: Mapping[str, bytes]


class WriteState(NamedTuple):
    """Write these state files, remove those that are None, sync; report with `disk_done`."""

    contents: Mapping[str, bytes | None]


class Apply(NamedTuple):
    """Carry out the items of a round in order and sync each file once; report with `disk_done`."""

    items: Sequence[Item]


class Show(NamedTuple):
    """Let readers of this slave see the logs up to these ends, as far as it has them."""

    ends: Mapping[str, int]


class NoteUnreached(NamedTuple):
    """Say in the registry that the master of this epoch does not answer."""

    epoch: int


class ClearUnreached(NamedTuple):
    """Take that back."""


class Promote(NamedTuple):
    """This process has won: build a Master with this state and version."""

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
