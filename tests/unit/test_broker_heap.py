"""Memory that a broker has used is used again, and not given back and taken anew with every request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warren.broker.heap import keep_memory

PAGE_SIZE = 4096
PROGRAM = """
import resource
from warren.broker.heap import keep_memory
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
