"""The interface of a replica's directory: what the process of the replica asks of its disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from warren.replication.barrier import Barriers
from warren.replication.changes import Item
from warren.replication.comparison import FileRows, RecordsDigest
from warren.replication.epochs import Epochs
from warren.storage.disk.filesystem import FileSystem


class Ranges(NamedTuple):
    """Old records for a slave, and the ranges (log, first number, end) that did not fit in."""

    items: Sequence[Item]
    left: Sequence[tuple[str, int, int]]


class StateDigests(NamedTuple):
    """Digests of state files in the order of their paths. `is_complete`: there are no more after the last one."""

    digests: Mapping[str, bytes]
    is_complete: bool


class Differences(NamedTuple):
    """The state files that differ from the master's or are missing here, and those that the master does not have."""

    different: Sequence[str]
    gone: Sequence[str]


class Replica(Protocol):
    """The directory of one replica. `warren.replication.disk.replica_directory.ReplicaDirectory` is the real one.

    Every method blocks until it is done. A method that writes returns when what it wrote is as durable as it has to be.
    Only one thread calls at a time, but any thread of a master may call `ranges`, `filled`, `digests` and `contents`
    while the store is open. Any thread may call `list_copy` and `digest_records` at any time.
    """

    @property
    def incarnation(self) -> str:
        """Identifies this disk, and is kept on it: one part of the replica's `Identity`."""
        ...

    @property
    def boot(self) -> str:
        """Identifies this start of the machine: the other part of the replica's `Identity`."""
        ...

    @property
    def epochs(self) -> Epochs:
        """The list of epochs as it is on disk; `Epochs.founded` in an empty directory."""
        ...

    def keep_epochs(self, epochs: Epochs) -> None:
        """KeepEpochs: writes the list and syncs it."""
        ...

    # --- A slave or candidate: no store is open in the directory ---

    def settle(self) -> None:
        """Syncs what an earlier process wrote, and repairs the end of each log. Called once, before all others.

        Raises CorruptRecord if records that were on disk are damaged. Then the caller calls `start_from_nothing`,
        because a replica with a damaged copy must not lead.
        """
        ...

    def is_empty(self) -> bool:
        """Returns whether nothing of a store is here that could be lost: no messages, topics, users or other state."""
        ...

    def tails(self) -> Mapping[str, int]:
        """Returns the end of each log, for JoinShard and for `Master`."""
        ...

    def first(self) -> Mapping[str, int]:
        """Returns the number at which each log begins. Logs that begin at 0 may be missing."""
        ...

    def visible(self) -> Mapping[str, int]:
        """Returns the end up to which readers may see each log, for `Master`."""
        ...

    def cut_logs(self, cuts: Mapping[str, int], first: Mapping[str, int]) -> None:
        """CutLogs: cuts each log of `cuts` there, makes the missing ones, removes all others, and syncs."""
        ...

    def start_from_nothing(self) -> None:
        """StartFromNothing: writes and syncs a new incarnation, and then removes everything. The process ends."""
        ...

    def compare_state(self, digests: Mapping[str, bytes]) -> Differences:
        """CompareState: compares all state files with the master's digests. Facts of logs count as state files."""
        ...

    def write_state(self, contents: Mapping[str, bytes | None]) -> None:
        """WriteState: writes these state files, removes those that are None, and syncs."""
        ...

    def apply(self, items: Sequence[Item]) -> None:
        """Apply: carries out the items in order, syncs each file once, and moves the ends of the logs.

        Ignores CommittedEnds, because Show follows with them. Raises CorruptRecord if a record is damaged, or a range
        does not follow the end of its log. Then nothing of the items is acknowledged: the caller drops the link and
        joins again.
        """
        ...

    def show(self, ends: Mapping[str, int]) -> None:
        """Show, and LiftVisible of a master: lets readers of any process see the logs up to these ends."""
        ...

    # --- A master ---

    def lead(
        self, barriers: Barriers, epoch: int, noted: Callable[[], None], failed: Callable[[str], None]
    ) -> FileSystem:
        """OpenStore: returns the file system for `warren.transaction.store.Store` of a master.

        Any thread calls `noted` when a change was given to `barriers`, or is done because it was synced here; then
        `Master.wake` must be called.
        Any thread calls `failed` if a sync failed or a log broke; then this process must not lead any more, and ends.
        Neither may block.
        """
        ...

    def serve(self) -> None:
        """Serve: the store is open and barrier 1 is done. Lets readers see all that the logs have published."""
        ...

    def ranges(self, ranges: Sequence[tuple[str, int, int]], size_max: int) -> Ranges | None:
        """SendRanges: returns old records, about `size_max` bytes and at least one record; None if a log is gone."""
        ...

    def filled(self, items: Sequence[Item]) -> Sequence[Item] | None:
        """SendAnswer: returns the items with the data of their ranges, as views of mapped blocks.

        None if a log or a block is gone: the caller reports `connection_lost`.
        """
        ...

    def digests(self, after: str) -> StateDigests:
        """SendDigests: returns the digests of the state files after the path `after`, without the list of epochs."""
        ...

    def contents(self, paths: Sequence[str], size_max: int) -> Mapping[str, bytes | None]:
        """SendContents: returns the contents of state files, at most `size_max` bytes but at least one file."""
        ...

    # --- Both ---

    def list_copy(self, after: str, paths: Sequence[str]) -> FileRows:
        """Returns the state files and logs behind `after`; or those of `paths` that are there, if any are named."""
        ...

    def digest_records(
        self, log: str, start: int, end: int, size_max: int, *, is_checked: bool
    ) -> RecordsDigest | None:
        """Returns the digest of records of the log in the directory `log`, relative to the store; None without a log.

        Raises CorruptRecord if they cannot be read, or do not match their checksums and `is_checked`.
        """
        ...

    def close(self) -> None:
        """Closes every file. The logs of a slave need no recovery afterwards."""
        ...
