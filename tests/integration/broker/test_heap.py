"""A broker process reuses its memory and returns it to the system after a burst."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
