"""A broker process reuses its memory and returns it to the system after a burst."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
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

    assert further_heaps(lines) == []


def further_heaps(lines: Sequence[str]) -> list[str]:
    """Returns the places of the heaps that glibc made for threads: memory in use, and the rest of HEAP_SIZE behind it.

    Other memory may begin at such a place by chance.
    """
    places = [[int(end, 16) for end in line.split()[0].split("-")] for line in lines]
    rights = [line.split()[1] for line in lines]
    return [
        lines[number].split()[0]
        for number, ((start, end), (rest_start, rest_end)) in enumerate(pairwise(places))
        if start % HEAP_SIZE == 0 and end == rest_start and rest_end == start + HEAP_SIZE
        if rights[number : number + 2] == ["rw-p", "---p"]
    ]


def test_a_heap_of_a_thread_is_recognised() -> None:
    heap = ["7f53f4000000-7f53f4021000 rw-p 00000000 00:00 0 ", "7f53f4021000-7f53f8000000 ---p 00000000 00:00 0 "]
    other = ["7f5400000000-7f5400200000 rw-p 00000000 00:00 0 ", "7f5400200000-7f5400201000 ---p 00000000 00:00 0 "]

    assert further_heaps([*other, *heap]) == ["7f53f4000000-7f53f4021000"]


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
