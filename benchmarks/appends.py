"""Appending without waiting for the disk: one by one, and in batches of 1,000."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from benchmarks.bare import BareFile, packed_record, write_appending
from benchmarks.measure import Contestant, Row, at_least, rates
from benchmarks.workspace import BATCH, Contest, Workspace, insert, open_table
from warren.storage import Log


def one_by_one(workspace: Workspace) -> list[Row]:
    count, record = workspace.scale.appends, packed_record(workspace.bodies[0])
    contestants = [
        Contestant("bare write", count, lambda: write_appending(workspace.fresh("bare-write"), record, count)),
        Contestant("append, exclusive", count, lambda: append_all(workspace, count, exclusive=True)),
        Contestant("append", count, lambda: append_all(workspace, count, exclusive=False)),
    ]
    bare, exclusive, shared = rates(contestants, workspace.scale.rounds)
    return [
        Row(
            name="appends.single.exclusive",
            what="append one by one, os, exclusive",
            baseline=bare,
            measured=exclusive,
            bar=at_least(0.65),
        ),
        Row(
            name="appends.single.shared",
            what="append one by one, os, the lock taken for each",
            baseline=bare,
            measured=shared,
            bar=at_least(0.35),
        ),
    ]


def append_all(workspace: Workspace, count: int, *, exclusive: bool = False) -> float:
    """Returns the seconds of `count` appends to a fresh log."""
    with Log.open(workspace.fresh("appends"), durability="os", exclusive=exclusive) as log:
        append, body = log.append, workspace.bodies[0]
        start = perf_counter()
        for _ in range(count):
            append(body)
        return perf_counter() - start


def in_batches(workspace: Workspace) -> list[Row]:
    scale, bodies = workspace.scale, workspace.bodies
    tags = [f"tenant.{number}" for number in range(BATCH)]
    keys = [f"customer-{number}".encode() for number in range(BATCH)]
    bare_file = BareFile(workspace.fresh("bare-loop"), scale.batched, bodies[0])
    contestants = [
        Contestant("bare loop", scale.batched, bare_file.write),
        Contestant("append_many", scale.batched, _batches(workspace, lambda log: log.append_many(bodies))),
        Contestant(
            "append_many, own tags and keys",
            scale.batched,
            _batches(workspace, lambda log: log.append_many(bodies, tags=tags, keys=keys)),
        ),
        Contestant("SQLite executemany", scale.rows_inserted, lambda: _insert_all(workspace, scale.rows_inserted)),
    ]
    bare, plain, labelled, sqlite = rates(contestants, scale.rounds)
    what = "append_many by 1,000, os"
    return [
        Row(
            name="appends.batches.bodies",
            what=f"{what}, bodies alone",
            baseline=bare,
            measured=plain,
            bar=at_least(2.5),
        ),
        Row(
            name="appends.batches.sqlite",
            what=f"{what}, bodies alone",
            baseline=sqlite,
            measured=plain,
            bar=at_least(10),
        ),
        Row(
            name="appends.batches.labelled",
            what=f"{what}, each its own tag and key",
            baseline=bare,
            measured=labelled,
            bar=at_least(0.7),
        ),
    ]


def _batches(workspace: Workspace, append_batch: Callable[[Log], object]) -> Callable[[], float]:
    batch_count = workspace.scale.batched // BATCH

    def run() -> float:
        with Log.open(workspace.fresh("appends"), durability="os") as log:
            start = perf_counter()
            for _ in range(batch_count):
                append_batch(log)
            return perf_counter() - start

    return run


def _insert_all(workspace: Workspace, count: int) -> float:
    for suffix in ("-wal", "-shm"):
        workspace.fresh(f"inserts.db{suffix}")
    connection = open_table(workspace.fresh("inserts.db"))
    start = perf_counter()
    for _ in range(count // BATCH):
        insert(connection, workspace.bodies)
    seconds = perf_counter() - start
    connection.close()
    return seconds


CONTESTS: Final[Sequence[Contest]] = (Contest("appends.single", one_by_one), Contest("appends.batches", in_batches))
