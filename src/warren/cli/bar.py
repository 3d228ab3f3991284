"""How far a long put has come: a bar on stderr, where that is a terminal, once it takes longer than a moment."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from warren.clock import Clock

MOMENT_S: Final = 1.0
"""What is done sooner needs no bar."""


class Bar:
    """A bar that moves towards `size` bytes; without an end where that is None. One thread."""

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
        """Another `size` bytes were put."""
        self._progress.advance(self._task, size)
        if self._is_shown and self._clock.steady_s() - self._start_s > MOMENT_S:
            self._progress.start()

    def finish(self) -> None:
        """Take the bar off the screen, if it was on it."""
        if self._progress.live.is_started:
            self._progress.stop()
