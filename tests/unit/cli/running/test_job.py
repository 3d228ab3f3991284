"""Jobs on Spark: the report of a failure, the progress, and the effect of Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import warren.spark
from warren.cli.running.job import running
from warren.errors import BadInput
from warren.spark.runtime.tasks import TaskFailed, _sentence, counted, watched


class FakeContext:
    """A SparkContext with one job of two stages, or none, that can be cancelled."""

    def __init__(self, *, is_working: bool) -> None:
        self.is_working = is_working
        self.called_off = threading.Event()
        self.level = ""

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        self.level = level

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.called_off.set()

    def statusTracker(self) -> Any:  # noqa: N802
        stages = {
            1: SimpleNamespace(numTasks=6, numCompletedTasks=3),
            2: SimpleNamespace(numTasks=2, numCompletedTasks=1),
        }
        return SimpleNamespace(
            getActiveJobsIds=lambda: [7] if self.is_working else [],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[1, 2, 3]),
            getStageInfo=stages.get,
        )


class FakeSession:
    """The part of a classic SparkSession that jobs use."""

    _jsparkSession = None  # noqa: N815

    def __init__(self, *, is_working: bool = True) -> None:
        self.sparkContext = FakeContext(is_working=is_working)
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def start(monkeypatch: pytest.MonkeyPatch, session: FakeSession) -> None:
    monkeypatch.setattr(warren.spark, "session", lambda *arguments: session)


def test_ctrl_c_cancels_the_spark_job_and_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession()
    start(monkeypatch, session)
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        with running("test", None, None, is_quiet=True):
            signal.raise_signal(signal.SIGINT)
            assert session.sparkContext.called_off.wait(10)
            raise TaskFailed("called off")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert (session.sparkContext.level, session.is_stopped) == ("OFF", True)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("is_working", [True, False])
def test_a_second_ctrl_c_or_one_without_a_spark_job_ends_immediately(
    monkeypatch: pytest.MonkeyPatch, is_working: bool
) -> None:
    session = FakeSession(is_working=is_working)
    start(monkeypatch, session)

    def work() -> None:
        with running("test", None, None, is_quiet=True):
            signal.raise_signal(signal.SIGINT)
            if is_working:
                signal.raise_signal(signal.SIGINT)
            threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        work()

    assert session.is_stopped


def test_a_failure_without_an_interrupt_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession()
    start(monkeypatch, session)

    with pytest.raises(BadInput), running("test", None, ["a=b"], is_quiet=True):
        raise BadInput("no")

    assert session.is_stopped


def test_a_failed_task_is_reported_in_one_sentence() -> None:
    trace = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "x.py", line 7, in f
warren.errors.Damage: at byte 7

During handling of the above exception, another exception occurred:

warren.errors.CorruptRecord: /x is damaged at byte 7: no sense
    at org.apache.spark"""

    assert _sentence(trace) == "/x is damaged at byte 7: no sense"
    assert _sentence("\n  Job 0 cancelled  \nmore") == "Job 0 cancelled"
    assert _sentence("[X] failed:\nTraceback\nModuleNotFoundError: No module named 'y'\n at z") == (
        "ModuleNotFoundError: No module named 'y'"
    )
    assert _sentence("") == "Spark failed without a reason"


def test_progress_is_printed_while_a_job_runs_and_at_its_end() -> None:
    calls: list[tuple[int, int]] = []
    is_reported = threading.Event()

    def show(count: int, total: int) -> None:
        calls.append((count, total))
        is_reported.set()

    with counted(FakeSession(), 1000, show):  # type: ignore[arg-type]
        assert is_reported.wait(10)

    assert calls[0] == (500, 1000)
    assert calls[-1] == (1000, 1000)
    with watched(None), counted(FakeSession(), 1000, None):  # type: ignore[arg-type]
        pass
    assert calls[-1] == (1000, 1000)
