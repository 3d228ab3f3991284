"""Mutants: replication with one safeguard removed. After how many seeds does the simulation notice each of them?

`python -m tests.crash.replication.mutants` prints the answer. A mutant replaces one method of the core, or of the
process that carries out its actions. Decision 8 describes the same for the source of the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from tests.crash.replication.process import Process
from tests.crash.replication.run import Run, RunFailed
from warren.replication import actions as act
from warren.replication import epochs, master
from warren.replication.barrier import Barriers
from warren.replication.changes import Item
from warren.replication.election import Candidacy, Election
from warren.replication.epochs import Epochs
from warren.replication.insync import InSync
from warren.replication.lease import ReadLease
from warren.replication.master import Master
from warren.replication.messages import FetchShard
from warren.replication.shard_state import Identity, RegistryView
from warren.replication.slave import Link, LinkEvent, Slave

SEEDS_MAX: Final = 3_000


class Mutant(NamedTuple):
    """A missing safeguard: the attribute that is replaced, its replacement, and the profile of runs that notices it."""

    name: str
    owner: Any
    attribute: str
    replacement: Any
    profile: str
    also: Sequence[tuple[Any, str, Any]] = ()
    """Other attributes that must be replaced with it."""


class Hunt(NamedTuple):
    """How many seeds were run until one noticed a mutant, and its message; None if none did."""

    seed_count: int | None
    message: str


def hunt(mutant: Mutant, seeds_max: int = SEEDS_MAX) -> Hunt:
    """Runs seed after seed until the mutant is noticed."""
    with bred(mutant):
        for seed in range(seeds_max):
            try:
                Run(seed, mutant.profile).run()
            except RunFailed as error:
                return Hunt(seed + 1, str(error).partition("\n")[0][:160])
    return Hunt(None, "")


@contextmanager
def bred(mutant: Mutant) -> Iterator[None]:
    with ExitStack() as patches:
        for owner, attribute, replacement in ((mutant.owner, mutant.attribute, mutant.replacement), *mutant.also):
            patches.enter_context(patch.object(owner, attribute, replacement))
        yield


# The in-sync set.


def _count_known_only(self: InSync) -> None:
    self._counted = self.state.insync
    self._others = self._counted - {self._me}


def _count_proposal_only(self: InSync) -> None:
    members = self._sent.state.insync if self._sent else self.state.insync
    self._counted = members | self._welcomed.keys()
    self._others = self._counted - {self._me}


def _welcome_without_mark(self: InSync, identity: Identity, mark: int) -> None:
    self._welcomed.setdefault(identity, 0)
    self._count()


wish: Final = InSync.wish


def _wish_without_minimum(
    self: InSync, out: Sequence[Identity], acked: Mapping[Identity, int]
) -> frozenset[Identity] | None:
    self.min_insync = 1
    return wish(self, out, acked)


# The election.


def _is_any_eligible(self: Election, view: RegistryView) -> bool:
    return True


def _is_eligible_with_any_disk(self: Election, view: RegistryView) -> bool:
    member = view.state.identity_of(self.me.replica)
    return member is not None and (member.boot == self.me.boot or self._is_power_safe)


def _is_eligible_after_any_boot(self: Election, view: RegistryView) -> bool:
    member = view.state.identity_of(self.me.replica)
    return member is not None and member.incarnation == self.me.incarnation


def _may_fetch_until_won(self: Election) -> bool:
    return self.candidacy is not Candidacy.WON


def _lease_over_immediately(self: Election, view: RegistryView) -> float:
    return 0.0


fetch: Final = Master._fetch


def _fetch_lengthens_lease_from_its_arrival(
    self: Master, link: Any, request: FetchShard, now: float
) -> list[act.MasterAction]:
    is_new = request.follows == link.number and not link.is_open
    actions = fetch(self, link, request, now)
    if is_new:
        self.lease._promised[link.identity] = now
    return actions


# Epochs.


def _cuts_without_epochs(
    mine: Epochs, masters: Epochs, my_tails: Mapping[str, int], masters_tails: Mapping[str, int]
) -> dict[str, int]:
    return {log: min(tail, masters_tails[log]) for log, tail in my_tails.items() if log in masters_tails}


def _end_by_next_epoch_only(epochs: Epochs, common: int, log: str, tail: int) -> int:
    following = next((entry for entry in epochs.entries if entry.epoch > common), None)
    return tail if following is None else following.tails.get(log, 0)


def _send_join_cut_to_visible(self: Process, action: act.SendJoin) -> None:
    disk = self.machine.disk
    disk.cut({log: min(len(records), self.visible.get(log, 0)) for log, records in disk.logs.items()})
    self.cluster.checker.check_members()
    send_join(self, action)


send_join: Final = Process._send_join
disk_done: Final = Slave.disk_done


def _disk_done_without_epochs(self: Slave, now: float) -> list[act.SlaveAction]:
    if self.state is Link.CUTTING:
        self._go(LinkEvent.DISK_DONE)
    return disk_done(self, now)


acknowledge: Final = Slave._acknowledge


def _acknowledge_with_epochs(self: Slave, now: float) -> list[act.SlaveAction]:
    """Keeps the list of epochs behind the first rounds."""
    if self._joined is None or self._answered < 3:
        return acknowledge(self, now)
    joined, self._joined = self._joined, None
    self.state = Link.APPLYING
    return [act.KeepEpochs(joined.epochs)]


# Barriers and reads.


newly_done: Final = Barriers._newly_done


def _done_without_acks(self: Barriers) -> list[int]:
    with patch.object(self, "_counted", frozenset):
        return newly_done(self)


epochs_kept: Final = Master.epochs_kept


def _visible_before_first_barrier(self: Master, now: float) -> list[act.MasterAction]:
    self._is_first_done = True
    return epochs_kept(self, now)


def _lease_always_held(self: ReadLease, now: float) -> bool:
    return True


# The process.


def _sync_nothing(self: Process, items: Sequence[Item]) -> None:
    pass


def _compare_nothing(self: Process, action: act.CompareState) -> None:
    assert self.slave is not None
    self.perform(self.slave.state_compared([], [], self.machine.steady()))


def _leave_unsynced(self: Process) -> None:
    pass


def _start_from_nothing_in_place(self: Process, action: act.StartFromNothing) -> None:
    self.machine.disk.start_from_nothing(self.machine.disk.incarnation)
    self.cluster.checker.check_members()
    self.cluster.kill(self)


MUTANTS: Final[Sequence[Mutant]] = (
    Mutant("no union while the set grows", InSync, "_count", _count_known_only, "registry"),
    Mutant("shrink before the compare-and-set is known", InSync, "_count", _count_proposal_only, "registry"),
    Mutant("taken in before it has what was answered", InSync, "welcome", _welcome_without_mark, "mixed"),
    Mutant("the set shrinks below its minimum", InSync, "wish", _wish_without_minimum, "mixed"),
    Mutant("candidate outside the set", Election, "is_eligible", _is_any_eligible, "mixed"),
    Mutant("incarnation not compared", Election, "is_eligible", _is_eligible_with_any_disk, "disks"),
    Mutant("boot not compared", Election, "is_eligible", _is_eligible_after_any_boot, "disks"),
    Mutant("a candidate continues to fetch", Election, "may_fetch", property(_may_fetch_until_won), "reads"),
    Mutant("lease not waited for", Election, "_lease_over_at", _lease_over_immediately, "reads"),
    Mutant(
        "lease counted from the arrival of a fetch",
        Master,
        "_fetch",
        _fetch_lengthens_lease_from_its_arrival,
        "late messages",
    ),
    Mutant("ends answered without a lease", ReadLease, "is_held", _lease_always_held, "reads"),
    Mutant("cut by visible instead of epochs", Process, "_send_join", _send_join_cut_to_visible, "divergence"),
    Mutant("cut by tails instead of epochs", master, "cuts", _cuts_without_epochs, "divergence"),
    Mutant("an epoch ends where the next one begins", epochs, "_end", _end_by_next_epoch_only, "divergence"),
    Mutant(
        "epochs kept after the first records",
        Slave,
        "disk_done",
        _disk_done_without_epochs,
        "divergence",
        [(Slave, "_acknowledge", _acknowledge_with_epochs)],
    ),
    Mutant(
        "an emptied disk keeps its incarnation",
        Process,
        "_start_from_nothing",
        _start_from_nothing_in_place,
        "divergence",
    ),
    Mutant("acknowledged before the sync", Process, "_sync_round", _sync_nothing, "mixed"),
    Mutant("published before the acknowledgements", Barriers, "_newly_done", _done_without_acks, "mixed"),
    Mutant("visible lifted before barrier 1", Master, "epochs_kept", _visible_before_first_barrier, "mixed"),
    Mutant("state digests skipped", Process, "_compare_state", _compare_nothing, "divergence"),
    Mutant("a killed process leaves its writes unsynced", Process, "_sync_leftovers", _leave_unsynced, "disks"),
)


def main(names: Sequence[str]) -> int:
    """Returns 0 if every mutant was noticed."""
    survivors = 0
    for mutant in MUTANTS:
        if names and not any(mutant.name.startswith(name) for name in names):
            continue
        result = hunt(mutant)
        survivors += result.seed_count is None
        outcome = f"noticed after {result.seed_count} seeds" if result.seed_count else f"SURVIVED {SEEDS_MAX} seeds"
        sys.stdout.write(f"{mutant.name}: {outcome}\n    {result.message}\n")
        sys.stdout.flush()
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
