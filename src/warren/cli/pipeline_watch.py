"""How a pipeline that runs looks in the terminal: one line that says how far it came, or JSON for programs."""

from __future__ import annotations

import json
from typing import Self

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from warren.spark.pipelines.progress import Progress


class Line:
    """The progress of a pipeline on one line of stderr, where that is a terminal; what is left is its last word."""

    def __init__(self, name: str, console: Console) -> None:
        self._name, self._console = name, console
        self._live = Live(Text(""), console=console, transient=True, auto_refresh=False)
        self._last = Progress()

    def progress(self, progress: Progress) -> None:
        self._last = progress
        self._show(line(self._name, progress))

    def stopping(self) -> None:
        self._show(f"{self._name}: stops when the running batch is done; once more to stop at once")

    def _show(self, text: str) -> None:
        if self._console.is_terminal:
            self._live.update(Text(text), refresh=True)

    def finish(self, end: str) -> None:
        """The last word: how far it came, and how it ended."""
        self._console.print(Text(f"{line(self._name, self._last)}; {end}"), soft_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()


class JsonLines:
    """The progress of a pipeline as a line of JSON on stdout for each batch."""

    def __init__(self, name: str) -> None:
        self._name = name

    def progress(self, progress: Progress) -> None:
        typer.echo(json.dumps({"pipeline": self._name} | progress.to_json()))

    def stopping(self) -> None:
        """Programs see it in the end of the process."""

    def finish(self, end: str) -> None:
        """The last batch was the last word."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def line(name: str, progress: Progress) -> str:
    """How far it came, for a person."""
    if not progress.time:
        return f"{name}: nothing read"
    parts = [
        f"{progress.messages:,} {'message' if progress.messages == 1 else 'messages'}",
        f"{progress.messages_per_s:,.0f}/s",
        *([f"{progress.behind:,} behind"] if progress.behind is not None else []),
        f"batch {progress.batch} took {progress.batch_s:.1f} s",
    ]
    return f"{name}: {', '.join(parts)}"
