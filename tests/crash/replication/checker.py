"""The invariants of the simulation: what must be true of a replicated store after each step and with every fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.crash.replication.disk import EMPTY, Record, ReplicaDisk

if TYPE_CHECKING:
    from tests.crash.replication.cluster import Cluster


class PromiseBroken(AssertionError):
    """A replica did something that no fault allows."""


class Checker:
    """Watches a cluster from outside. Each method is called at the step that it checks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.committed: dict[str, list[Record]] = {}
        """The records of each log that the whole in-sync set has, according to a master."""
        self.acked_files: dict[str, Record] = {}
        self.removed: set[str] = set()
        self._values: dict[tuple[str, int, int], int] = {}
        self._masters: dict[int, str] = {}
        self._epoch_done = 0
        self.ack_count = 0

    def laid(self, log: str, number: int, record: Record) -> None:
        """Checks a record that was written: records of equal log, number and epoch are equal on all replicas."""
        epoch, value = record
        if self._values.setdefault((log, number, epoch), value) != value:
            raise PromiseBroken(f"{log} has two messages {number} of epoch {epoch}")

    def done(self, epoch: int, nonce: str) -> None:
        """Checks that only one process ever finishes barriers of an epoch."""
        if self._masters.setdefault(epoch, nonce) != nonce:
            raise PromiseBroken(f"two processes finish barriers of epoch {epoch}")

    def log_committed(self, epoch: int, log: str, records: Sequence[Record], end: int) -> None:
        """Checks a log that its master has committed up to `end`."""
        self.ack_count += 1
        if log in self.removed:
            return
        committed = self.committed.setdefault(log, [])
        size = min(len(committed), end)
        if records[:size] != committed[:size]:
            raise PromiseBroken(f"{log} differs from what was committed before")
        if end <= len(committed):
            return
        if epoch < self._epoch_done:
            raise PromiseBroken(f"the deposed master of epoch {epoch} acknowledges {log} up to {end}")
        if end > len(records):
            raise PromiseBroken(f"{log} is acknowledged up to {end} and ends at {len(records)}")
        committed += records[len(committed) : end]
        self.check_members()

    def file_acked(self, path: str, value: Record) -> None:
        self.ack_count += 1
        self.acked_files[path] = max(value, self.acked_files.get(path, (0, 0)))
        self.check_members()

    def first_barrier_done(self, epoch: int) -> None:
        self._epoch_done = max(self._epoch_done, epoch)

    def check_members(self) -> None:
        """Checks that each member of the set in the registry has all that was acknowledged, as durable as promised."""
        for member in self._cluster.registry.state.insync:
            machine = self._cluster.machines[member.replica]
            disk = machine.disk
            if disk.incarnation != member.incarnation:
                continue
            if not self._cluster.setup.is_power_safe and machine.boot != member.boot:
                continue
            self._check_disk(disk, member.replica)

    def _check_disk(self, disk: ReplicaDisk, replica: int) -> None:
        is_power_safe = self._cluster.setup.is_power_safe
        for log, committed in self.committed.items():
            records = disk.logs.get(log, [])
            size = len(committed)
            if records[:size] != committed:
                raise PromiseBroken(f"replica {replica} is in the set without all that was acknowledged of {log}")
            if is_power_safe and disk.synced.get(log, 0) < size:
                raise PromiseBroken(f"replica {replica} is in the set, and {log} is not synced up to {size}")
        for path, acked in self.acked_files.items():
            if max(disk.durable(path)) < acked:
                raise PromiseBroken(f"replica {replica} is in the set without the acknowledged content of {path}")

    def check_visible(self, disk: ReplicaDisk, ends: Mapping[str, int]) -> None:
        """Checks that readers of a replica, who see the logs up to these ends, see only what is committed."""
        for log, end in ends.items():
            if log in self.removed:
                continue
            committed = self.committed.get(log, [])
            if end > len(committed):
                raise PromiseBroken(f"{log} is shown up to {end}, and committed up to {len(committed)}")
            if disk.logs.get(log, [])[:end] != committed[:end]:
                raise PromiseBroken(f"{log} shows other messages than were committed")

    def floor(self, log: str) -> int:
        """Returns the lowest end that a read which begins now may get."""
        return len(self.committed.get(log, ()))

    def end_answered(self, log: str, end: int, floor: int) -> None:
        if log in self.removed:
            return
        if end < floor:
            raise PromiseBroken(f"a read of {log} got end {end}, and {floor} was acknowledged before it began")
        if end > self.floor(log):
            raise PromiseBroken(f"a read of {log} got end {end}, and only {self.floor(log)} is committed")

    def proposal_applied(self, min_insync: int) -> None:
        size = len(self._cluster.registry.state.insync)
        if size < min_insync:
            raise PromiseBroken(f"the in-sync set has {size} members, below {min_insync}")
        self.check_members()

    def log_removed(self, log: str) -> None:
        self.removed.add(log)
        self.committed.pop(log, None)

    def difference(self) -> str | None:
        """Returns how two replicas differ; None if all are equal."""
        first, *others = (machine.disk for machine in self._cluster.machines)
        for disk in others:
            if disk.logs != first.logs:
                return f"logs differ: {first.tails()} and {disk.tails()}"
            for path in {*first.files, *disk.files}:
                if first.files.get(path, EMPTY) != disk.files.get(path, EMPTY):
                    return f"{path} differs"
            if disk.epochs != first.epochs:
                return "the lists of epochs differ"
        return None
