"""`python -m tests.soak`: the long runs, of processes with a store and then, for an hour, over the network.

With `--cluster`: of three replicas and an ensemble of ZooKeeper, which are killed, paused and cut off, and whose disks
and clocks fail.

Exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.soak.run import run

if TYPE_CHECKING:
    from tests.soak.network.run import Stretch

ROUND_S: Final = 120.0
CALM_SHARE: Final = 0.6
ALONE_SHARE: Final = 1 / 3
WAITS: Final = ("p50", "p99", "most")
ENDED_BY_SIGTERM: Final = 128 + signal.SIGTERM
CONSOLE: Final = Console(highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=None, help="how many processes are killed, 1000; or brokers per round, 6"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument(
        "--dir", type=Path, default=None, help="the directory of the store, which is kept; a temporary one"
    )
    parser.add_argument("--processes", action="store_true", help="only processes with a store, which are killed")
    parser.add_argument(
        "--broker", action="store_true", help="only clients of all kinds, a proxy and a broker that is killed"
    )
    parser.add_argument("--cluster", action="store_true", help="only a cluster of three replicas with a ZooKeeper")
    parser.add_argument(
        "--network",
        choices=("proxies", "namespaces"),
        default=None,
        help="of the cluster: what cuts it; namespaces if this user can make network namespaces, otherwise proxies",
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of the broker or the cluster: the length of the run"
    )
    parser.add_argument(
        "--rounds", type=int, default=None, help="of the broker: how many; by default of two minutes each"
    )
    parser.add_argument(
        "--alone",
        type=float,
        default=None,
        help="of the broker: the minutes of a last round without kills, out of all minutes; a third of them",
    )
    parser.add_argument("--calm", type=float, default=CALM_SHARE, help="of the broker: the share without kills")
    parser.add_argument("--pace", type=float, default=0.02, help="of the broker: seconds a client waits between steps")
    parser.add_argument("--durability", default="commit", help="of the broker: the durability of the topic")
    parser.add_argument("--hostile", action="store_true", help="of the broker: a client attacks it during the run")
    parser.add_argument(
        "--json", type=Path, default=None, help="of the broker or the cluster: the file for the figures"
    )
    arguments = parser.parse_args()
    CONSOLE.print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="warren-soak-") as temporary:
        directory = arguments.dir or Path(temporary)
        if arguments.cluster:
            return _run(directory / "cluster", of_cluster, arguments)
        is_all = arguments.processes == arguments.broker
        runs = {"processes": of_processes, "broker": over_network}
        chosen = {name: run for name, run in runs.items() if is_all or vars(arguments)[name]}
        return max(_run(directory / name, run, arguments) for name, run in chosen.items())


def _run(directory: Path, run: Callable[[Path, argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    return run(directory, arguments)


def of_processes(directory: Path, arguments: argparse.Namespace) -> int:
    total = arguments.kills or 1000
    with Progress(console=CONSOLE) as progress:
        task = progress.add_task("kills", total=total)
        outcome = run(directory, total, arguments.seed, lambda kills: progress.update(task, completed=kills))
        for path in sorted(directory.glob("*.error")):
            CONSOLE.print(path.name, path.read_text(), markup=False)
    for fault in outcome.faults:
        CONSOLE.print(f"[red]{fault.kind}[/]: {fault.detail}")
    CONSOLE.print(
        f"{outcome.kills} kills, {outcome.messages} messages, {outcome.events} events, {len(outcome.faults)} faults"
    )
    return 1 if outcome.faults else 0


def over_network(directory: Path, arguments: argparse.Namespace) -> int:
    # Imported here because the run of processes needs no client of Kafka.
    from tests.soak.network import run as network

    alone_s = 60 * (arguments.minutes * ALONE_SHARE if arguments.alone is None else arguments.alone)
    killing_s = max(0.0, arguments.minutes * 60 - alone_s)
    rounds = arguments.rounds or max(1, round(killing_s / ROUND_S))
    round_s = killing_s / rounds
    plan = network.Plan(
        kills=arguments.kills or 6,
        chaos_s=round_s * (1 - arguments.calm),
        calm_s=round_s * arguments.calm,
        pace_s=arguments.pace,
        durability=arguments.durability,
        is_attacked=arguments.hostile,
    )
    plans = [plan] * rounds + ([plan._replace(kills=1, chaos_s=1.0, calm_s=alone_s)] if alone_s else [])
    begun = time.monotonic()

    def show(number: int, what: str) -> None:
        CONSOLE.print(f"{time.monotonic() - begun:7.0f} s  round {number + 1} of {len(plans)}: {what}")

    outcome = network.run(directory, arguments.seed, plans=plans, progress=show)
    CONSOLE.print(table_of(outcome.stretches))
    for name, waits in (("without", outcome.calm), ("under", outcome.attacked)):
        if waits is not None:
            times = ", ".join(f"{what} {each * 1e3:.1f} ms" for what, each in zip(WAITS, waits[1:], strict=True))
            CONSOLE.print(f"The witness {name} attack: {waits.answers:,} answers, {times}")
    CONSOLE.print(f"The most memory that a broker ever took: {outcome.resident_max / 1e6:.0f} MB")
    for fault in outcome.faults[:100]:
        CONSOLE.print(fault.kind, fault.detail, markup=False)
    CONSOLE.print(
        f"{outcome.kills} kills, {outcome.messages:,} messages, {outcome.events:,} events, {outcome.outages:,} outages",
        f"connections {outcome.connections}, crashes of clients {outcome.crashes}",
        f"{len(outcome.faults)} faults in {time.monotonic() - begun:.0f} s",
        sep="; ",
    )
    if arguments.json is not None:
        facts = outcome._asdict() | {
            "calm": None if outcome.calm is None else outcome.calm._asdict(),
            "attacked": None if outcome.attacked is None else outcome.attacked._asdict(),
            "seed": arguments.seed,
            "seconds": time.monotonic() - begun,
            "stretches": [
                one._asdict() | {"middle": one.middle._asdict(), "last": one.last._asdict()}
                for one in outcome.stretches
            ],
        }
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    return 1 if outcome.faults else 0


def of_cluster(directory: Path, arguments: argparse.Namespace) -> int:
    # Imported here because the other runs need no ZooKeeper.
    from tests.soak.cluster.run import run as run_cluster

    # As Ctrl-C: the processes and the namespaces of the run must not outlive it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(ENDED_BY_SIGTERM))
    begun = time.monotonic()
    outcome = run_cluster(
        directory,
        arguments.minutes * 60,
        arguments.seed,
        network=arguments.network,
        progress=lambda what: CONSOLE.print(f"{time.monotonic() - begun:7.1f} s  {what}", markup=False),
    )
    for fault in outcome.faults[:100]:
        CONSOLE.print(fault.kind, fault.detail, markup=False)
    CONSOLE.print(
        f"{sum(outcome.nemeses.values())} faults of {len(outcome.nemeses)} kinds made, {outcome.fail_overs} fail-overs",
        f"network of {outcome.network}",
        f"{outcome.messages:,} messages, {outcome.events:,} events, {outcome.outages:,} outages",
        f"longest time without an acknowledged put of ours {outcome.longest_gap_s:.1f} s ({outcome.gap_kind})",
        f"longest step of a client {max(outcome.longest_steps_s.values()):.1f} s",
        f"{len(outcome.faults)} broken promises in {outcome.seconds:.0f} s",
        sep="; ",
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(outcome._asdict() | {"seed": arguments.seed}, indent=2) + "\n")
    return 1 if outcome.faults else 0


def table_of(stretches: Sequence[Stretch]) -> Table:
    table = Table(title="The broker, in times without kills")
    names = ("round", "seconds", "memory MB, middle", "at the end", "private MB, middle", "at the end")
    for name in (*names, "files, middle", "at the end", "threads"):
        table.add_column(name, justify="right")
    for one in stretches:
        usages = (one.middle.resident, one.last.resident, one.middle.private, one.last.private)
        sizes = [f"{size / 1e6:.1f}" for size in usages]
        files = (str(one.middle.files), str(one.last.files), str(one.last.threads))
        table.add_row(str(one.round_number + 1), f"{one.seconds:.0f}", *sizes, *files)
    return table


if __name__ == "__main__":
    sys.exit(main())
