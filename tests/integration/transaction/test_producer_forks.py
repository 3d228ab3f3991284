"""A producer after a fork stays with its parent."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import open_store
from warren.errors import (
    ProducerBusy,
    ProducerClosed,
)
from warren.transaction.store import Store


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def test_a_child_leaves_the_producer_to_its_parent(store: Store) -> None:
    producer = store.producer("loader-1")
    producer.put("orders", b"1")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        for act in (lambda: producer.put("orders", b"2"), lambda: store.producer("loader-1")):
            try:
                act()
            except (ProducerClosed, ProducerBusy) as error:
                answers.put(type(error).__name__)

    process = context.Process(target=child)
    process.start()
    process.join(60)

    assert process.exitcode == 0
    assert [answers.get(), answers.get()] == ["ProducerClosed", "ProducerBusy"]
    assert producer.put("orders", b"2") is not None
