"""A simulated shard: machines, processes, a network, a registry and clients in one thread, with simulated time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from tests.crash.replication.checker import Checker
from tests.crash.replication.disk import ReplicaDisk
from tests.crash.replication.process import Process
from tests.crash.replication.registry import SimulatedRegistry
from warren.replication.shard_state import Identity, Proposal, ProposalOutcome
from warren.replication.time_limits import TimeLimits

TIMING: Final = TimeLimits(
    lease_s=0.5, lag_s=0.8, answer_s=0.3, retry_s=0.1, turn_s=0.12, unreached_s=0.9, ends_s=0.03, refuse_s=0.5
)
"""Shorter than the real ones, and in about the same proportions, so that more happens in a run."""
SESSION_S: Final = 1.2
REGISTRY_ANSWER_S: Final = 0.3
"""How long a process waits for an answer of the registry before the outcome counts as unknown."""
LOGS: Final = ("orders", "ledger")
FILES: Final = ("settings.json", "group.reader")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a shard: its replicas, and what its acknowledgements promise."""

    replicas: Sequence[int]
    min_insync: int
    is_power_safe: bool
    """Whether every acknowledgement is on disk. If not, a machine that loses power cannot lead."""
    round_size_max: int
    timing: TimeLimits
    epochs_max: int
    """How many epochs a replica remembers. If they are few, some replicas have none in common."""


class Machine:
    """One machine: a disk, a steady clock with its own rate, and at most one process."""

    def __init__(self, replica: int, incarnation: str, random: Random) -> None:
        self.replica = replica
        self.disk = ReplicaDisk(incarnation)
        self.boot = f"boot {replica}.0"
        self.process: Process | None = None
        self.paused_until = 0.0
        self.is_cut_from_registry = False
        self.contact_lost_at: float | None = None
        self.now = 0.0
        # Two clocks differ by at most 2 %.
        self._rate = random.uniform(0.9901, 1.0099)
        self._offset = random.uniform(0, 1000)

    def steady(self) -> float:
        return self._offset + self.now * self._rate

    def true_time(self, steady: float) -> float:
        """Returns a time at which this clock has certainly reached `steady`."""
        return (steady - self._offset) / self._rate + 1e-6


class Cluster:
    """The simulation. Everything that happens is an event with a time; the seed decides what happens when."""

    def __init__(
        self,
        setup: Setup,
        random: Random,
        *,
        lost_chance: float,
        late_chance: float,
        read_share: float,
        kill_chance: float,
    ) -> None:
        self.setup, self.random = setup, random
        self.lost_chance, self.late_chance, self.read_share = lost_chance, late_chance, read_share
        self.kill_chance = kill_chance
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.is_faulty = True
        self.cut_links: Counter[tuple[int, int]] = Counter()
        self.loss_chance = 0.0
        self.step_count = 0
        self._incarnations = 0
        self._nonces = 0
        self._order = 0
        self._events: list[tuple[float, int, Process | None, Callable[..., object], tuple[Any, ...]]] = []
        self.machines = [Machine(replica, self.new_incarnation(), random) for replica in setup.replicas]
        for machine in self.machines:
            machine.disk.logs = {log: [] for log in LOGS}
        members = frozenset(Identity(each.replica, each.disk.incarnation, each.boot) for each in self.machines)
        self.registry = SimulatedRegistry(members, self._registry_changed)
        self.checker = Checker(self)
        self._looking: set[Process] = set()
        for machine in self.machines:
            self.start_process(machine)

    def new_incarnation(self) -> str:
        self._incarnations += 1
        return f"disk {self._incarnations}"

    # Time.

    def at(self, time: float, process: Process | None, function: Callable[..., object], *arguments: Any) -> None:
        """Calls `function` at a time. If it belongs to a process: only if that is alive, and not while it is paused."""
        self._order += 1
        heappush(self._events, (time, self._order, process, function, arguments))

    def after(self, delay: float, process: Process | None, function: Callable[..., object], *arguments: Any) -> None:
        self.at(self.now + delay, process, function, *arguments)

    def run_until(self, end: float, is_enough: Callable[[], bool] | None = None) -> bool:
        """Lets time pass until `end`, or until `is_enough` returns True. Returns whether it did."""
        events = self._events
        next_check = self.now
        while events and events[0][0] <= end:
            time, order, process, function, arguments = heappop(events)
            self.now = max(self.now, time)
            if process is not None:
                machine = process.machine
                if not process.is_alive:
                    continue
                if machine.paused_until > self.now:
                    # All events during the pause, timers too, happen after it, in their order.
                    heappush(events, (machine.paused_until, order, process, function, arguments))
                    continue
                machine.now = self.now
            self.step_count += 1
            function(*arguments)
            if is_enough is not None and self.now >= next_check:
                if is_enough():
                    return True
                next_check = self.now + 0.1
        self.now = end
        return False

    # Processes.

    def start_process(self, machine: Machine) -> None:
        if machine.process is not None and machine.process.is_alive:
            return
        self._nonces += 1
        machine.now = self.now
        machine.process = Process(self, machine, f"process {self._nonces}")
        machine.process.start()

    def kill(self, process: Process, *, is_power_cut: bool = False) -> None:
        """Ends a process. Its parent starts it again, and in some cases deletes its node before its session expires."""
        if not process.is_alive:
            return
        process.is_alive = False
        random, machine = self.random, process.machine
        if machine.process is not process:
            return
        self._lose_contact(machine, process)
        if not is_power_cut and not machine.is_cut_from_registry and random.random() < 0.6:
            delay = random.uniform(0.01, 0.1)
            self.after(delay, None, lambda: self.registry.expire(machine.replica, process.nonce, is_dead=True))
        self.after(random.choice((0.05, 0.2, 0.8)) * random.uniform(0.5, 1.5), None, self.start_process, machine)

    def cut_power(self, machine: Machine) -> None:
        self.counts["power cut"] += 1
        if machine.process is not None:
            self.kill(machine.process, is_power_cut=True)
        machine.disk.lose_power(self.random)
        machine.boot = f"boot {machine.replica}.{self.random.getrandbits(32)}"
        self.checker.check_members()

    # The network between replicas.

    def send(self, sender: int, receiver: int, message: Any) -> None:
        random = self.random
        if self.cut_links[sender, receiver]:
            return
        if self.loss_chance and random.random() < self.loss_chance:
            return
        delay = random.uniform(0.001, 0.012)
        if self.is_faulty:
            draw = random.random()
            if draw < self.late_chance:
                delay += random.uniform(0, 1.5)
            elif draw < 2 * self.late_chance:
                self.after(delay + random.uniform(0, 0.5), None, self._deliver, sender, receiver, message)
        self.after(delay, None, self._deliver, sender, receiver, message)

    def _deliver(self, sender: int, receiver: int, message: Any) -> None:
        process = self.machines[receiver].process
        if process is None or not process.is_alive:
            return
        if process.machine.paused_until > self.now:
            self.at(process.machine.paused_until, process, process.receive, message, sender)
            return
        process.machine.now = self.now
        process.receive(message, sender)

    # The registry.

    def connect_session(self, process: Process) -> None:
        """Makes the node of a process as soon as the registry can be reached, and then reads the registry."""
        machine = process.machine
        if machine.is_cut_from_registry:
            self.after(0.2, process, self.connect_session, process)
            return
        machine.contact_lost_at = None
        self.registry.register(machine.replica, process.nonce)
        self.note_unreached(process)
        self.look(process)

    def note_unreached(self, process: Process) -> None:
        replica = process.machine.replica
        is_connected = not process.machine.is_cut_from_registry
        is_registered = self.registry.nodes.get(replica) == process.nonce
        if is_connected and is_registered and self.registry.unreached.get(replica) != process.unreached:
            self.registry.note_unreached(replica, process.unreached)

    def look(self, process: Process) -> None:
        """Lets a process read the registry soon. Requests that come before the read share it."""
        if process in self._looking or process.machine.is_cut_from_registry:
            return
        self._looking.add(process)
        self.after(self.random.uniform(0.002, 0.02), process, self._read_registry, process)

    def _read_registry(self, process: Process) -> None:
        self._looking.discard(process)
        machine = process.machine
        if machine.is_cut_from_registry:
            return
        is_registered = self.registry.nodes.get(machine.replica) == process.nonce
        if not is_registered and process.slave is not None:
            # A slave whose session has expired opens another one.
            self.connect_session(process)
            return
        process.see()

    def _registry_changed(self) -> None:
        for machine in self.machines:
            if machine.process is not None and machine.process.is_alive:
                self.look(machine.process)

    def propose(self, process: Process, proposal: Proposal, own_node: tuple[int, str] | None) -> None:
        """Sends a compare-and-set. The request or its answer may be lost, and a request may arrive late."""
        random = self.random
        is_of_master = process.master is not None
        due = self.now + REGISTRY_ANSWER_S
        draw = random.random() if self.is_faulty else 1.0
        if process.machine.is_cut_from_registry or draw < self.lost_chance / 2:
            self.at(due, process, process.outcome, ProposalOutcome.UNKNOWN, is_of_master)
            return
        is_answer_lost = draw < self.lost_chance * 1.5
        delay = random.uniform(0.002, 0.02)
        if is_answer_lost:
            delay = random.choice((delay, random.uniform(0, 1.5)))
            self.at(due, process, process.outcome, ProposalOutcome.UNKNOWN, is_of_master)
            self.after(delay, None, self._write, proposal, own_node)
        else:
            self.after(delay, None, self._write_and_answer, process, proposal, own_node, is_of_master)

    def _write(self, proposal: Proposal, own_node: tuple[int, str] | None) -> ProposalOutcome:
        before = self.registry.state
        outcome = self.registry.write(proposal, own_node)
        if outcome is ProposalOutcome.DONE:
            self._count_change(len(before.insync), len(proposal.state.insync))
            self.checker.proposal_applied(self.setup.min_insync)
        return outcome

    def _write_and_answer(
        self, process: Process, proposal: Proposal, own_node: tuple[int, str] | None, is_of_master: bool
    ) -> None:
        outcome = self._write(proposal, own_node)
        if process.machine.is_cut_from_registry:
            outcome = ProposalOutcome.UNKNOWN
        self.after(self.random.uniform(0.002, 0.02), process, process.outcome, outcome, is_of_master)

    def _count_change(self, before: int, after: int) -> None:
        if after != before:
            self.counts["set grown" if after > before else "set shrunk"] += 1

    # Faults.

    def pause(self, machine: Machine, seconds: float) -> None:
        self.counts["pause"] += 1
        machine.paused_until = max(machine.paused_until, self.now + seconds)
        if machine.process is not None:
            self._lose_contact(machine, machine.process)
            self.at(machine.paused_until + 0.01, machine.process, self._regain_contact, machine)

    def cut_from_registry(self, machine: Machine) -> None:
        machine.is_cut_from_registry = True
        if machine.process is not None:
            self._lose_contact(machine, machine.process)

    def reconnect_to_registry(self, machine: Machine) -> None:
        machine.is_cut_from_registry = False
        self._regain_contact(machine)

    def expire_session(self, machine: Machine) -> None:
        if machine.process is not None:
            self.counts["session expired"] += 1
            self.registry.expire(machine.replica, machine.process.nonce)

    def _lose_contact(self, machine: Machine, process: Process) -> None:
        if machine.contact_lost_at is None:
            machine.contact_lost_at = self.now
        self.after(SESSION_S, None, self._expire_if_silent, machine, process)

    def _expire_if_silent(self, machine: Machine, process: Process) -> None:
        is_gone = not process.is_alive or machine.process is not process
        lost_at = machine.contact_lost_at
        is_silent = is_gone or (lost_at is not None and self.now >= lost_at + SESSION_S - 1e-9)
        if is_silent and self.registry.nodes.get(machine.replica) == process.nonce:
            self.counts["session expired"] += 1
            self.registry.expire(machine.replica, process.nonce)

    def _regain_contact(self, machine: Machine) -> None:
        process = machine.process
        if machine.is_cut_from_registry or machine.paused_until > self.now or process is None or not process.is_alive:
            return
        machine.contact_lost_at = None
        self.note_unreached(process)
        self.look(process)

    def heal(self) -> None:
        """Ends all faults. Processes that have ended are started again by their own events."""
        self.is_faulty = False
        self.loss_chance = 0.0
        self.cut_links.clear()
        for machine in self.machines:
            if machine.is_cut_from_registry:
                self.reconnect_to_registry(machine)
