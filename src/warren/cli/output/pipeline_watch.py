"""The progress of a running pipeline: one line in the terminal, or JSON for programs."""

from __future__ import annotations

import json
from typing import Self

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from warren.spark.pipelines.progress import Progress


class Line:
    """Shows the progress on one line of stderr if that is a terminal. The last line stays."""

    def __init__(self, name: str, console: Console) -> None:
        self._name, self._console = name, console
        self._live = Live(Text(""), console=console, transient=True, auto_refresh=False)
        self._last = Progress()

    def progress(self, progress: Progress) -> None:
        self._last = progress
        self._show(line(self._name, progress))

    def stopping(self) -> None:
        self._show(f"{self._name}: stopping after the running batch; Ctrl-C again stops immediately")

    def _show(self, text: str) -> None:
        if self._console.is_terminal:
            self._live.update(Text(text), refresh=True)

    def finish(self, end: str) -> None:
        """Writes the last line: the progress, and how the run ended."""
        self._console.print(Text(f"{line(self._name, self._last)}; {end}"), soft_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()


class JsonLines:
    """Writes a line of JSON to stdout for each batch."""

    def __init__(self, name: str) -> None:
        self._name = name

    def progress(self, progress: Progress) -> None:
        typer.echo(json.dumps({"pipeline": self._name} | progress.to_json()))

    def stopping(self) -> None:
        """Does nothing: a program sees the end of the process."""

    def finish(self, end: str) -> None:
        """Does nothing: the line of the last batch was the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def line(name: str, progress: Progress) -> str:
    """Returns the progress as one line for people."""
    if not progress.time:
        return f"{name}: nothing read"
    parts = [
        f"{progress.messages:,} {'message' if progress.messages == 1 else 'messages'}",
        f"{progress.messages_per_s:,.0f}/s",
        *([f"{progress.behind:,} behind"] if progress.behind is not None else []),
        f"batch {progress.batch} took {progress.batch_s:.1f} s",
    ]
    return f"{name}: {', '.join(parts)}"
