"""Attending to a pipeline until it ends: its progress is told, and a signal stops it between two batches."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from warren.config import PIPELINE_LOOK_S
from warren.spark.pipelines.progress import Progress


class Attended(Protocol):
    """What is needed of a pipeline that runs."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def stop(self, *, is_hurried: Callable[[], bool]) -> None: ...
    def news(self) -> list[Progress]: ...


class Told(Protocol):
    """Whoever is told how far it came."""

    def progress(self, progress: Progress) -> None: ...
    def stopping(self) -> None: ...


def attend(running: Attended, told: Told) -> bool:
    """Wait until the pipeline ends; False where it was stopped by Ctrl-C or SIGTERM before its end.

    A second signal does not wait for the batch. Only the main thread may call: Python gives signals to no other.
    """
    with stop_signals() as received:
        while not running.wait(PIPELINE_LOOK_S):
            _tell(running, told)
            if received:
                told.stopping()
                running.stop(is_hurried=lambda: len(received) > 1)
                break
        _tell(running, told)
        return not received


@contextmanager
def stop_signals() -> Iterator[Sequence[int]]:
    """Meanwhile Ctrl-C and SIGTERM end nothing: they are noted here."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(running: Attended, told: Told) -> None:
    for progress in running.news():
        told.progress(progress)
