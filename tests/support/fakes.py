"""Stand-ins for the machine: a disk without waits, one that can be watched, and work that waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.moody_filesystem import MoodyFileSystem
from warren.storage import Log
from warren.storage.append.background_sync import Job

VERSIONS: Final = (1, 2)
QUICK_DISK: Final = MoodyFileSystem(really_syncs=False)


def quick_log(path: Path | str, **options: Any) -> Log:
    """Returns a log whose syncs cost nothing, for tests that are not about power cuts."""
    settings: dict[str, Any] = {"filesystem": QUICK_DISK, "durability": "os"}
    return Log.open(path, **settings | options)


class WatchedDisk(MoodyFileSystem):
    """Files of the operating system. `syncs` holds the name of each file that was synced, the latest last.

    `on_sync` is called with the path before each of them.
    """

    def __init__(self, on_sync: Callable[[str], None] = lambda path: None) -> None:
        super().__init__(really_syncs=False)
        self.syncs: list[str] = []
        self.on_sync = on_sync

    def before_sync(self, path: str) -> None:
        super().before_sync(path)
        self.syncs.append(os.path.basename(path))
        self.on_sync(path)

    def sync_directory(self, path: str) -> None:
        self.syncs.append(os.path.basename(path) + "/")


class WaitingJobs:
    """A Background that runs its jobs when the test calls `run`, in the order in which they came."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Job]] = []

    def schedule(self, delay_s: float, job: Job) -> None:
        self.waiting.append((delay_s, job))

    def run(self) -> None:
        jobs, self.waiting = self.waiting, []
        for _, job in jobs:
            job()
