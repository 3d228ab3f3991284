"""Background work that runs when a test starts it, or never, if the power is cut before."""

from __future__ import annotations

from collections.abc import Callable


class SimulatedBackground:
    """Keeps the jobs in order until `run` runs them. A crash drops them with the process."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def schedule(self, delay_s: float, job: Callable[[], None]) -> None:
        self._jobs.append(job)

    def run(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job()

    def forget(self) -> None:
        self._jobs.clear()
