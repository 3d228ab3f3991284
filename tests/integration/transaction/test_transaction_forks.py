"""Transactions after a fork stay with their parent."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.store.transaction_stores import bodies, open_store, put_two
from warren.errors import (
    TransactionAborted,
)
from warren.transaction import transaction as transaction_module
from warren.transaction.store import Store


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def store(tmp_path: Path, clock: SimulatedClock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def test_a_process_that_was_forked_leaves_the_transactions_of_its_parent_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_module, "TRANSACTION_MEMORY_MAX", 100)
    tx = put_two(store.transaction())
    tx.put("orders", bytes(200))
    put_two(store.transaction()).commit()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        try:
            tx.commit()
        except TransactionAborted:
            answers.put("aborted")
        with store.transaction() as own:
            own.put("orders", b"child")
            own.put("audit", b"child")
        store.keep()
        answers.put(own.state.value)

    process = context.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert [answers.get(), answers.get()] == ["aborted", "done"]

    tx.commit()

    assert bodies(store, "orders") == [b"order", b"child", b"order", bytes(200)]
    assert bodies(store, "audit") == [b"noted", b"child", b"noted"]
