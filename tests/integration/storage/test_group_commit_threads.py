"""Many threads append to one log at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.fakes import VERSIONS, WatchedDisk, quick_log

THREADS = 12
APPENDS = 40


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("durability", ["commit", "os", "interval:5ms"])
def test_many_threads_get_each_number_once_and_in_their_order(tmp_path: Path, version: int, durability: str) -> None:
    # A sync that takes a moment lets the other threads queue up, so that they share the next one.
    disk = WatchedDisk(on_sync=lambda path: time.sleep(0.001))
    log = quick_log(tmp_path, version=version, durability=durability, filesystem=disk, block_size=32 << 10)

    def append_all(thread: int) -> list[int]:
        return [log.append(b"%d:%d" % (thread, turn)).number for turn in range(APPENDS)]

    with ThreadPoolExecutor(THREADS) as threads:
        numbers_of = list(threads.map(append_all, range(THREADS), timeout=60))

    messages = log.read(0)
    assert len(messages) == THREADS * APPENDS
    for thread, numbers in enumerate(numbers_of):
        assert numbers == sorted(numbers)
        assert [messages[number].body for number in numbers] == [b"%d:%d" % (thread, turn) for turn in range(APPENDS)]
    assert len(disk.syncs) < 400
    assert log.verify().messages == THREADS * APPENDS
