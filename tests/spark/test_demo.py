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
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_the_demo_runs_from_orders_to_archive(tmp_path: Path) -> None:
    shown = run_demo(tmp_path)

    assert f"{ORDERS:,} orders" in shown
    revenue = shown[shown.index("Revenue by country") : shown.index("Orders put aside")]
    lines = [
        line.split() for line in revenue.splitlines() if line[:3].strip() in {"de", "fr", "it", "es", "nl", "us", "jp"}
    ]
    assert {line[0] for line in lines} == {"de", "fr", "it", "es", "nl", "us", "jp"}
    aside = shown[shown.index("Orders put aside") : shown.index("Archive:")]
    broken = sum(int(word) for line in aside.splitlines() for word in line.split()[:1] if word.isdigit())
    assert broken == 20
    assert sum(int(line[1].replace(",", "")) for line in lines) == ORDERS - broken
    assert f"{ORDERS:,} messages in" in shown
    assert "verified" in shown
    assert (tmp_path / "demo" / "revenue.png").read_bytes().startswith(b"\x89PNG")
    assert "archive to Parquet" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_demo_draws_its_bars_in_a_terminal_and_writes_one_document_of_json(tmp_path: Path) -> None:
    shown = run_in_terminal("demo", "--orders", "2000", "--dir", "demo", "--json", folder=tmp_path)

    assert shown.exit_code == 0, shown.text
    assert "Spark starts" in shown.text
    assert "2,000 of 2,000" in shown.text
    found = json.loads(shown.text[shown.text.index('{\r\n  "directory"') :])
    assert (found["orders"], found["archive"]["messages"], found["archive"]["is_verified"]) == (2_000, 2_000, True)
    assert sum(each["orders"] for each in found["revenue"]) + sum(found["dead_letters"].values()) == 2_000
    assert {each["what"] for each in found["rates"]} >= {"archive to Parquet", "verify the archive"}
