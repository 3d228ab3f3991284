"""Other queues on disk for Python, each with its defaults: one put after another of the same body.

persist-queue opens SQLite in WAL mode and leaves `synchronous` at FULL, so every put waits for one `fdatasync` of the
write-ahead log. litequeue and diskcache set NORMAL: a put is not synced, only an occasional checkpoint.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, Final

from benchmarks.appends import append_all
from benchmarks.commits import append_synced
from benchmarks.measure import Contestant, NotMeasured, Row, at_least, rates
from benchmarks.workspace import Contest, Workspace

Opener = Callable[[Path], tuple[Callable[[bytes], Any], Callable[[], Any]]]
"""Makes a queue at a path: how to put, and how to close."""


def synced(workspace: Workspace) -> list[Row]:
    persistqueue, count = installed("persistqueue"), workspace.scale.puts_synced

    def opener(kind: str) -> Opener:
        def make(path: Path) -> tuple[Callable[[bytes], Any], Callable[[], Any]]:
            queue = getattr(persistqueue, kind)(str(path), auto_commit=True)
            return queue.put, queue.close

        return make

    kinds = ("SQLiteQueue", "SQLiteAckQueue")
    contestants = [Contestant("append, commit", count, lambda: append_synced(workspace, count))]
    contestants += [
        Contestant(f"persist-queue {kind}", count, _putting(workspace, opener(kind), count)) for kind in kinds
    ]
    append, *others = rates(contestants, workspace.scale.rounds_synced)
    return [
        Row(
            name=f"rivals.synced.{kind}",
            what="append, commit; both sync each put",
            baseline=other,
            measured=append,
            bar=at_least(1),
        )
        for kind, other in zip(kinds, others, strict=True)
    ]


def unsynced(workspace: Workspace) -> list[Row]:
    litequeue, diskcache, scale = installed("litequeue"), installed("diskcache"), workspace.scale

    def open_lite(path: Path) -> tuple[Callable[[bytes], Any], Callable[[], Any]]:
        path.mkdir()
        queue = litequeue.LiteQueue(path / "queue.db")
        return queue.put, queue.close

    def open_deque(path: Path) -> tuple[Callable[[bytes], Any], Callable[[], Any]]:
        deque = diskcache.Deque(directory=str(path))
        return deque.append, deque.cache.close

    openers = {"litequeue": open_lite, "diskcache.Deque": open_deque}
    contestants = [Contestant("append, os", scale.puts_os, lambda: append_all(workspace, scale.puts_os))]
    contestants += [
        Contestant(name, scale.puts_unsynced, _putting(workspace, opener, scale.puts_unsynced))
        for name, opener in openers.items()
    ]
    append, *others = rates(contestants, scale.rounds)
    return [
        Row(
            name=f"rivals.unsynced.{name}",
            what="append, os; neither syncs each put",
            baseline=other,
            measured=append,
            bar=at_least(10),
        )
        for name, other in zip(openers, others, strict=True)
    ]


def installed(name: str) -> ModuleType:
    """Returns the module of another library. Raises NotMeasured if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotMeasured(f"{name} is not installed; the extra 'bench' brings it") from error


def _putting(workspace: Workspace, opener: Opener, count: int) -> Callable[[], float]:
    def run() -> float:
        put, close = opener(workspace.fresh("rival"))
        body = workspace.bodies[0]
        start = perf_counter()
        for _ in range(count):
            put(body)
        seconds = perf_counter() - start
        close()
        return seconds

    return run


CONTESTS: Final[Sequence[Contest]] = (Contest("rivals.synced", synced), Contest("rivals.unsynced", unsynced))
