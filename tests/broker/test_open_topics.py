"""A broker opens topics before it is asked for them, so that no request waits on the event loop until one is open."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import warren
from tests.support.broker.running import running_broker
from tests.support.patience import until


def test_all_topics_are_open_before_the_first_connection(tmp_path: Path) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("orders", partitions=3)
        store.topic("bills")

    with running_broker(tmp_path / "data") as running:
        opened = [running.broker.store.opened_topic(name) for name in ("bills", "orders")]

    assert all(topic is not None for topic in opened)


def test_a_topic_that_another_process_makes_is_opened_unasked(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running:
        with warren.open(tmp_path / "data") as other:
            other.topic("orders")

        until(lambda: running.broker.store.opened_topic("orders") is not None)


def test_a_topic_that_cannot_be_opened_is_logged_once_and_keeps_no_other_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with warren.open(tmp_path / "data") as store:
        store.topic("bills")
        store.topic("orders")
    (tmp_path / "data" / "topics" / "bills" / "topic.json").write_text("{")

    with caplog.at_level(logging.WARNING, "warren.broker"), running_broker(tmp_path / "data") as running:
        with warren.open(tmp_path / "data") as other:
            other.topic("late")
        # A look later than the first one has seen the damaged topic twice.
        until(lambda: running.broker.store.opened_topic("late") is not None)
        opened = running.broker.store.opened_topic("orders")

    assert opened is not None
    failures = [record.getMessage() for record in caplog.records if record.name == "warren.broker"]
    assert [failure.split(":")[0] for failure in failures] == ["topic bills cannot be opened"]
