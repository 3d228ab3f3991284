"""Appending with `commit`: one thread against the bare calls, and many threads that share their syncs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from benchmarks.bare import packed_record, write_synced
from benchmarks.counting import CountingFileSystem
from benchmarks.measure import Contestant, Figure, Row, at_least, at_most, rates, times
from benchmarks.workspace import Contest, Workspace
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem


def one_thread(workspace: Workspace) -> list[Row]:
    count, record = workspace.scale.commits, packed_record(workspace.bodies[0])
    contestants = [
        Contestant("pwrite + fdatasync", count, lambda: write_synced(workspace.fresh("bare-sync"), record, count)),
        Contestant("append, commit", count, lambda: append_synced(workspace, count)),
    ]
    bare, append = times(contestants, workspace.scale.rounds_synced)
    return [
        Row(
            name="commits.one",
            what="time of an append with commit, one thread",
            baseline=bare,
            measured=append,
            bar=at_most(1.5),
        )
    ]


def append_synced(workspace: Workspace, count: int) -> float:
    """Returns the seconds of `count` appends with `commit` from one thread."""
    with Log.open(workspace.fresh("commits")) as log:
        append, body = log.append, workspace.bodies[0]
        append(body)
        start = perf_counter()
        for _ in range(count):
            append(body)
        return perf_counter() - start


def many_threads(workspace: Workspace) -> list[Row]:
    scale = workspace.scale
    counts: list[float] = []

    def together() -> float:
        filesystem = CountingFileSystem()
        seconds = _append_together(workspace, filesystem)
        counts.append(filesystem.tally.syncs / (scale.threads * scale.commits_each))
        return seconds

    contestants = [
        Contestant("one thread", scale.commits, lambda: append_synced(workspace, scale.commits)),
        Contestant(f"{scale.threads} threads", scale.threads * scale.commits_each, together),
    ]
    one, many = rates(contestants, scale.rounds_synced)
    return [
        Row(
            name="commits.threads.rate",
            what=f"append with commit, {scale.threads} threads together",
            baseline=one,
            measured=many,
            bar=at_least(4),
        ),
        Row(
            name="commits.threads.syncs",
            what=f"syncs a message, {scale.threads} threads together",
            baseline=Figure(name="a sync each", value=1, unit="syncs"),
            measured=Figure(name="shared syncs", value=max(counts), unit="syncs", samples=counts),
            bar=at_most(0.1),
        ),
    ]


def _append_together(workspace: Workspace, filesystem: FileSystem) -> float:
    """Returns the seconds from the start of all threads until the last is done."""
    scale, body = workspace.scale, workspace.bodies[0]
    gate = threading.Barrier(scale.threads + 1)
    with Log.open(workspace.fresh("commits"), filesystem=filesystem) as log:

        def append_each() -> None:
            gate.wait()
            for _ in range(scale.commits_each):
                log.append(body)

        threads = [threading.Thread(target=append_each) for _ in range(scale.threads)]
        for thread in threads:
            thread.start()
        gate.wait()
        start = perf_counter()
        for thread in threads:
            thread.join()
        seconds = perf_counter() - start
        assert log.end == scale.threads * scale.commits_each
        return seconds


CONTESTS: Final[Sequence[Contest]] = (Contest("commits.one", one_thread), Contest("commits.threads", many_threads))
