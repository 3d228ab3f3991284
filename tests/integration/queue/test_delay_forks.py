"""Delayed messages in a store that was forked: one process delivers them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.store.stores import quick_store
from warren.errors import (
    StoreBusy,
)
from warren.queue.delay.handles import Delayed
from warren.queue.store import Store
from warren.queue.topic import Topic


def move(store: Store) -> float:
    """Runs the mover until nothing is due, and returns the seconds until its next run."""
    while (wait_s := store.mover.run()) == 0:
        pass
    return wait_s


def bodies(topic: Topic) -> list[bytes]:
    return [message.body for log in topic.logs for message in log.read(log.first, limit=10_000)]


def test_a_forked_child_leaves_the_delivery_to_its_parent(tmp_path: Path) -> None:
    store = quick_store(tmp_path)
    topic = store.topic("orders")
    topic.put(b"a", delay=0.0)
    move(store)
    pid = os.fork()
    if pid == 0:
        is_right = False
        try:
            topic.put(b"b", delay=0.0)
            is_right = store.mover.run() == 0.25 and bodies(topic) == [b"a"]
        finally:
            os._exit(0 if is_right else 1)

    assert os.waitpid(pid, 0)[1] == 0
    move(store)
    assert bodies(topic) == [b"a", b"b"]
    store.close()


def test_a_forked_child_waits_for_the_lock_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_store(tmp_path) as store:
        topic = store.topic("orders")
        delayed = topic.put(b"later", delay=3600.0)
        assert [entry.id for entry in topic.scheduled()] == [delayed.id]
        is_refused, is_free = os.pipe(), os.pipe()
        with topic.delay.lock:
            child = os.fork()
            if not child:
                os._exit(_cancel_when_free(delayed, is_refused[1], is_free[0], monkeypatch))
            assert os.read(is_refused[0], 1) == b"x"
        os.write(is_free[1], b"x")

        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 0
        assert not delayed.cancel()
        for descriptor in (*is_refused, *is_free):
            os.close(descriptor)


def _cancel_when_free(delayed: Delayed, refused: int, free: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns 0 if the lock of the parent keeps the child out and the child cancels once it is free."""
    monkeypatch.setattr("warren.queue.state.shared_lock.LOCK_WAIT_S_MAX", 0.05)
    try:
        delayed.cancel()
    except StoreBusy:
        os.write(refused, b"x")
        os.read(free, 1)
        return 0 if delayed.cancel() else 1
    os.write(refused, b"-")
    return 2
