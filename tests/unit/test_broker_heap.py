"""Memory that a broker has used is used again, and not given back and taken anew with every request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warren.broker.heap import Heap, anonymous_size, keep_memory
from warren.config import BROKER_HEAP_KEPT_SIZE_MAX, BROKER_HEAP_LOOK_S

PAGE_SIZE = 4096
PROGRAM = """
import resource
from warren.broker.heap import Heap, anonymous_size, keep_memory
from warren.config import BROKER_HEAP_KEPT_SIZE_MAX, BROKER_HEAP_LOOK_S
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


def test_pages_of_a_request_serve_the_next_one() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    is_kept, faults = ran.stdout.split()

    if is_kept == "False":
        pytest.skip("this C library has no mallopt")
    assert int(faults) < (1 << 20) // PAGE_SIZE


def test_where_the_library_cannot_be_told_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_it(name: object) -> object:
        return object()

    monkeypatch.setattr("ctypes.CDLL", without_it)

    assert not keep_memory()


BURST = """
import gc
from concurrent.futures import ThreadPoolExecutor
from warren.broker.heap import Heap, anonymous_size, keep_memory

is_kept = keep_memory()
heap = Heap()
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


def test_what_a_burst_in_many_threads_has_left_is_given_back() -> None:
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


def test_memory_is_given_back_when_it_is_more_than_the_least_and_what_is_held() -> None:
    sizes = iter([100, 90, 95 + BROKER_HEAP_KEPT_SIZE_MAX, 95 + BROKER_HEAP_KEPT_SIZE_MAX])
    heap = Heap(lambda: next(sizes))

    assert not heap.is_due(0)
    assert not heap.is_due(10)
    assert heap.is_due(4) == can_trim()


def can_trim() -> bool:
    return Heap()._trim is not None


def test_giving_back_is_tried_more_seldom_while_nothing_comes_of_it() -> None:
    if not can_trim():
        pytest.skip("this C library gives nothing back")
    size = 1000 << 20
    heap = Heap(lambda: size)
    pauses = []

    for _ in range(8):
        heap.trim()
        pauses.append(heap.pause_s)
    sizes = iter([1000 << 20, 500 << 20])
    heap._size = lambda: next(sizes)
    heap.trim()

    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert heap.pause_s == BROKER_HEAP_LOOK_S


def test_without_a_word_of_the_system_nothing_is_given_back() -> None:
    assert not Heap(lambda: None).is_due(0)
