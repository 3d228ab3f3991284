"""Background work, such as the sync of durability `interval`: one thread of the process runs the jobs."""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
from collections.abc import Callable
from typing import Protocol

from warren.clock import SYSTEM_CLOCK, Clock
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

Job = Callable[[], None]


class BackgroundSync(Protocol):
    """Runs a job once, at least `delay_s` seconds from now. A job must not raise."""

    def schedule(self, delay_s: float, job: Job) -> None: ...


class AtOnce:
    """Runs each job immediately, without a thread. For file systems other than those of the machine."""

    def schedule(self, delay_s: float, job: Job) -> None:
        job()


class BackgroundThread:
    """A daemon thread that starts with the first job. Any thread may schedule."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._reset()

    def _reset(self) -> None:
        self._jobs: list[tuple[float, int, Job]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def schedule(self, delay_s: float, job: Job) -> None:
        with self._changed:
            heapq.heappush(self._jobs, (self._clock.steady_s() + delay_s, next(self._order), job))
            if self._thread is None:
                state = self._clock, self._changed, self._jobs
                self._thread = threading.Thread(target=self._run, args=state, name="warren-background", daemon=True)
                self._thread.start()
            self._changed.notify()

    @staticmethod
    def _run(clock: Clock, changed: threading.Condition, jobs: list[tuple[float, int, Job]]) -> None:
        while True:
            with changed:
                while not jobs:
                    changed.wait()
                due, _, job = jobs[0]
                delay_s = due - clock.steady_s()
                if delay_s > 0:
                    changed.wait(delay_s)
                    continue
                heapq.heappop(jobs)
            job()

    def after_fork(self) -> None:
        """Resets the child of a fork, which has neither the threads nor the jobs of its parent."""
        self._reset()


@functools.cache
def process_background() -> BackgroundThread:
    """Returns the background thread of this process."""
    background = BackgroundThread(SYSTEM_CLOCK)
    os.register_at_fork(after_in_child=background.after_fork)
    return background


def background_of(filesystem: FileSystem) -> BackgroundSync:
    """Returns what syncs the files of this file system in the background."""
    shipping = filesystem.shipping
    is_of_machine = filesystem is SYSTEM_FILE_SYSTEM or (shipping is not None and shipping.is_of_machine)
    return process_background() if is_of_machine else AtOnce()
