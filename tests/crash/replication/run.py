"""One run of the simulation from one seed: faults for a few seconds, then none, and then the shard must recover.

`python -m tests.crash.replication.run [--seed N] [--runs N] [--seconds S]` runs seed after seed until it is stopped.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from tests.crash.replication.clients import Client
from tests.crash.replication.cluster import LOGS, TIMING, Cluster, Machine, Setup
from warren.replication.epochs import EPOCHS_MAX
from warren.replication.mastership import Promotion

FAULT_S: Final = (2.0, 4.5)
CONVERGE_S_MAX: Final = 12.0
"""Within this time after the last fault all replicas are equal and in the set, and a put is acknowledged."""
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
    "expire unseen": 6,
    "loss": 6,
    "hand over": 8,
    "swap disk": 3,
}


class Profile(NamedTuple):
    """Which faults happen most in a run. Some profiles make rare moments frequent."""

    faults: Mapping[str, int] = {}
    lost_chance: float = 0.1
    """The probability that an answer of the registry is lost."""
    read_share: float = 0.3
    lease_s: float = 0.5
    late_chance: float = 0.01
    """The probability that a message comes late, and the probability that it comes twice."""
    kill_chance: float = 0.0015
    """The probability that a process is killed between two actions."""
    replicas: Sequence[int] = (2, 3, 3, 3, 3, 4)
    """The number of replicas of a shard is drawn from these."""


PROFILES: Final[Mapping[str, Profile]] = {
    "mixed": Profile(),
    "registry": Profile({"cut from registry": 30, "kill": 30, "cut one way": 30}, lost_chance=0.4),
    # The master continues and does not know that its session is over, and a lease lasts longer than a promotion.
    "reads": Profile({"expire unseen": 150, "pause": 30}, read_share=0.5, lease_s=1.0),
    "late messages": Profile({"expire unseen": 150}, read_share=0.5, late_chance=0.2, replicas=(2,)),
    "disks": Profile({"power cut": 40, "kill": 40, "swap disk": 20}),
    "divergence": Profile({"kill": 30, "isolate": 40, "cut both ways": 30}, read_share=0.1, kill_chance=0.012),
}


class RunFailed(AssertionError):
    """An invariant does not hold. The seed and the profile are enough to repeat the run."""

    def __init__(self, seed: int, run: Run, error: BaseException) -> None:
        super().__init__(
            f"seed {seed}: {type(error).__name__}: {error}\n"
            f"{run.cluster.setup}, at {run.cluster.now:.3f} s, after {dict(run.cluster.counts)}\n"
            f"run it again with: python -m tests.crash.replication.run --seed {seed} --profile {run.profile} --runs 1"
        )
        self.seed = seed


class Run:
    """A shard, its clients and its faults, drawn from one seed."""

    def __init__(self, seed: int, profile: str | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        drawn = self.random.choice(list(PROFILES))
        self.profile = profile or drawn
        """A run is the same whether its profile is drawn or named."""
        chances = PROFILES[self.profile]
        self._faults = {**FAULTS, **chances.faults}
        self.cluster = Cluster(
            draw_setup(self.random, chances),
            self.random,
            lost_chance=chances.lost_chance,
            late_chance=chances.late_chance,
            read_share=chances.read_share,
            kill_chance=chances.kill_chance,
        )
        self._victim = self.random.choice(self.cluster.machines)
        """The only machine that loses power if acknowledgements are not on disk."""
        self._is_disk_swapped = False
        self._is_probe_answered = False

    def run(self) -> Counter[str]:
        """Returns how often each event happened. Raises RunFailed at the first invariant that does not hold."""
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
        # A fail-over may still come, if a session expires because of an earlier fault.
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
        return f"not recovered: {states}, {cluster.registry.state}, {cluster.checker.difference()}"

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
        (name,) = self.random.choices(list(self._faults), weights=list(self._faults.values()))
        seconds = self.random.choice((0.1, 0.4, 1.0, 2.5)) * self.random.uniform(0.5, 1.5)
        FAILURES[name](self, self._draw_machine(), seconds)

    def _draw_machine(self) -> Machine:
        """Returns a machine: mostly that of the master, because the protocol is about the death of a master."""
        machines, master = self.cluster.machines, self.cluster.registry.state.master
        if master is not None and self.random.random() < 0.5:
            return machines[master]
        return self.random.choice(machines)

    def _kill(self, machine: Machine, seconds: float) -> None:
        if machine.process is not None:
            self.cluster.kill(machine.process)

    def _cut_power(self, machine: Machine, seconds: float) -> None:
        self.cluster.cut_power(machine if self.cluster.setup.is_power_safe else self._victim)

    def _pause(self, machine: Machine, seconds: float) -> None:
        self.cluster.pause(machine, seconds)

    def _cut_one_way(self, machine: Machine, seconds: float) -> None:
        me, other = machine.replica, self._draw_other(machine)
        self._cut([self.random.choice(((me, other), (other, me)))], seconds)

    def _cut_both_ways(self, machine: Machine, seconds: float) -> None:
        me, other = machine.replica, self._draw_other(machine)
        self._cut([(me, other), (other, me)], seconds)

    def _isolate(self, machine: Machine, seconds: float) -> None:
        me, others = machine.replica, self._others(machine)
        self._cut([link for other in others for link in ((me, other), (other, me))], seconds)

    def _cut_from_registry(self, machine: Machine, seconds: float) -> None:
        self.cluster.cut_from_registry(machine)
        self.cluster.after(seconds, None, self.cluster.reconnect_to_registry, machine)

    def _stop_registry(self, machine: Machine, seconds: float) -> None:
        for each in self.cluster.machines:
            self._cut_from_registry(each, seconds)

    def _expire_session(self, machine: Machine, seconds: float) -> None:
        self.cluster.expire_session(machine)

    def _expire_unseen(self, machine: Machine, seconds: float) -> None:
        self._cut_from_registry(machine, seconds)
        self.cluster.expire_session(machine)

    def _lose_messages(self, machine: Machine, seconds: float) -> None:
        self.cluster.loss_chance = 0.2
        self.cluster.after(seconds, None, self._stop_loss)

    def _others(self, machine: Machine) -> list[int]:
        return [other.replica for other in self.cluster.machines if other is not machine]

    def _draw_other(self, machine: Machine) -> int:
        return self.random.choice(self._others(machine))

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

    def _hand_over(self, machine: Machine, seconds: float) -> None:
        process = machine.process
        is_running = process is not None and process.is_alive and machine.paused_until <= self.cluster.now
        if process is None or not is_running or process.master is None:
            return
        machine.now = self.cluster.now
        if process.master.hand_over_to(self._draw_other(machine), machine.steady()):
            self.cluster.counts["hand-over begun"] += 1
            process.perform(process.master.wake(machine.steady()))

    def _swap_disk(self, machine: Machine, seconds: float) -> None:
        """Replaces a disk by an empty one: once in a run, and only if the set always has another copy."""
        cluster = self.cluster
        setup = cluster.setup
        has_copies = setup.min_insync > 1 and setup.is_power_safe and setup.epochs_max == EPOCHS_MAX
        if self._is_disk_swapped or not has_copies:
            return
        self._is_disk_swapped = True
        cluster.counts["disk swapped"] += 1
        if machine.process is not None:
            cluster.kill(machine.process, is_power_cut=True)
        machine.disk.start_from_nothing(cluster.new_incarnation())


FAILURES: Final[Mapping[str, Callable[[Run, Machine, float], None]]] = {
    "kill": Run._kill,
    "power cut": Run._cut_power,
    "pause": Run._pause,
    "cut one way": Run._cut_one_way,
    "cut both ways": Run._cut_both_ways,
    "isolate": Run._isolate,
    "cut from registry": Run._cut_from_registry,
    "registry away": Run._stop_registry,
    "expire session": Run._expire_session,
    "expire unseen": Run._expire_unseen,
    "loss": Run._lose_messages,
    "hand over": Run._hand_over,
    "swap disk": Run._swap_disk,
}


def draw_setup(random: Random, chances: Profile) -> Setup:
    """Returns random settings: mostly three replicas, with every acknowledgement on disk."""
    is_power_safe = random.random() < 0.75
    count = random.choice(chances.replicas) if is_power_safe else 3
    min_insync = random.choice((1, 2)) if is_power_safe else 2
    return Setup(
        replicas=range(count),
        min_insync=min(min_insync, count),
        is_power_safe=is_power_safe,
        round_size_max=random.choice((300, 16 << 20)),
        timing=replace(TIMING, lease_s=chances.lease_s),
        epochs_max=2 if is_power_safe and random.random() < 0.15 else EPOCHS_MAX,
    )


def main() -> int:
    """Returns 0 if stopped or out of time, and 1 after the first broken promise, whose seed is printed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.replication.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31), help="the first seed; the next ones follow")
    parser.add_argument(
        "--profile", choices=PROFILES, default=None, help="which faults happen most; by default drawn from the seed"
    )
    parser.add_argument("--runs", type=int, default=sys.maxsize, help="stop after this number of runs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    options = parser.parse_args()
    started, counts = time.monotonic(), Counter[str]()
    try:
        for count, seed in enumerate(range(options.seed, options.seed + options.runs), 1):
            counts += Run(seed, options.profile).run()
            if time.monotonic() - started > options.seconds:
                break
            if count % 100 == 0:
                sys.stdout.write(f"\rseed {seed}: {count:,} runs, {counts['promotion']:,} fail-overs ")
                sys.stdout.flush()
    except RunFailed as error:
        sys.stdout.write(f"\n{error}\n")
        return 1
    except KeyboardInterrupt:
        pass
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
