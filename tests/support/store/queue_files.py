"""Fixtures for tests of queue files: a file, a clock that stands still, and the bytes of the format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.fakes import QUICK_DISK
from tests.support.simulated_clock import SimulatedClock
from warren.queue.standalone.file_queue import FileQueue, open_file

NOW_MS: Final = 1_794_725_025_921
NAME: Final = "jobs.bunny"


@pytest.fixture(name="path")
def queue_path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture(name="clock")
def still_clock() -> SimulatedClock:
    return SimulatedClock(NOW_MS * 1_000_000)


@pytest.fixture(name="jobs")
def opened_queue(path: Path, clock: SimulatedClock) -> Iterator[FileQueue]:
    with quick(path, clock=clock) as opened:
        yield opened


@pytest.fixture(name="threads")
def worker_threads() -> Iterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(8)
    yield executor
    executor.shutdown(wait=False, cancel_futures=True)


def quick(path: Path, **options: Any) -> FileQueue:
    """A queue whose syncs cost nothing."""
    return open_file(path, **{"filesystem": QUICK_DISK, **options})


def record(body: bytes, expires_ms: int | None = None) -> bytes:
    payload = body if expires_ms is None else struct.pack(">q", expires_ms) + body
    return struct.pack(">i", len(payload)) + payload


def pull_all(jobs: FileQueue) -> list[bytes]:
    pulled = []
    while (body := jobs.pull()) is not None:
        pulled.append(body)
    return pulled
