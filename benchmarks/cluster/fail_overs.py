"""Fail-overs under load: the longest time without an acknowledgement when masters are killed, and hand over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import sleep
from typing import Final

from benchmarks.cluster.scale import runs_of, scale_of
from benchmarks.cluster.shard import Shard, shard
from benchmarks.cluster.witnesses import Witness, Witnessed, witnesses
from benchmarks.measure import Figure, Row, at_least, at_most
from benchmarks.workspace import Contest, Workspace

KILL_P50_S: Final = 1.5
KILL_MAX_S: Final = 4.0
HAND_OVER_S: Final = 0.7
SETTLED_S: Final = 0.5
"""How long the load runs before a fail-over and after it, when all replicas are in sync."""
NAMES: Final = {"our client": "client", "confluent-kafka": "kafka"}


def kill(shard: Shard) -> None:
    """Kills the process of the master, and waits until another replica leads."""
    epoch, master = shard.epoch, shard.all_in_sync()
    shard.kill_child(master.replica)
    shard.wait_for_epoch(epoch + 1)


def _repeated(workspace: Workspace, what: str, act: Callable[[Shard], None]) -> dict[str, list[Witnessed]]:
    """Lets masters fail over under load, and returns what each witness saw, by its name."""
    runs = runs_of(workspace, scale_of(workspace).fail_overs)
    with shard(workspace) as replicas, witnesses(replicas.addresses) as clients:
        reports: dict[str, list[Witnessed]] = {client.name: [] for client in clients}
        for run in range(runs):
            workspace.step(f"{what} {run + 1} of {runs}")
            replicas.all_in_sync()
            sleep(SETTLED_S)
            _ask(clients)
            act(replicas)
            # Until the replica that led is back: its return must hold no put up, either.
            replicas.all_in_sync()
            sleep(SETTLED_S)
            for client, report in zip(clients, _ask(clients), strict=True):
                reports[client.name].append(report)
        return reports


def _ask(clients: Sequence[Witness]) -> list[Witnessed]:
    return [client.ask() for client in clients]


def _allowed(seconds: float) -> Figure:
    return Figure(name="allowed", value=seconds, unit="s")


def _facts(reports: Sequence[Witnessed]) -> dict[str, float | int | str]:
    errors = [error for each in reports for error in each.errors]
    facts: dict[str, float | int | str] = {f"error {number}": error for number, error in enumerate(errors[:5], 1)}
    return {
        "puts": sum(each.acknowledged for each in reports),
        "failed": sum(each.failed for each in reports),
        **facts,
    }


def kills(workspace: Workspace) -> list[Row]:
    rows = []
    for name, reports in _repeated(workspace, "kill", kill).items():
        gaps, facts = [each.longest_s for each in reports], _facts(reports)
        what = f"kill -9 of the master under load, {len(gaps)} times: longest time without an acknowledgement, {name}"
        for part, pick, allowed_s in (("p50", median, KILL_P50_S), ("max", max, KILL_MAX_S)):
            figure = Figure(name=name, value=pick(gaps), unit="s", samples=gaps, facts=facts)
            row = f"cluster.kill.{NAMES[name]}.{part}"
            rows.append(
                Row(name=row, what=f"{what}, {part}", baseline=_allowed(allowed_s), measured=figure, bar=at_most(1))
            )
    return rows


def hand_overs(workspace: Workspace) -> list[Row]:
    rows = []
    for name, reports in _repeated(workspace, "hand-over", Shard.hand_over).items():
        gaps, facts = [each.longest_s for each in reports], _facts(reports)
        what = f"hand-over under load, {len(gaps)} times, {name}"
        row = f"cluster.hand_over.{NAMES[name]}"
        gap = Figure(name=name, value=max(gaps), unit="s", samples=gaps, facts=facts)
        acknowledged = sum(each.acknowledged for each in reports)
        put = acknowledged + sum(each.failed for each in reports)
        rows += [
            Row(
                name=f"{row}.gap",
                what=f"{what}: longest time without an acknowledgement",
                baseline=_allowed(HAND_OVER_S),
                measured=gap,
                bar=at_most(1),
            ),
            Row(
                name=f"{row}.errors",
                what=f"{what}: puts without an error",
                baseline=Figure(name="all puts", value=put, unit="puts"),
                measured=Figure(name=name, value=acknowledged, unit="puts", facts=facts),
                bar=at_least(1),
            ),
        ]
    return rows


CONTESTS: Final[Sequence[Contest]] = (
    Contest("cluster.kill", kills),
    Contest("cluster.hand_over", hand_overs),
)
