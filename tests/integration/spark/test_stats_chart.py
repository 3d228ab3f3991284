"""Statistics as a picture. matplotlib starts a process to search for fonts the first time that a user draws one."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.errors import BadInput
from warren.spark.jobs.stats import Stats, WindowStats
from warren.spark.jobs.stats_chart import save_chart


def test_statistics_are_drawn(tmp_path: Path) -> None:
    quantiles = {"p50": 0.1, "p90": 0.2, "p99": 0.5, "max": 1.0}
    windows = [
        WindowStats(
            topic="orders",
            start_us=start_us,
            window_us=1_000_000,
            messages=3,
            size=30,
            tags={"eu": 2, "us": 1},
            gaps=quantiles,
            latencies=quantiles,
        )
        for start_us in (1_700_000_000_000_000, 1_700_000_001_000_000)
    ]

    save_chart(Stats(window_us=1_000_000, windows=windows), str(tmp_path / "stats.png"))

    assert (tmp_path / "stats.png").read_bytes().startswith(b"\x89PNG")


def test_statistics_without_messages_are_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no messages"):
        save_chart(Stats(window_us=1, windows=[]), str(tmp_path / "none.png"))
