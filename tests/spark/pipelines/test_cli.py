"""`warren pipeline run` as people run it: in its own process, stopped by a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from tests.tidy.source import SOURCE

pytest.importorskip("pyspark")

FILE = """
[pipeline]
name = "letters"
trigger = "continuous"
store = "data"

[source]
topics = ["words"]
format = "text"

[[step]]
sql = "select length(value) as letters, value as word from input"

[sink]
topic = "lengths"
format = "json"
key = "word"
"""


def run(file: Path, *options: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", "from warren.cli.main import main; main()"]
    return subprocess.Popen(
        [*program, "pipeline", "run", str(file), "--conf", "spark.driver.memory=1g", "--master", "local[2]", *options],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def put(store: Path, *bodies: bytes) -> None:
    with warren.open(store, keeps=False) as opened:
        opened.topic("words").put_many(bodies)


def test_a_run_prints_progress_ends_with_a_signal_and_reports_errors_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "letters.toml"
    file.write_text(FILE)
    put(tmp_path / "data", b"a", b"warren")

    endless = run(file, "--json")
    assert endless.stdout is not None
    progress = json.loads(endless.stdout.readline())
    endless.send_signal(signal.SIGTERM)
    endless.communicate(timeout=120)
    put(tmp_path / "data", b"\xff")
    stopped = run(file, "--trigger", "available-now")
    _, complaint = stopped.communicate(timeout=240)

    assert (progress["pipeline"], progress["batch"], progress["messages"], progress["behind"]) == ("letters", 0, 2, 0)
    assert endless.returncode == 0
    with warren.open(tmp_path / "data", keeps=False) as opened:
        rows = [(message.key, json.loads(message.body)) for message in opened.topic("lengths").since(0)]
    assert rows == [(b"a", {"letters": 1, "word": "a"}), (b"warren", {"letters": 6, "word": "warren"})]
    assert stopped.returncode == 1
    assert complaint.splitlines()[-1].startswith(
        "pipeline 'letters' stopped: message 2 of partition 0 of topic words: the value is not UTF-8; "
    )
