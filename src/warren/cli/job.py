"""What the commands that run a job on Spark share: the session, and a bar that says how far the job has come."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from warren.cli.rates import progress_bars
from warren.errors import BadInput, WarrenError

MasterOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Where Spark runs; on this machine, if none is given.")
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's. May be repeated.")
]
ArchiveOption = Annotated[
    str, typer.Option("--archive", "-a", metavar="DIRECTORY", help="The directory of the archive.")
]
ARCHIVE_DEFAULT = "archive"


@contextmanager
def running(name: str, master: str | None, conf: list[str] | None, *, is_quiet: bool) -> Iterator[Job]:
    """A job on Spark, which is started for it and stopped after it. Ctrl-C ends it, and leaves nothing of it."""
    settings = _settings(conf or [])
    import warren.spark

    console = Console(stderr=True, highlight=False, quiet=is_quiet)
    with console.status("starting Spark"):
        spark = warren.spark.session(f"warren {name}", master, settings)
    interrupts = Interrupts(spark)
    try:
        with interrupts:
            yield Job(spark, console)
    except WarrenError:
        # What failed did so because it was to stop.
        if interrupts.is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        spark.stop()


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadInput(f"--conf {text!r}: expected NAME=VALUE")
        settings[name] = value
    return settings


class Interrupts:
    """Ctrl-C while Spark works: its jobs are called off, and whoever waits for them is told; a second one ends at once.

    Without this Spark's own handler breaks off a call into the JVM, and both sides complain about the other at length.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self.is_interrupted = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_interrupted or not hasattr(self._spark, "_jsparkSession"):
            raise KeyboardInterrupt
        self.is_interrupted = True
        # Not in this thread: it may be in the middle of a call into the JVM, and has one connection for all of them.
        threading.Thread(target=self._call_off, daemon=True).start()

    def _call_off(self) -> None:
        context = self._spark.sparkContext
        # Tasks that are called off are no errors.
        context.setLogLevel("OFF")
        if context.statusTracker().getActiveJobsIds():
            context.cancelAllJobs()
        else:
            _thread.interrupt_main()


class Job:
    """A session of Spark, and the terminal that shows how far its work has come."""

    def __init__(self, spark: Any, console: Console) -> None:
        self.spark, self._console = spark, console

    @contextmanager
    def bar(self, what: str) -> Iterator[Bar]:
        """A bar for one step, on stderr where that is a terminal, and gone after it."""
        with progress_bars(self._console, is_transient=True) as progress:
            yield Bar(progress, what)

    @contextmanager
    def status(self, what: str) -> Iterator[None]:
        """A line for a step of which nobody knows how far it is."""
        with self._console.status(what):
            yield


class Bar:
    """Told how many of how many are done."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress, self._task = progress, progress.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)
