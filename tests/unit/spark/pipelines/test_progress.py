from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from warren.spark.pipelines.progress import Progress, behind
from warren.spark.pipelines.watch import attend


def progress_event(batch: int, read: int, end: int | None = None, latest: int | None = None) -> dict[str, Any]:
    sources = [] if end is None else [{"endOffset": offset(end), "latestOffset": offset(latest)}]
    return {
        "batchId": batch,
        "timestamp": f"2026-03-01T12:00:0{batch}.000Z",
        "numInputRows": read,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 1500},
        "sources": sources,
    }


def offset(number: int | None, partition: str = "0") -> Any:
    return None if number is None else {"topics": {"orders": {partition: number}}, "ids": {"orders": "x"}}


def test_progress_sums_the_rows_of_batches() -> None:
    progress = Progress().after(progress_event(0, 100, 100, 150)).after(progress_event(1, 50, 150, 150))

    assert (progress.batch, progress.messages, progress.messages_per_s, progress.behind) == (1, 150, 50.0, 0)
    assert (progress.batch_s, progress.time) == (1.5, "2026-03-01T12:00:01.000Z")


def test_unread_messages_are_counted_in_every_partition() -> None:
    latest = {"topics": {"orders": {"0": 10, "1": 7}, "other": {"0": 3}}, "ids": {}}
    end = {"topics": {"orders": {"0": 4, "1": 9}}, "ids": {}}

    assert behind([{"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}]) == 6 + 3


@pytest.mark.parametrize("latest", [None, "null", "{", '{"other": 1}', {"warren": "not begun"}])
def test_a_source_without_a_latest_offset_leaves_the_lag_unknown(latest: object) -> None:
    assert behind([{"endOffset": offset(1), "latestOffset": latest}]) is None
    assert behind([]) is None


class Pipeline:
    """Stands for a running pipeline: it ends after `batches`, or when it is stopped."""

    def __init__(self, batches: int, on_wait: Callable[[int], None] = lambda wait: None) -> None:
        self.waits, self.batches, self.on_wait = 0, batches, on_wait
        self.is_stopped = self.is_hurried = False

    def wait(self, timeout: float | None = None) -> bool:
        self.on_wait(self.waits)
        self.waits += 1
        return self.waits > self.batches

    def stop(self, *, is_hurried: Callable[[], bool]) -> None:
        self.is_stopped, self.is_hurried = True, is_hurried()

    def news(self) -> list[Progress]:
        return [Progress(batch=self.waits)]


class Heard:
    """Records its calls."""

    def __init__(self) -> None:
        self.words: list[object] = []

    def progress(self, progress: Progress) -> None:
        self.words.append(progress.batch)

    def stopping(self) -> None:
        self.words.append("stopping")


def test_a_pipeline_is_attended_until_it_ends() -> None:
    reporter = Heard()

    assert attend(Pipeline(2), reporter)

    assert reporter.words == [1, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_pipeline_and_nothing_else(number: int) -> None:
    def strike(wait: int) -> None:
        if wait == 1:
            os.kill(os.getpid(), number)

    pipeline, reporter = Pipeline(9, strike), Heard()
    handler = signal.getsignal(number)

    is_done = attend(pipeline, reporter)

    assert (is_done, pipeline.is_stopped, pipeline.is_hurried) == (False, True, False)
    assert reporter.words == [1, 2, "stopping", 2]
    assert signal.getsignal(number) == handler


def test_a_second_signal_does_not_wait_for_the_batch() -> None:
    def strike(wait: int) -> None:
        if wait == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)

    pipeline = Pipeline(9, strike)

    attend(pipeline, Heard())

    assert pipeline.is_hurried
