"""Another process reads the published end while it moves."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, quick_log
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM
from warren.storage.disk.index import Index

BODY = bytes(1000)
READS = 300_000
FORKS = multiprocessing.get_context("forkserver")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_other_processes_see_the_old_or_the_new_end_and_nothing_else(tmp_path: Path, version: int) -> None:
    with quick_log(tmp_path, version=version) as log:
        log.append(BODY)
    low, high = 0x0101_0101_0101, 0xFEFE_FEFE_FEFE
    stop = FORKS.Event()
    publisher = FORKS.Process(target=publish_for_ever, args=(str(tmp_path / "index"), low, high, stop))
    index = Index(SYSTEM_FILE_SYSTEM.open(str(tmp_path / "index"), writable=False), writable=False)
    publisher.start()
    try:
        while index.message_count == 1:
            time.sleep(0.001)
        counts = {index.message_count for _ in range(READS)}
    finally:
        stop.set()
        publisher.join()

    assert counts <= {low, high}


def publish_for_ever(path: str, low: int, high: int, stop: Event) -> None:
    index = Index(SYSTEM_FILE_SYSTEM.open(path, writable=True), writable=True)
    while not stop.is_set():
        for _ in range(1000):
            index.publish(0, 0, 0, low)
            index.publish(0, 0, 0, high)
