"""Pauses of the event loop are measured, and a long one is logged."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from warren.broker.pauses import Pauses
from warren.broker.service import COLLECT_AT
from warren.config import LOOP_LOOK_S, LOOP_PAUSE_LOGGED_S


def test_how_much_longer_a_sleep_took_than_asked_for_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_sleep_that_is_too_short_is_no_pause() -> None:
    pauses = Pauses(lambda: 0.0)

    pauses.note(-0.001)

    assert (pauses.longest_s, pauses.seconds.sum) == (0.0, 0.0)


def test_a_look_of_the_garbage_collector_at_young_objects_sees_few() -> None:
    objects, looks, _ = COLLECT_AT

    # About 10 ms for 100,000 of them, in which no thread runs.
    assert objects * looks <= 100_000


def test_what_scans_need_is_loaded_before_the_first_request() -> None:
    program = "import sys; from warren.broker.service import _settle_down as ready; ready(); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "pyarrow" in loaded
