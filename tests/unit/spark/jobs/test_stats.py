"""Statistics: the counts of the tasks, added up, equal counting one by one."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.simulated_clock import SimulatedClock
from tests.support.spark.archives import archived
from tests.support.store.stores import quick_store
from warren.errors import BadInput
from warren.message import Message
from warren.spark.jobs import stats as module
from warren.spark.jobs.selection import Selection
from warren.spark.jobs.stats import stats
from warren.spark.jobs.stats_latency import UNKNOWN, TimeSource
from warren.spark.jobs.stats_sketch import counted, quantile_us

SECOND_NS = 10**9


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks run here, one after the other."""

    def run(spark: object, tasks: list[Any], work: Any) -> list[bytes]:
        return [result for task in tasks for result in work(task)]

    monkeypatch.setattr(module, "run_tasks", run)


def counted_one_by_one(messages: list[Message], window_us: int) -> dict[int, tuple[int, int, Counter[str]]]:
    windows: dict[int, tuple[int, int, Counter[str]]] = {}
    for message in messages:
        start = message.timestamp // window_us * window_us
        count, size, tags = windows.get(start, (0, 0, Counter()))
        windows[start] = (count + 1, size + len(message.body), tags + Counter([message.tag]))
    return windows


def made(tmp_path: Path, *, archive: bool = False) -> tuple[Selection, list[Message]]:
    clock, chance = SimulatedClock(), random.Random(7)
    with quick_store(tmp_path / "s", clock=clock) as store:
        topic = store.topic("orders", partitions=2)
        for turn in range(120):
            created = clock.now_ns() // 1000 - 250_000
            body = json.dumps({"n": turn, "created": created}).encode()
            topic.put(body, tag=chance.choice(["", "eu.de", "us"]), headers={"at": b"%d" % created}, partition=turn % 2)
            topic.put_many([b"x" * turn] * 3, tag="bulk", partition=0)
            clock.pass_ns(chance.randrange(SECOND_NS))
            if archive and turn == 60:
                archived(tmp_path / "s", tmp_path / "a", "orders")
        messages = [message for log in topic.logs for message in log.read(0, limit=10_000)]
    directory = str(tmp_path / "a") if archive else None
    return Selection(store=str(tmp_path / "s"), topics=["orders"], archive=directory), messages


@pytest.mark.parametrize("archive", [False, True])
def test_messages_bytes_and_tags_are_those_of_each_window(tmp_path: Path, archive: bool) -> None:
    selection, messages = made(tmp_path, archive=archive)

    statistics = stats(None, selection, window_us=7_000_000)  # type: ignore[arg-type]

    expected = counted_one_by_one(messages, 7_000_000)
    assert {each.start_us: (each.messages, each.size, each.tags) for each in statistics.windows} == expected
    assert statistics.totals() == {"orders": len(messages)}


@pytest.mark.parametrize("archive", [False, True])
def test_the_times_between_messages_are_those_within_a_partition(tmp_path: Path, archive: bool) -> None:
    selection, messages = made(tmp_path, archive=archive)

    (window,) = stats(None, selection, window_us=10**15).windows  # type: ignore[arg-type]

    gaps = sorted(
        later.timestamp - earlier.timestamp
        for earlier, later in itertools.pairwise(messages)
        if earlier.partition == later.partition
    )
    assert window.gaps["max"] * 1e6 == pytest.approx(gaps[-1], rel=0.011)
    assert window.gaps["p90"] * 1e6 == pytest.approx(gaps[int(0.9 * (len(gaps) - 1))], rel=0.02, abs=1)


@pytest.mark.parametrize("where", ["header:at", "json:created"])
def test_the_latency_is_the_time_since_the_message_says_it_was_made(tmp_path: Path, where: str) -> None:
    selection, _ = made(tmp_path)

    window = stats(None, selection, window_us=10**15, latency=where).windows[0]  # type: ignore[arg-type]

    assert window.latencies["p50"] == pytest.approx(0.25, rel=0.011)
    assert window.latencies["max"] == pytest.approx(0.25, rel=0.011)


def test_only_selected_messages_are_counted(tmp_path: Path) -> None:
    selection, messages = made(tmp_path)
    middle = messages[len(messages) // 4].timestamp
    chosen = Selection(store=selection.store, topics=["orders"], since_us=middle, tag="eu.#")

    statistics = stats(None, chosen)  # type: ignore[arg-type]

    assert statistics.totals() == {"orders": sum(m.timestamp >= middle and m.tag == "eu.de" for m in messages)}
    assert 1 < len(statistics.windows) <= 24


def test_windows_that_would_be_too_many_are_refused(tmp_path: Path) -> None:
    selection, _ = made(tmp_path)

    with pytest.raises(BadInput, match="over the limit"):
        stats(None, selection, window_us=1)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="expected header:NAME or json:FIELD"):
        stats(None, selection, latency="created")  # type: ignore[arg-type]


def test_a_quantile_is_off_by_one_percent_at_most_for_any_partitioning() -> None:
    values = np.sort(np.random.default_rng(3).lognormal(10, 3, 20_000).astype(np.int64))
    runs = np.arange(len(values)) % 100

    whole = counted(np.zeros(len(values), np.intp), values, 1)[0]
    parts = sum(counted(runs, values, 100), Counter())

    assert whole == parts
    for share in (0.01, 0.5, 0.9, 0.999, 1.0):
        exact = values[int(share * (len(values) - 1))]
        assert quantile_us(whole, share) == pytest.approx(exact, rel=0.0101, abs=1)
    assert quantile_us(Counter(), 0.5) is None
    assert quantile_us(counted(np.zeros(2, np.intp), np.array([-5, 0]), 1)[0], 1.0) == 0.0


@pytest.mark.parametrize(
    ("written", "time_us"),
    [
        ("1700000000", 1_700_000_000_000_000),
        ("1700000000.5", 1_700_000_000_500_000),
        ("1700000000123", 1_700_000_000_123_000),
        ("1700000000123456", 1_700_000_000_123_456),
        ("1700000000123456789", 1_700_000_000_123_456),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000_000),
        ("yesterday", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_times_are_parsed_in_their_usual_formats(written: str, time_us: int) -> None:
    kind = pa.map_(pa.string(), pa.binary())
    one = pa.record_batch({"headers": pa.array([[("at", written.encode())]], kind)})
    beside = pa.record_batch({"headers": pa.array([[("at", written.encode())], [], [("at", b"x\xff")]], kind)})

    times = [TimeSource("header", "at").times_us(rows)[0] for rows in (one, beside)]

    assert times == [pytest.approx(time_us, abs=200)] * 2


def test_a_field_of_json_may_be_text_or_a_number_and_missing_or_broken() -> None:
    bodies = [
        b'{"at": 1700000000}',
        b'{"at": "2023-11-14T22:13:20Z"}',
        b'{"at": 1700000000.25}',
        b"{}",
        b"{broken",
        b"7",
    ]

    times = TimeSource("json", "at").times_us(pa.record_batch({"body": pa.array(bodies, pa.binary())}))

    assert times.tolist() == [1_700_000_000_000_000] * 2 + [1_700_000_000_250_000] + [UNKNOWN] * 3


def test_statistics_are_written_as_parquet(tmp_path: Path) -> None:
    selection, _ = made(tmp_path)
    statistics = stats(None, selection, latency="header:at")  # type: ignore[arg-type]

    statistics.save_parquet(str(tmp_path / "stats.parquet"))

    table = pq.read_table(tmp_path / "stats.parquet")
    assert table.column("messages").to_pylist() == [window.messages for window in statistics.windows]
