"""`warren stats` of a broker: traffic, syncs, topics and lag, once or repeatedly, for people and for programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.support.broker.process import PATIENCE_S, warren_command
from tests.support.broker.running import RunningBroker, running_broker
from tests.tidy.source import SOURCE
from warren.broker.services.memory_budget import MemoryKind
from warren.broker.settings import BrokerSettings
from warren.cli.main import app
from warren.cli.output.broker_watch import StatsPair, tables_of


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        topic = running.broker.store.topic("orders")
        topic.put_many([b"a", b"b", b"c"])
        running.broker.store.topic("others").put(b"a")
        with topic.group("readers") as group:
            group.read(limit=1)
            group.commit()
            yield running


def stats(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["stats", *arguments], env={"COLUMNS": "120"})


def test_stats_of_an_address_show_the_work_of_the_broker(broker: RunningBroker) -> None:
    result = stats(broker.address, "--every", "0.1s")

    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["orders", "1", "3", "32.0", "KiB", "0", "0"] in lines
    assert ["readers", "orders", "stream", "1", "–", "2"] in lines
    assert any(line[:2] == ["bytes", "in"] for line in lines)


def test_json_output_has_counts_and_rates_of_the_named_topics(broker: RunningBroker) -> None:
    result = stats("--server", broker.address, "orders", "--every", "0.1s", "--json")

    document: dict[str, Any] = json.loads(result.output)
    assert [topic["topic"] for topic in document["topics"]] == ["orders"]
    assert [(group["group"], group["behind"]) for group in document["groups"]] == [("readers", 2)]
    assert document["a_second"]["requests"] > 0
    assert {each["api"] for each in document["requests"]} >= {"ListTopics", "Statistics"}
    assert document["connections"]["open"] == 1


def test_watching_continues_until_it_is_interrupted(broker: RunningBroker) -> None:
    command = warren_command("stats", broker.address, "--watch", "--every", "0.1s", "--json")
    variables = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))

        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)

    assert first["uptime_s"] < second["uptime_s"]
    assert (process.returncode, complaint) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["localhost:1", "--window", "1m"], "--window can only be used with a store in a directory"),
        (["localhost:1", "--server", "localhost:2"], "each name a broker"),
        (["--store", "data", "--watch"], "--watch can only be used with a broker"),
        (["localhost:many"], "expected host:port"),
        (["localhost:1", "--every", "1d"], "--every: expected 0.1 to 3600 seconds"),
    ],
)
def test_an_address_without_a_side_port_is_a_clear_error(arguments: list[str], sentence: str) -> None:
    result = stats(*arguments)

    assert result.exit_code == 2
    assert sentence in result.output


def test_stats_need_a_right_to_the_cluster(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", settings=BrokerSettings(rights=True)) as running:
        result = stats(running.address)

    assert result.exit_code == 1
    assert "may not describe the cluster" in result.output


def test_a_restarted_broker_has_no_negative_rates() -> None:
    empty = {"count": 0, "commits": 0, "puts_committed": 0, "commits_failed": 0}
    document = {
        "uptime_s": 5.0,
        "is_stopping": True,
        "connections": {"open": 1},
        "waiting": {"bytes": 0, "puts": 0, "long_polls": 0},
        "memory": {"limit": 1 << 20, "bytes": 5000, "kinds": {"frames": 5000, "answers": 0}},
        "puts": empty,
        "requests": [],
        "topics": [],
        "groups": [],
    }
    before = {**document, "uptime_s": 9.0, "puts": {**empty, "count": 7}}

    pair = StatsPair(before, document)

    assert set(pair.rates().values()) == {0.0}
    assert tables_of("here", pair)


def test_memory_held_for_clients_is_shown_by_kind(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as running:
        result = stats(running.address)
        document = json.loads(stats(running.address, "--json").output)

    assert "memory held for clients" in result.output
    assert document["memory"]["limit"] == 256 << 20
    assert set(document["memory"]["kinds"]) == set(map(str, MemoryKind))
