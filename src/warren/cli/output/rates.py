"""Rates: counted work that is timed behind a progress bar, then shown as a row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rich.progress import Progress
from rich.table import Table

from warren.cli.output.tables import table
from warren.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate: `count` items in `seconds`."""

    what: str
    count: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / max(self.seconds, 1e-9)

    @property
    def microseconds_each(self) -> float:
        return self.seconds * 1e6 / max(self.count, 1)


class Stopwatch:
    """Times one stage after another, each behind its own bar, and keeps the rates. One thread."""

    def __init__(self, progress: Progress, clock: Clock) -> None:
        self._progress, self._clock = progress, clock
        self.rates: list[Rate] = []

    @contextmanager
    def stage(self, what: str, total: int) -> Iterator[Stage]:
        """Times the block. The block reports its progress to the stage."""
        stage = Stage(self._progress, what, total)
        start = self._clock.steady_s()
        yield stage
        seconds = self._clock.steady_s() - start
        stage.finish()
        self.rates.append(Rate(what=what, count=stage.count, seconds=seconds))

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Shows what the program waits for. The time does not become a rate."""
        task = self._progress.add_task(what, total=None, visible=True)
        yield
        self._progress.remove_task(task)


class Stage:
    """One bar that moves towards `total`, and the count of what was done."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)
        self.count = 0

    def advance(self, count: int) -> None:
        """Reports that `count` more items are done."""
        self.count += count
        self._progress.update(self._task, completed=self.count)

    def reach(self, count: int, total: int) -> None:
        """Reports that `count` of `total` items are done."""
        self.count = count
        self._progress.update(self._task, completed=count, total=total)

    def finish(self) -> None:
        """Fills the bar."""
        self._progress.update(self._task, total=self.count, completed=self.count)


def rates_json(rates: list[Rate]) -> list[dict[str, Any]]:
    """Returns the rates as JSON, one object each."""
    return [asdict(rate) | {"per_second": round(rate.per_second)} for rate in rates]


def rates_table(title: str, rates: list[Rate]) -> Table:
    """Returns a table with one rate in each row."""
    rows = table(title)
    rows.add_column("what")
    for name in ("messages", "seconds", "per second", "µs each"):
        rows.add_column(name, justify="right")
    for rate in rates:
        rows.add_row(
            rate.what,
            f"{rate.count:,}",
            f"{rate.seconds:.2f}",
            f"{rate.per_second:,.0f}",
            f"{rate.microseconds_each:,.2f}",
        )
    return rows
