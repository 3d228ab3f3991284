"""Memory that a broker has used is used again, and not freed and allocated again with every request."""

from __future__ import annotations

import pytest

from warren.broker.net.malloc import BROKER_HEAP_KEPT_SIZE_MAX, BROKER_HEAP_LOOK_S, MemoryTrimmer, keep_memory


def test_without_mallopt_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_it(name: object) -> object:
        return object()

    monkeypatch.setattr("ctypes.CDLL", without_it)

    assert not keep_memory()


def test_memory_is_trimmed_when_it_exceeds_the_minimum_and_the_memory_of_requests() -> None:
    sizes = iter([100, 90, 95 + BROKER_HEAP_KEPT_SIZE_MAX, 95 + BROKER_HEAP_KEPT_SIZE_MAX])
    heap = MemoryTrimmer(lambda: next(sizes))

    assert not heap.is_due(0)
    assert not heap.is_due(10)
    assert heap.is_due(4) == can_trim()


def can_trim() -> bool:
    return MemoryTrimmer()._trim is not None


def test_trimming_backs_off_while_it_frees_nothing() -> None:
    if not can_trim():
        pytest.skip("this C library gives nothing back")
    size = 1000 << 20
    heap = MemoryTrimmer(lambda: size)
    pauses = []

    for _ in range(8):
        heap.trim()
        pauses.append(heap.pause_s)
    sizes = iter([1000 << 20, 500 << 20])
    heap._size = lambda: next(sizes)
    heap.trim()

    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert heap.pause_s == BROKER_HEAP_LOOK_S


def test_without_a_known_memory_size_nothing_is_trimmed() -> None:
    assert not MemoryTrimmer(lambda: None).is_due(0)
