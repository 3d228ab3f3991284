"""One process of a simulated replica. It carries out the actions of its role on disk, network and registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.crash.replication.disk import EMPTY
from warren.replication import actions as act
from warren.replication.changes import Change, FileContent, FileGone, FilePatch, Item, LogRange, NewLog, RemovedLog
from warren.replication.election import Election
from warren.replication.epochs import Epochs
from warren.replication.master import Master
from warren.replication.messages import (
    FetchShard,
    FetchState,
    JoinShard,
    ListState,
    Refusal,
    ShardFetched,
    ShardRefused,
    StateFetched,
    StateListed,
)
from warren.replication.shard_state import Identity, ProposalOutcome
from warren.replication.slave import Slave
from warren.replication.time_limits import NEVER

if TYPE_CHECKING:
    from tests.crash.replication.cluster import Cluster, Machine

REQUESTS: Final = (JoinShard, ListState, FetchState, FetchShard)
WRITE_S: Final = (0.001, 0.03)


class Process:
    """A process from its start to its end. After its end no event reaches it, and it touches no file."""

    def __init__(self, cluster: Cluster, machine: Machine, nonce: str) -> None:
        self.cluster, self.machine, self.nonce = cluster, machine, nonce
        self.is_alive = True
        self.visible: dict[str, int] = {}
        self.unreached: int | None = None
        self.master: Master | None = None
        self.slave: Slave | None = None
        self._armed = NEVER
        self._reads: list[Callable[[], bool]] = []
        """Requests for ends that wait for the lease."""
        # Syncs what an earlier process wrote without a sync, because the tails with which this one joins count.
        self._sync_leftovers()
        self.identity = Identity(machine.replica, machine.disk.incarnation, machine.boot)

    def _sync_leftovers(self) -> None:
        if self.cluster.setup.is_power_safe:
            self.machine.disk.sync_all()

    def start(self) -> None:
        setup, now = self.cluster.setup, self.machine.steady()
        election = Election(
            self.identity,
            self.nonce,
            setup.timing,
            setup.replicas,
            setup.min_insync,
            is_power_safe=setup.is_power_safe,
            now=now,
        )
        self.slave = Slave(election, setup.timing, now=now, size_max=setup.round_size_max)
        self.cluster.connect_session(self)

    def perform(self, actions: Sequence[Any]) -> None:
        """Carries out actions in their order. The process may be killed between any two of them."""
        cluster = self.cluster
        for action in actions:
            if not self.is_alive:
                return
            if cluster.is_faulty and cluster.random.random() < cluster.kill_chance:
                cluster.kill(self)
                return
            PERFORMERS[type(action)](self, action)
        if self.is_alive:
            self._arm()

    def timer(self, armed: float) -> None:
        if armed != self._armed:
            return
        self._armed = NEVER
        role = self.master or self.slave
        assert role is not None
        self.perform(role.timer(self.machine.steady()))
        self._retry_reads()

    def receive(self, message: Any, sender: int) -> None:
        """Takes a message of another replica."""
        now = self.machine.steady()
        if isinstance(message, REQUESTS):
            if self.master is not None:
                self.perform(self.master.received(message, now))
                self._retry_reads()
            elif self.slave is not None:
                refused = ShardRefused(epoch=0, link=message.link, reason=Refusal.NOT_MASTER)
                self.cluster.send(self.machine.replica, sender, refused)
        elif self.slave is not None:
            self.perform(self.slave.received(message, now))

    def see(self) -> None:
        role = self.master or self.slave
        assert role is not None
        self.perform(role.see(self.cluster.registry.view(), self.machine.steady()))
        self._retry_reads()

    def outcome(self, outcome: ProposalOutcome, is_of_master: bool) -> None:
        now = self.machine.steady()
        self.cluster.counts[f"outcome {outcome.value}"] += 1
        if self.master is not None:
            if is_of_master:
                self.perform(self.master.outcome(outcome, now))
        elif self.slave is not None:
            self.perform(self.slave.outcome(outcome, now))

    # Requests of clients. Each returns whether the request was taken.

    def put(self, log: str, value: int, answer: Callable[[], None]) -> bool:
        master, disk = self.master, self.machine.disk
        if master is None or not master.takes_puts(self.machine.steady()) or log not in disk.logs:
            return False
        records = disk.logs[log]
        record = (master.epoch, value)
        number = len(records)
        records.append(record)
        self.cluster.checker.laid(log, number, record)
        self._note(master, LogRange(log, 0, number, number, number + 1, 1), partial(self._committed, log, answer))
        return True

    def change_file(self, path: str, counter: int, answer: Callable[[], None]) -> bool:
        master, disk = self.master, self.machine.disk
        if master is None or not master.takes_puts(self.machine.steady()):
            return False
        value, slot = (master.epoch, counter), counter % 2
        old = disk.files.get(path, EMPTY)
        new = (value, old[1]) if slot == 0 else (old[0], value)
        disk.files[path] = new
        change: Change
        if path.endswith("reader"):
            change = FilePatch(path, slot, cast_bytes(value))
        else:
            change = FileContent(path, cast_bytes(new))

        def acknowledge() -> None:
            self.cluster.checker.file_acked(path, value)
            answer()

        self._note(master, change, acknowledge)
        return True

    def make_log(self, log: str, answer: Callable[[], None]) -> bool:
        master, disk = self.master, self.machine.disk
        if master is None or not master.takes_puts(self.machine.steady()):
            return False
        disk.logs.setdefault(log, [])
        self._note(master, NewLog(log, 2), answer)
        return True

    def remove_log(self, log: str, answer: Callable[[], None]) -> bool:
        master, disk = self.master, self.machine.disk
        if master is None or not master.takes_puts(self.machine.steady()) or log not in disk.logs:
            return False
        disk.remove_log(log)
        self.cluster.checker.log_removed(log)
        self._note(master, RemovedLog(log), answer)
        return True

    def read_end(self, log: str, answer: Callable[[int], None]) -> bool:
        """Answers with the published end, now or as soon as the lease allows it."""
        if self.master is None:
            return False

        def attempt() -> bool:
            master = self.master
            assert master is not None
            if not master.may_tell_ends(self.machine.steady()):
                return False
            answer(master.barriers.committed.get(log, 0))
            return True

        if not attempt():
            self.cluster.counts["lease wait"] += 1
            self._reads.append(attempt)
        return True

    def _retry_reads(self) -> None:
        if self._reads and self.is_alive:
            self._reads = [attempt for attempt in self._reads if not attempt()]

    def _note(self, master: Master, change: Change, callback: Callable[[], None]) -> None:
        """Gives a change its barrier, syncs it a moment later, and calls `callback` when the set has it."""
        cluster = self.cluster
        number = master.barriers.next(change, self.machine.steady())

        def finished() -> None:
            cluster.checker.done(master.epoch, self.nonce)
            callback()

        master.barriers.when(number, finished)
        if isinstance(change, LogRange) and not cluster.setup.is_power_safe:
            self._synced(master, number, change)
        else:
            cluster.after(cluster.random.uniform(*WRITE_S), self, self._synced, master, number, change)
        self.perform(master.wake(self.machine.steady()))

    def _synced(self, master: Master, number: int, change: Change) -> None:
        disk = self.machine.disk
        if isinstance(change, LogRange):
            if self.cluster.setup.is_power_safe:
                disk.sync_log(change.log, change.end)
        elif isinstance(change, FileContent | FilePatch):
            disk.sync_files([change.path])
        elif isinstance(change, RemovedLog):
            disk.sync_removal(change.log)
        master.barriers.synced(number)
        self.perform(master.wake(self.machine.steady()))

    def _committed(self, log: str, answer: Callable[[], None]) -> None:
        master = self.master
        assert master is not None
        disk, end = self.machine.disk, master.barriers.committed[log]
        self.cluster.checker.log_committed(master.epoch, log, disk.logs.get(log, []), end)
        self._show({log: end})
        answer()

    def _show(self, ends: Mapping[str, int]) -> None:
        logs = self.machine.disk.logs
        for log, end in ends.items():
            if log in logs:
                self.visible[log] = max(self.visible.get(log, 0), min(end, len(logs[log])))
        self.cluster.checker.check_visible(self.machine.disk, self.visible)

    def _arm(self) -> None:
        master, slave = self.master, self.slave
        if master is not None:
            deadline = master.deadline()
            if self._reads:
                deadline = min(deadline, self.machine.steady() + 0.1)
        else:
            assert slave is not None
            deadline = slave.deadline
        if deadline < self._armed:
            self._armed = deadline
            self.cluster.at(self.machine.true_time(deadline), self, self.timer, deadline)

    # Actions.

    def _propose(self, action: act.Propose) -> None:
        own_node = (self.machine.replica, self.nonce) if action.needs_own_node else None
        self.cluster.propose(self, action.proposal, own_node)

    def _read_registry(self, action: act.ReadRegistry) -> None:
        self.cluster.look(self)

    def _end(self, action: act.EndProcess) -> None:
        self.cluster.counts["process ended"] += 1
        self.cluster.kill(self)

    def _send_answer(self, action: act.SendAnswer) -> None:
        answer = action.answer
        if isinstance(answer, ShardFetched):
            items = self._filled(answer.items)
            if items is None:
                assert self.master is not None
                self.master.connection_lost(action.replica, answer.link)
                return
            answer = ShardFetched(
                epoch=answer.epoch, link=answer.link, number=answer.number, barrier=answer.barrier, items=items
            )
        self.cluster.send(self.machine.replica, action.replica, answer)

    def _filled(self, items: Sequence[Item]) -> list[Item] | None:
        """Returns the items with the data of their ranges; None if a log is gone."""
        logs = self.machine.disk.logs
        filled: list[Item] = []
        for item in items:
            if isinstance(item, LogRange):
                if item.log not in logs:
                    return None
                item = item._replace(data=cast_bytes(logs[item.log][item.first : item.end]))
            filled.append(item)
        return filled

    def _send_ranges(self, action: act.SendRanges) -> None:
        master, logs = self.master, self.machine.disk.logs
        assert master is not None
        self.cluster.counts["old ranges sent"] += 1
        items: list[LogRange] = []
        rest_ranges: list[tuple[str, int, int]] = []
        room = action.size_max // 100
        for log, first, end in action.ranges:
            if log not in logs:
                master.connection_lost(action.replica, action.link)
                return
            fits = min(end, first + room)
            if first < fits:
                items.append(LogRange(log, 0, first, first, fits, fits - first, cast_bytes(logs[log][first:fits])))
                room -= fits - first
            if fits < end:
                rest_ranges.append((log, fits, end))
        master.ranges_left(action.replica, rest_ranges)
        answer = ShardFetched(
            epoch=master.epoch,
            link=action.link,
            number=action.number,
            barrier=0 if rest_ranges else action.barrier,
            items=items,
        )
        self.cluster.send(self.machine.replica, action.replica, answer)

    def _send_digests(self, action: act.SendDigests) -> None:
        assert self.master is not None
        files = self.machine.disk.files
        digests = {path: cast_bytes(files[path]) for path in sorted(files) if path > action.after}
        answer = StateListed(
            epoch=self.master.epoch, link=action.link, after=action.after, digests=digests, is_complete=True
        )
        self.cluster.send(self.machine.replica, action.replica, answer)

    def _send_contents(self, action: act.SendContents) -> None:
        assert self.master is not None
        files = self.machine.disk.files
        contents = {path: cast_bytes(files[path]) if path in files else None for path in action.paths}
        answer = StateFetched(epoch=self.master.epoch, link=action.link, contents=contents)
        self.cluster.send(self.machine.replica, action.replica, answer)

    def _keep_epochs(self, action: act.KeepEpochs) -> None:
        self.machine.disk.epochs = action.epochs
        self._later(self._epochs_kept)

    def _epochs_kept(self) -> None:
        self.machine.disk.sync_epochs()
        now = self.machine.steady()
        if self.master is not None:
            self.perform(self.master.epochs_kept(now))
        else:
            self._disk_done()

    def _open_store(self, action: act.OpenStore) -> None:
        self._later(self._store_opened)

    def _store_opened(self) -> None:
        assert self.master is not None
        self.perform(self.master.store_opened(self.machine.steady()))

    def _lift_visible(self, action: act.LiftVisible) -> None:
        master, checker = self.master, self.cluster.checker
        assert master is not None
        checker.done(master.epoch, self.nonce)
        for log, end in master.epochs.entries[-1].tails.items():
            checker.log_committed(master.epoch, log, self.machine.disk.logs.get(log, []), end)
        checker.first_barrier_done(master.epoch)
        self._show(action.ends)

    def _serve(self, action: act.Serve) -> None:
        self.cluster.counts["promotion"] += 1

    def _send_join(self, action: act.SendJoin) -> None:
        disk = self.machine.disk
        request = JoinShard(
            identity=self.identity,
            link=action.link,
            epoch=action.epoch,
            epochs=disk.epochs,
            first={},
            tails=disk.tails(),
        )
        self.cluster.send(self.machine.replica, action.replica, request)

    def _send_request(self, action: act.SendRequest) -> None:
        self.cluster.send(self.machine.replica, action.replica, action.request)

    def _cut_logs(self, action: act.CutLogs) -> None:
        disk = self.machine.disk
        if any(end < len(disk.logs.get(log, ())) for log, end in action.cuts.items()):
            self.cluster.counts["tail cut"] += 1
        disk.cut(action.cuts)
        self.cluster.checker.check_members()
        self._later(self._all_synced)

    def _all_synced(self) -> None:
        self.machine.disk.sync_all()
        self._disk_done()

    def _start_from_nothing(self, action: act.StartFromNothing) -> None:
        self.cluster.counts["start from nothing"] += 1
        self.machine.disk.start_from_nothing(self.cluster.new_incarnation())
        self.cluster.kill(self)

    def _compare_state(self, action: act.CompareState) -> None:
        assert self.slave is not None
        files = self.machine.disk.files
        differing = [path for path, digest in action.digests.items() if cast_bytes(files.get(path)) != digest]
        gone = [path for path in files if path not in action.digests]
        self.perform(self.slave.state_compared(differing, gone, self.machine.steady()))

    def _write_state(self, action: act.WriteState) -> None:
        files = self.machine.disk.files
        for path, content in action.contents.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = cast_any(content)
        self._later(self._state_synced, list(action.contents))

    def _state_synced(self, paths: Sequence[str]) -> None:
        self.machine.disk.sync_files(paths)
        self._disk_done()

    def _apply(self, action: act.Apply) -> None:
        for item in action.items:
            self._apply_item(item)
        self._later(self._applied, action.items)

    def _apply_item(self, item: Item) -> None:
        disk = self.machine.disk
        if isinstance(item, LogRange):
            records = disk.logs[item.log]
            assert len(records) == item.first, (
                f"{item.log} ends at {len(records)}, and the range begins at {item.first}"
            )
            for number, record in enumerate(cast_any(item.data), item.first):
                records.append(record)
                self.cluster.checker.laid(item.log, number, record)
        elif isinstance(item, FileContent):
            disk.files[item.path] = cast_any(item.data)
        elif isinstance(item, FilePatch):
            old, value = disk.files.get(item.path, EMPTY), cast_any(item.data)
            disk.files[item.path] = (value, old[1]) if item.position == 0 else (old[0], value)
        elif isinstance(item, FileGone):
            disk.files.pop(item.path, None)
        elif isinstance(item, NewLog):
            disk.logs.setdefault(item.log, [])
        elif isinstance(item, RemovedLog):
            disk.remove_log(item.log)

    def _applied(self, items: Sequence[Item]) -> None:
        self._sync_round(items)
        self._disk_done()

    def _sync_round(self, items: Sequence[Item]) -> None:
        disk = self.machine.disk
        for item in items:
            if isinstance(item, LogRange):
                if self.cluster.setup.is_power_safe:
                    disk.sync_log(item.log, item.end)
            elif isinstance(item, FileContent | FilePatch | FileGone):
                disk.sync_files([item.path])
            elif isinstance(item, RemovedLog):
                disk.sync_removal(item.log)

    def _show_ends(self, action: act.Show) -> None:
        self._show(action.ends)

    def _note_unreached(self, action: act.NoteUnreached) -> None:
        self.cluster.counts["unreached"] += 1
        self.unreached = action.epoch
        self.cluster.note_unreached(self)

    def _clear_unreached(self, action: act.ClearUnreached) -> None:
        self.unreached = None
        self.cluster.note_unreached(self)

    def _promote(self, action: act.Promote) -> None:
        setup, disk = self.cluster.setup, self.machine.disk
        self.cluster.counts["epoch won"] += 1
        now = self.machine.steady()
        self.master = Master(
            self.identity,
            action.won,
            Epochs(disk.epochs.entries[1 - setup.epochs_max :]),
            disk.tails(),
            {},
            self.visible,
            setup.replicas,
            setup.min_insync,
            setup.timing,
            began="",
            now=now,
        )
        self.slave = None
        self._armed = NEVER
        self.perform(self.master.start(now))

    def _disk_done(self) -> None:
        assert self.slave is not None
        self.perform(self.slave.disk_done(self.machine.steady()))

    def _later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls `function` when the disk has finished, unless the process has ended before."""
        self.cluster.after(self.cluster.random.uniform(*WRITE_S), self, function, *arguments)


def cast_bytes(value: Any) -> Any:
    """Returns `value`, which a message contains in place of bytes."""
    return value


def cast_any(value: Any) -> Any:
    return value


PERFORMERS: Final[dict[type, Callable[[Process, Any], None]]] = {
    act.Propose: lambda process, action: process._propose(action),
    act.ReadRegistry: lambda process, action: process._read_registry(action),
    act.EndProcess: lambda process, action: process._end(action),
    act.SendAnswer: lambda process, action: process._send_answer(action),
    act.SendRanges: lambda process, action: process._send_ranges(action),
    act.SendDigests: lambda process, action: process._send_digests(action),
    act.SendContents: lambda process, action: process._send_contents(action),
    act.KeepEpochs: lambda process, action: process._keep_epochs(action),
    act.OpenStore: lambda process, action: process._open_store(action),
    act.LiftVisible: lambda process, action: process._lift_visible(action),
    act.Serve: lambda process, action: process._serve(action),
    act.SendJoin: lambda process, action: process._send_join(action),
    act.SendRequest: lambda process, action: process._send_request(action),
    act.CutLogs: lambda process, action: process._cut_logs(action),
    act.StartFromNothing: lambda process, action: process._start_from_nothing(action),
    act.CompareState: lambda process, action: process._compare_state(action),
    act.WriteState: lambda process, action: process._write_state(action),
    act.Apply: lambda process, action: process._apply(action),
    act.Show: lambda process, action: process._show_ends(action),
    act.NoteUnreached: lambda process, action: process._note_unreached(action),
    act.ClearUnreached: lambda process, action: process._clear_unreached(action),
    act.Promote: lambda process, action: process._promote(action),
}
"""The method for each action. It is looked up when it is called, so that a mutant may replace it."""
