"""A broker process reuses its memory and returns it to the system after a burst."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from tests.support.broker.process import served_store
from warren.broker.net.malloc import anonymous_size

PAGE_SIZE = 4096
PROGRAM = """
import resource
from warren.broker.net.malloc import MemoryTrimmer, anonymous_size, keep_memory
is_kept = keep_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def requests(count):
    for _ in range(count):
        first, second = bytearray(1 << 20), bytearray(6 << 20)
        first[:], second[:] = b"x" * len(first), b"y" * len(second)

requests(3)
before = faults()
requests(20)
print(is_kept, faults() - before)
"""


def test_the_memory_of_a_request_is_reused_by_the_next() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    is_kept, faults = ran.stdout.split()

    if is_kept == "False":
        pytest.skip("this C library has no mallopt")
    assert int(faults) < (1 << 20) // PAGE_SIZE


HEAP_SIZE = 64 << 20
"""glibc gives each heap but the first one so much of the address space, at a multiple of it."""


def test_the_threads_of_a_broker_share_one_heap(tmp_path: Path) -> None:
    maps = Path("/proc/self/maps")
    if not maps.exists() or not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this system has no list of mappings, or its C library no mallopt")

    with served_store(tmp_path / "data") as served, warren.connect(served.address) as store:
        topic = store.topic("orders")
        topic.put_many([b"body"] * 1000)
        assert sum(batch.num_rows for batch in topic.partition(0).scan()) == 1000
        lines = Path(f"/proc/{served.process.pid}/maps").read_text().splitlines()

    places = [line.split() for line in lines]
    unnamed = [place[0] for place in places if place[1] == "rw-p" and len(place) == 5]
    assert [each for each in unnamed if int(each.partition("-")[0], 16) % HEAP_SIZE == 0] == []


BURST = """
import gc
from concurrent.futures import ThreadPoolExecutor
from warren.broker.net.malloc import MemoryTrimmer, anonymous_size, keep_memory

is_kept = keep_memory()
heap = MemoryTrimmer()
before = anonymous_size()
with ThreadPoolExecutor(8) as threads:
    held = list(threads.map(lambda _: [bytearray(b"x") * (1 << 20) for _ in range(8)], range(64)))
    between = [bytes(100_000) for _ in range(20)]
    peak = anonymous_size()
    was_due = heap.is_due(sum(map(len, held)) << 20)
    held = None
    is_due = heap.is_due(0)
    heap.trim()
    print(is_kept, was_due, is_due, heap.is_due(0), before >> 20, peak >> 20, anonymous_size() >> 20)
"""


def test_memory_of_a_burst_in_many_threads_is_returned_to_the_system() -> None:
    if anonymous_size() is None:
        pytest.skip("this system does not tell how much memory a process has")
    ran = subprocess.run([sys.executable, "-c", BURST], capture_output=True, text=True, check=True)
    is_kept, was_due, is_due, is_due_again, *sizes = ran.stdout.split()
    if is_kept == "False":
        pytest.skip("this C library has no mallopt")
    before, peak, after = map(int, sizes)

    assert peak - before > 500
    assert (was_due, is_due, is_due_again) == ("False", "True", "False")
    assert after - before < 60
