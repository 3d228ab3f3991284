"""Pauses of the event loop are measured, and a long one is logged."""

from __future__ import annotations

import asyncio
import logging

import pytest

from warren.broker.server import COLLECT_AT
from warren.broker.services.pauses import LOOP_LOOK_S, LOOP_PAUSE_LOGGED_S, Pauses


def test_the_excess_of_a_sleep_is_measured_as_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    late_s = [0.0, 0.2, 0.05]

    async def sleep(seconds: float) -> None:
        if not late_s:
            raise asyncio.CancelledError
        now_s[0] += seconds + late_s.pop(0)

    pauses = Pauses(lambda: now_s[0])
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(pauses.watch())

    assert pauses.seconds.count == 3
    assert pauses.longest_s == pytest.approx(0.2)
    assert pauses.seconds.sum == pytest.approx(0.25)
    assert LOOP_LOOK_S > 0


def test_a_long_pause_is_logged_and_a_short_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    pauses = Pauses(lambda: 0.0)

    with caplog.at_level(logging.WARNING, "warren.broker"):
        pauses.note(LOOP_PAUSE_LOGGED_S / 2)
        assert not caplog.records
        pauses.note(LOOP_PAUSE_LOGGED_S)

    assert "stood still for 500 ms" in caplog.text


def test_a_sleep_that_is_too_short_is_not_a_pause() -> None:
    pauses = Pauses(lambda: 0.0)

    pauses.note(-0.001)

    assert (pauses.longest_s, pauses.seconds.sum) == (0.0, 0.0)


def test_a_collection_of_young_objects_covers_few_of_them() -> None:
    objects, looks, _ = COLLECT_AT

    # About 10 ms for 100,000 of them, in which no thread runs.
    assert objects * looks <= 100_000
