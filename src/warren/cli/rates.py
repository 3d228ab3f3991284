"""How fast something went: counted and timed behind a progress bar, then shown as one row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from warren.cli.show import table
from warren.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`count` things done in `seconds`."""

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
    """Times one stage after another, each behind a bar of its own, and keeps the rates. One thread."""

    def __init__(self, progress: Progress, clock: Clock) -> None:
        self._progress, self._clock = progress, clock
        self.rates: list[Rate] = []

    @contextmanager
    def stage(self, what: str, total: int) -> Iterator[Stage]:
        """Time what happens within; how much it was is told to the stage."""
        stage = Stage(self._progress, what, total)
        start = self._clock.steady_s()
        yield stage
        seconds = self._clock.steady_s() - start
        stage.finish()
        self.rates.append(Rate(what=what, count=stage.count, seconds=seconds))

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say what is waited for; how long it takes is not a rate."""
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
        """Say that `count` more are done."""
        self.count += count
        self._progress.update(self._task, completed=self.count)

    def reach(self, count: int, total: int) -> None:
        """Say that `count` of `total` are done."""
        self.count = count
        self._progress.update(self._task, completed=count, total=total)

    def finish(self) -> None:
        """Fill the bar: what was done is all there was."""
        self._progress.update(self._task, total=self.count, completed=self.count)


class CountColumn(ProgressColumn):
    """How many are done, and of how many; empty as long as the total is not known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:>9,.0f} of {task.total:,.0f}")


class RateColumn(ProgressColumn):
    """How many are done in a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def progress_bars(console: Console, *, is_transient: bool = False) -> Progress:
    """Bars for counted work, drawn only if the console is a terminal. With `is_transient` they vanish at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        CountColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=is_transient,
        disable=not console.is_terminal,
    )


def rates_json(rates: list[Rate]) -> list[dict[str, Any]]:
    """The rates for programs, one object each."""
    return [asdict(rate) | {"per_second": round(rate.per_second)} for rate in rates]


def rates_table(title: str, rates: list[Rate]) -> Table:
    """The rates, one a row."""
    found = table(title)
    found.add_column("what")
    for name in ("messages", "seconds", "a second", "µs each"):
        found.add_column(name, justify="right")
    for rate in rates:
        found.add_row(
            rate.what,
            f"{rate.count:,}",
            f"{rate.seconds:.2f}",
            f"{rate.per_second:,.0f}",
            f"{rate.microseconds_each:,.2f}",
        )
    return found
