"""Runs a function in tasks of Spark, once for each item of a list, and returns the results to the driver."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from warren.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.25
"""How often the driver checks the progress of tasks."""
CORES_DEFAULT: Final = 8
"""How many tasks are made if Spark does not report how many it can run."""
PYTHON_ERROR: Final = re.compile(r"[A-Za-z]\w*Error: ")
RESULT: Final = pa.schema([("result", pa.binary())])

T = TypeVar("T")
ShowProgress = Callable[[int, int], None]
"""Called with the number of messages that are done, and the total."""


class TaskFailed(SparkError):
    """A task of a job failed, and the job with it."""

    code = "task_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def run_tasks(spark: SparkSession, tasks: Sequence[T], work: Callable[[T], Iterable[bytes]]) -> list[bytes]:
    """Calls `work` once for each of `tasks`, each in a task of Spark, and returns all results.

    `work` is a function of a module, or a `partial` of one, so that workers that have Warren installed find it. If
    Spark retries a task, it is called again. Raises TaskFailed if a task fails permanently.
    """
    if not tasks:
        return []

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for result in work(tasks[index]):
                    yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], schema=RESULT)

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, "result binary")
    with failures_explained():
        return [bytes(row.result) for row in frame.collect()]


@contextmanager
def failures_explained() -> Iterator[None]:
    """Raises TaskFailed, with one sentence, for an error in a task or in a method that Spark calls."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise TaskFailed(_sentence(str(error))) from error
    except Py4JJavaError as error:
        # PySpark has no error class for some failures, such as a job that was cancelled.
        raise TaskFailed(_sentence(str(error.java_exception.getMessage()))) from error


def _sentence(text: str) -> str:
    """Returns the last Warren error in a Python traceback, otherwise its last error; the first line
    if there is none.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line.partition(": ")[2] for line in lines if line.startswith("warren.") and ": " in line]
    others = [line for line in lines if PYTHON_ERROR.match(line)]
    return [*lines[:1], *others[-1:], *ours[-1:]][-1] if lines else "Spark failed without a reason"


def cores_of(spark: SparkSession) -> int:
    """Returns how many tasks of the session run at the same time."""
    from pyspark.errors import PySparkException

    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except PySparkException:
        # Spark Connect does not report it.
        return CORES_DEFAULT


@contextmanager
def counted(spark: SparkSession, total: int, progress: ShowProgress | None) -> Iterator[None]:
    """Reports how many of `total` are done while jobs run inside the `with`, by the share of finished Spark tasks."""

    def look() -> None:
        assert progress is not None
        progress(round(total * _done_share(spark)), total)

    with watched(None if progress is None else look):
        yield
    if progress is not None:
        progress(total, total)


def _done_share(spark: SparkSession) -> float:
    """Returns the share of finished tasks in the jobs that run now; 0 with Spark Connect, which does not report it."""
    from pyspark.errors import PySparkException

    try:
        tracker = spark.sparkContext.statusTracker()
    except PySparkException:
        return 0.0
    jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    stages_now = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages_now) / max(1, sum(stage.numTasks for stage in stages_now))


@contextmanager
def watched(look: Callable[[], None] | None) -> Iterator[None]:
    """Calls `look` every POLL_S while the work inside the `with` runs, and once more at its end."""
    if look is None:
        yield
        return
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(POLL_S):
            look()

    thread = threading.Thread(target=watch, name="warren-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    look()
