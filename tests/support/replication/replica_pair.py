"""A master and a slave in one thread: everything that the master ships is applied to a second directory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.replication.barrier import Barriers
from warren.replication.changes import FileContent
from warren.replication.disk.replica_directory import ReplicaDirectory
from warren.replication.epochs import EPOCHS_PATH, Epoch, cuts
from warren.replication.shard_state import Identity
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
from warren.transaction.store import Store

ROUND_SIZE: Final = 1 << 20
STEPS_MAX: Final = 10_000


class PumpedBarriers(Barriers):
    """Barriers for which the waiting thread itself brings the slave up to date."""

    def __init__(self, pump: Callable[[], None], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pump = pump

    def wait(self, number: int) -> None:
        self._pump()
        super().wait(number)


class ReplicaPair:
    """Two directories. The first is that of the master.

    The slave applies what the master ships immediately, or with `is_lazy` only when a thread waits for a barrier.
    """

    def __init__(
        self,
        master: str,
        slave: str,
        *,
        epoch: int = 1,
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        second: FileSystem | None = None,
        clock: Clock = SYSTEM_CLOCK,
        is_lazy: bool = False,
    ) -> None:
        self.clock = clock
        self.failures: list[str] = []
        self._pumping = threading.Lock()
        self.rounds = 0
        self.master = ReplicaDirectory(master, filesystem=filesystem, clock=clock)
        self.slave = ReplicaDirectory(slave, filesystem=second or filesystem, clock=clock)
        self.master.settle()
        self.slave.settle()
        self.member = Identity(2, self.slave.incarnation, self.slave.boot)
        self.epochs = self.master.epochs
        entry = Epoch(epoch=epoch, master=1, began="", tails=self.master.tails())
        self.epochs = self.epochs.begun(entry)
        self.barriers = PumpedBarriers(
            self.pump,
            lambda: frozenset({self.member}),
            self.master.tails(),
            self.master.first(),
            self.master.visible(),
        )
        self.barriers.next(FileContent(EPOCHS_PATH, self.epochs.to_json()), clock.steady_s())
        self.master.keep_epochs(self.epochs)
        self.barriers.synced(1)
        self._join()
        noted = (lambda: None) if is_lazy else self.pump
        self.filesystem = self.master.lead(self.barriers, epoch, noted, self.failures.append)

    def _join(self) -> None:
        """Lets the slave join, in the same steps as the roles do it."""
        tails, first = self.master.tails(), self.master.first()
        agreed = cuts(self.slave.epochs, self.epochs, self.slave.tails(), tails)
        if agreed is None:
            raise AssertionError("the slave would start from nothing")
        agreed = {log: agreed.get(log, 0) for log in tails}
        starts = {log: max(end, first.get(log, 0)) for log, end in agreed.items()}
        ranges = [(log, start, tails[log]) for log, start in starts.items() if agreed[log] < tails[log]]
        self.slave.cut_logs(agreed, first)
        self.slave.keep_epochs(self.epochs)
        after, is_complete = "", False
        digests: dict[str, bytes] = {}
        while not is_complete:
            part, is_complete = self.master.digests(after)
            digests |= part
            after = max(digests, default="")
        differences = self.slave.compare_state(digests)
        contents = dict.fromkeys(differences.gone, None) | dict(self.master.contents(differences.different, ROUND_SIZE))
        self.slave.write_state(contents)
        while ranges:
            sent = self.master.ranges(ranges, ROUND_SIZE)
            assert sent is not None
            self.slave.apply(sent.items)
            ranges = list(sent.left)
        self.barriers.start(self.member, self.barriers.last)
        self.barriers.acked(self.member, self.barriers.last)

    def open(self, **options: object) -> Store:
        """Opens the master's store."""
        options.setdefault("keeps", False)
        store = Store(self.master.path, filesystem=self.filesystem, clock=self.clock, **options)  # type: ignore[arg-type]
        self.master.serve()
        return store

    def pump(self) -> None:
        """Brings the slave up to date."""
        # The slave is another machine, so a test that cuts the power between two lines must not cut it here.
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            with self._pumping:
                for _ in range(STEPS_MAX):
                    if not self._pump_round():
                        return
        finally:
            sys.settrace(tracer)

    def _pump_round(self) -> bool:
        round = self.barriers.round(self.member, ROUND_SIZE)
        if round is None:
            return False
        assert not round.is_behind
        items = self.master.filled(round.changes)
        assert items is not None
        self.slave.apply(items)
        self.rounds += 1
        self.barriers.acked(self.member, round.barrier)
        return True
