"""The demo as a user runs it: one command, and all its promises are in the terminal and in the directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.terminal import run_in_terminal

ORDERS = 40_000
TIMEOUT_S = 240
PROGRAM = "from warren.cli.main import main; main()"


def run_demo(folder: Path) -> str:
    command = [sys.executable, "-c", PROGRAM, "demo", "--orders", str(ORDERS), "--dir", "demo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_runs_from_orders_to_archive(tmp_path: Path) -> None:
    output = run_demo(tmp_path)

    assert f"{ORDERS:,} orders" in output
    revenue = output[output.index("Revenue by country") : output.index("Orders put aside")]
    lines = [
        line.split() for line in revenue.splitlines() if line[:3].strip() in {"de", "fr", "it", "es", "nl", "us", "jp"}
    ]
    assert {line[0] for line in lines} == {"de", "fr", "it", "es", "nl", "us", "jp"}
    aside = output[output.index("Orders put aside") : output.index("Archive:")]
    broken = sum(int(word) for line in aside.splitlines() for word in line.split()[:1] if word.isdigit())
    assert broken == 20
    assert sum(int(line[1].replace(",", "")) for line in lines) == ORDERS - broken
    assert f"{ORDERS:,} messages in" in output
    assert "verified" in output
    assert (tmp_path / "demo" / "revenue.png").read_bytes().startswith(b"\x89PNG")
    assert "archive to Parquet" in output
    assert max(map(len, output.splitlines())) <= 80


def test_the_demo_draws_its_bars_in_a_terminal_and_writes_one_document_of_json(tmp_path: Path) -> None:
    terminal = run_in_terminal("demo", "--orders", "2000", "--dir", "demo", "--json", folder=tmp_path)

    assert terminal.exit_code == 0, terminal.text
    assert "Spark starts" in terminal.text
    assert "2,000 of 2,000" in terminal.text
    document = json.loads(terminal.text[terminal.text.index('{\r\n  "directory"') :])
    assert (document["orders"], document["archive"]["messages"], document["archive"]["is_verified"]) == (
        2_000,
        2_000,
        True,
    )
    assert sum(each["orders"] for each in document["revenue"]) + sum(document["dead_letters"].values()) == 2_000
    assert {each["what"] for each in document["rates"]} >= {"archive to Parquet", "verify the archive"}
