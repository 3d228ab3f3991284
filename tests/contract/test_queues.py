"""Durable queues: the same on every kind of store."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.conftest import Opener
from warren.errors import UnreadableItem


def test_an_unreadable_item_stays_in_the_queue_until_it_is_skipped(opener: Opener) -> None:
    with opener() as opened:
        store: Any = opened
        raw, queue = store.queue("jobs", codec="bytes"), store.queue("jobs")
        raw.put(b"\xff\xfe")
        raw.put(b'"two"')

        errors = []
        for _ in range(2):
            with pytest.raises(UnreadableItem) as raised:
                queue.get_nowait()
            errors.append(raised.value)
        size_before = queue.qsize()
        skipped = [queue.skip(error) for error in errors]

        assert [(error.body, error.number) for error in errors] == [(b"\xff\xfe", 0)] * 2
        assert size_before == 2
        # The second call must not remove the next item.
        assert skipped == [True, False]
        assert queue.get_nowait() == "two"
        queue.task_done()
        assert queue.qsize() == 0
        with pytest.raises(ValueError, match="task_done"):
            # An item that could not be read was not removed.
            queue.task_done()


def test_an_unreadable_item_can_be_got_with_the_right_codec(opener: Opener) -> None:
    with opener() as opened:
        store: Any = opened
        store.queue("jobs", codec="bytes").put(b"\xff\xfe")
        with pytest.raises(UnreadableItem) as raised:
            store.queue("jobs").get_nowait()

        assert store.queue("jobs", codec="bytes").get_nowait() == b"\xff\xfe"
        assert not store.queue("jobs").skip(raised.value)
