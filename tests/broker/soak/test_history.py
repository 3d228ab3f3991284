"""Clients of all kinds, killed brokers and connections cut in the middle of a frame; `make soak ARGS=--broker` is the
long version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT, SOURCE

KILLS = 2
TIMEOUT_S = 400.0


def test_a_mixed_run_over_the_network_with_kills_and_cuts_keeps_every_promise(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    # In its own process: clients that are cut off leave threads and warnings behind.
    command = [sys.executable, "-m", "tests.soak", "--broker", "--seed", "1", "--rounds", "1", "--kills", str(KILLS)]
    arguments = [
        "--minutes",
        "0.07",
        "--alone",
        "0",
        "--calm",
        "0",
        "--durability",
        "os",
        "--hostile",
        "--json",
        str(figures),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, ROOT)))}

    ended = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = json.loads(figures.read_text())
    assert facts["faults"] == []
    assert facts["kills"] == KILLS
    assert facts["messages"] > 100
