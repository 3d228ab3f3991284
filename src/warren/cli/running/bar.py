"""Progress bars on stderr, which appear only if that is a terminal."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from warren.clock import Clock

MOMENT_S: Final = 1.0
"""A put that takes less time shows no bar."""


class PutBar:
    """The bar of a put of `size` bytes; None means that the end is not known. For one thread."""

    def __init__(self, size: int | None, clock: Clock, *, is_shown: bool) -> None:
        console = Console(stderr=True, highlight=False)
        self._is_shown = is_shown and console.is_terminal
        self._clock, self._start_s = clock, clock.steady_s()
        self._progress = Progress(
            TextColumn("putting"),
            BarColumn(bar_width=24),
            DownloadColumn(binary_units=True),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=size)

    def advance(self, size: int) -> None:
        """Reports that another `size` bytes were put."""
        self._progress.advance(self._task, size)
        if self._is_shown and self._clock.steady_s() - self._start_s > MOMENT_S:
            self._progress.start()

    def finish(self) -> None:
        """Removes the bar from the screen."""
        if self._progress.live.is_started:
            self._progress.stop()


class CountColumn(ProgressColumn):
    """The count and the total; empty as long as the total is not known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:>9,.0f} of {task.total:,.0f}")


class RateColumn(ProgressColumn):
    """The rate per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def progress_bars(console: Console, *, is_transient: bool = False) -> Progress:
    """Returns bars for counted work, drawn only if the console is a terminal. Transient bars disappear at the end."""
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
