"""Commands that run a job on Spark: their options, the session, Ctrl-C, and progress bars."""

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

from warren.cli.running.bar import progress_bars
from warren.errors import BadInput, WarrenError

MasterOption = Annotated[
    str | None, typer.Option(metavar="URL", help="The Spark master; by default Spark runs on this machine.")
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark. May be repeated.")
]
ArchiveOption = Annotated[
    str, typer.Option("--archive", "-a", metavar="DIRECTORY", help="The directory of the archive.")
]
ARCHIVE_DEFAULT = "archive"


@contextmanager
def running(name: str, master: str | None, conf: list[str] | None, *, is_quiet: bool) -> Iterator[Job]:
    """Starts Spark for one job and stops it afterwards. Ctrl-C cancels the job."""
    settings = spark_settings(conf)
    import warren.spark

    console = Console(stderr=True, highlight=False, quiet=is_quiet)
    with console.status("starting Spark"):
        spark = warren.spark.session(f"warren {name}", master, settings)
    interrupts = Interrupts(spark)
    try:
        with interrupts:
            yield Job(spark, console)
    except WarrenError:
        # The job failed because it was cancelled.
        if interrupts.is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        spark.stop()


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """Returns the settings of `--conf`. Raises BadInput if one is not NAME=VALUE."""
    settings = {}
    for text in conf or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadInput(f"--conf {text!r}: expected NAME=VALUE")
        settings[name] = value
    return settings


class Interrupts:
    """Handles Ctrl-C while Spark works: the first one cancels its jobs, the second one ends the program immediately.

    Without this, Spark's own handler interrupts a call into the JVM, and Python and Java both print long tracebacks.
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
        # In another thread: this thread may be in the middle of a call into the JVM, and has one connection for all
        # calls.
        threading.Thread(target=self._cancel, daemon=True).start()

    def _cancel(self) -> None:
        context = self._spark.sparkContext
        # Cancelled tasks must not be logged as errors.
        context.setLogLevel("OFF")
        if context.statusTracker().getActiveJobsIds():
            context.cancelAllJobs()
        else:
            _thread.interrupt_main()


class Job:
    """A Spark session, and the terminal that shows its progress."""

    def __init__(self, spark: Any, console: Console) -> None:
        self.spark, self._console = spark, console

    @contextmanager
    def bar(self, what: str) -> Iterator[StepBar]:
        """Shows a bar for one step on stderr if that is a terminal. It vanishes afterwards."""
        with progress_bars(self._console, is_transient=True) as progress:
            yield StepBar(progress, what)

    @contextmanager
    def status(self, what: str) -> Iterator[None]:
        """Shows a line for a step whose progress is not known."""
        with self._console.status(what):
            yield


class StepBar:
    """A bar that the job updates with the number done and the total."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress, self._task = progress, progress.add_task(what, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)
