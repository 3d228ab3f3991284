"""One run of the simulation from one seed: faults for a few seconds, then healing, then everything must be well."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from tests.crash.replication.clients import Client
from tests.crash.replication.cluster import LOGS, Cluster, Machine, Setup
from warren.replication.mastership import Promotion

FAULT_S: Final = (2.0, 4.5)
CONVERGE_S_MAX: Final = 12.0
"""So long after the last fault all replicas are equal and in the set, and a put is acknowledged."""
FAULTS: Final = {
    "kill": 22,
    "power cut": 12,
    "pause": 16,
    "cut one way": 10,
    "cut both ways": 8,
    "isolate": 8,
    "cut from registry": 14,
    "registry away": 4,
    "expire session": 8,
    "loss": 6,
    "hand over": 8,
    "swap disk": 3,
}


class RunFailed(AssertionError):
    """An invariant does not hold. The seed is all that is needed to see it again."""

    def __init__(self, seed: int, run: Run, error: BaseException) -> None:
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"{run.cluster.setup}, at {run.cluster.now:.3f} s, after {dict(run.cluster.counts)}\n"
            f"run it again with: python -m tests.crash.replication.run --seed {seed} --runs 1"
        )
        self.seed = seed


class Run:
    """A shard, its clients and its faults, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.cluster = Cluster(draw_setup(self.random), self.random)
        self._victim = self.random.choice(self.cluster.machines)
        """The only machine that loses power, if acknowledgements are not on disk."""
        self._is_disk_swapped = False
        self._is_probe_answered = False

    def run(self) -> Counter[str]:
        """Raises RunFailed at the first invariant that does not hold. Returns how often what happened."""
        try:
            self._run()
        except Exception as error:
            raise RunFailed(self.seed, self, error) from error
        return self.cluster.counts

    def _run(self) -> None:
        cluster, random = self.cluster, self.random
        clients = [Client(cluster) for _ in range(random.choice((1, 2, 3)))]
        end = random.uniform(*FAULT_S)
        for _ in range(random.randint(2, 7)):
            cluster.at(random.uniform(0.2, end), None, self._fail)
        cluster.run_until(end)
        for client in clients:
            client.is_stopped = True
        cluster.heal()
        assert cluster.run_until(end + CONVERGE_S_MAX, self._is_converged), self._unrest()
        # A fail-over may still be under way, if a session runs out that a fault has silenced.
        self._probe()
        assert cluster.run_until(cluster.now + CONVERGE_S_MAX, lambda: self._is_probe_answered), self._unrest()
        cluster.checker.check_members()

    def _is_converged(self) -> bool:
        cluster = self.cluster
        processes = [each.process for each in cluster.machines if each.process and each.process.is_alive]
        masters = [process.master for process in processes if process.master]
        if len(masters) != 1 or masters[0].promotion is not Promotion.SERVING:
            return False
        insync = cluster.registry.state.insync
        is_complete = {(each.replica, each.disk.incarnation, each.boot) for each in cluster.machines} == insync
        return is_complete and masters[0].barriers.is_all_done and cluster.checker.difference() is None

    def _unrest(self) -> str:
        cluster = self.cluster
        roles = [each.process and (each.process.master or each.process.slave) for each in cluster.machines]
        states = [getattr(role, "promotion", None) or getattr(role, "state", None) for role in roles]
        return f"no rest: {states}, {cluster.registry.state}, {cluster.checker.difference()}"

    def _probe(self) -> None:
        def answered() -> None:
            self._is_probe_answered = True

        for machine in self.cluster.machines:
            if machine.process is not None and machine.process.is_alive and machine.process.master is not None:
                machine.now = self.cluster.now
                machine.process.put(LOGS[0], self.random.getrandbits(48), answered)
        if not self._is_probe_answered:
            self.cluster.after(0.3, None, self._probe)

    def _fail(self) -> None:
        if not self.cluster.is_faulty:
            return
        (name,) = self.random.choices(list(FAULTS), weights=list(FAULTS.values()))
        machine = self._draw_machine()
        self._carry_out(name, machine)

    def _draw_machine(self) -> Machine:
        """Mostly the master's: its death is what the protocol is about."""
        machines, master = self.cluster.machines, self.cluster.registry.state.master
        if master is not None and self.random.random() < 0.5:
            return machines[master]
        return self.random.choice(machines)

    def _carry_out(self, name: str, machine: Machine) -> None:
        cluster, random = self.cluster, self.random
        seconds = random.choice((0.1, 0.4, 1.0, 2.5)) * random.uniform(0.5, 1.5)
        others = [other.replica for other in cluster.machines if other is not machine]
        me = machine.replica
        match name:
            case "kill":
                if machine.process is not None:
                    cluster.kill(machine.process)
            case "power cut":
                cluster.cut_power(machine if cluster.setup.is_power_safe else self._victim)
            case "pause":
                cluster.pause(machine, seconds)
            case "cut one way":
                other = random.choice(others)
                self._cut([random.choice(((me, other), (other, me)))], seconds)
            case "cut both ways":
                other = random.choice(others)
                self._cut([(me, other), (other, me)], seconds)
            case "isolate":
                self._cut([pair for other in others for pair in ((me, other), (other, me))], seconds)
            case "cut from registry":
                cluster.cut_from_registry(machine)
                cluster.after(seconds, None, cluster.reconnect_to_registry, machine)
            case "registry away":
                for each in cluster.machines:
                    cluster.cut_from_registry(each)
                    cluster.after(seconds, None, cluster.reconnect_to_registry, each)
            case "expire session":
                cluster.expire_session(machine)
            case "loss":
                cluster.loss_chance = 0.2
                cluster.after(seconds, None, self._stop_loss)
            case "hand over":
                self._hand_over()
            case "swap disk":
                self._swap_disk(machine)

    def _cut(self, links: list[tuple[int, int]], seconds: float) -> None:
        cluster = self.cluster
        cluster.counts["network cut"] += 1
        for link in links:
            cluster.cut_links[link] += 1
            cluster.after(seconds, None, self._mend, link)

    def _mend(self, link: tuple[int, int]) -> None:
        if self.cluster.cut_links[link]:
            self.cluster.cut_links[link] -= 1

    def _stop_loss(self) -> None:
        self.cluster.loss_chance = 0.0

    def _hand_over(self) -> None:
        for machine in self.cluster.machines:
            process = machine.process
            if process is not None and process.is_alive and process.master is not None:
                if machine.paused_until > self.cluster.now:
                    continue
                machine.now = self.cluster.now
                target = self.random.choice(self.cluster.setup.replicas)
                if process.master.hand_over_to(target, machine.steady()):
                    self.cluster.counts["hand-over begun"] += 1
                    process.perform(process.master.wake(machine.steady()))

    def _swap_disk(self, machine: Machine) -> None:
        """A disk dies and is replaced by an empty one: once in a run, and only if the set always has another copy."""
        cluster = self.cluster
        if self._is_disk_swapped or cluster.setup.min_insync < 2 or not cluster.setup.is_power_safe:
            return
        self._is_disk_swapped = True
        cluster.counts["disk swapped"] += 1
        if machine.process is not None:
            cluster.kill(machine.process, is_power_cut=True)
        machine.disk.start_from_nothing(cluster.new_incarnation())


def draw_setup(random: Random) -> Setup:
    """Mostly three replicas, of which two are enough, with everything on disk."""
    is_power_safe = random.random() < 0.75
    count = random.choice((2, 3, 3, 3, 3, 4)) if is_power_safe else 3
    min_insync = random.choice((1, 2)) if is_power_safe else 2
    return Setup(
        replicas=range(count),
        min_insync=min(min_insync, count),
        is_power_safe=is_power_safe,
        round_size_max=random.choice((300, 16 << 20)),
    )
