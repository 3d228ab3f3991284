"""Watches a pipeline until it ends: reports its progress, and stops it between two batches after a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from warren.spark.pipelines.progress import Progress

PIPELINE_LOOK_S: Final = 0.25
"""How often the progress of a pipeline is checked, and whether it has to stop."""


class Attended(Protocol):
    """The part of a running pipeline that this module uses."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def stop(self, *, is_hurried: Callable[[], bool]) -> None: ...
    def news(self) -> list[Progress]: ...


class Listener(Protocol):
    """Receives reports about a running pipeline."""

    def progress(self, progress: Progress) -> None: ...
    def stopping(self) -> None: ...


def attend(running: Attended, listener: Listener) -> bool:
    """Waits until the pipeline ends. Returns False if Ctrl-C or SIGTERM stopped it before its end.

    A second signal stops it without waiting for the batch. Only the main thread may call this, because Python delivers
    signals to no other.
    """
    with stop_signals() as received:
        while not running.wait(PIPELINE_LOOK_S):
            _report(running, listener)
            if received:
                listener.stopping()
                running.stop(is_hurried=lambda: len(received) > 1)
                break
        _report(running, listener)
        return not received


@contextmanager
def stop_signals() -> Iterator[Sequence[int]]:
    """Collects Ctrl-C and SIGTERM inside the `with`, so that they do not end the process."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(running: Attended, listener: Listener) -> None:
    for progress in running.news():
        listener.progress(progress)
