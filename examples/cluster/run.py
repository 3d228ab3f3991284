"""A pipeline on a cluster: submitted with spark-submit, and its rows read here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import warren

VISITS = Path(__file__).parents[1] / "streaming_sql"


def main(master: str, directory: Path, *options: str) -> list[dict[str, Any]]:
    store = directory / "data"
    visits = [{"page": "/", "visitor": f"visitor-{number}", "at": "2026-03-01T12:00:00Z"} for number in range(100)]
    visits.append({"page": "/late", "visitor": "ann", "at": "2026-03-01T13:00:00Z"})
    with warren.open(store) as opened:
        opened.topic("visits", partitions=2).put_many([json.dumps(visit).encode() for visit in visits])

    program = [sys.executable, "-c", "from warren.cli.main import main; main()"]
    submit = ["pipeline", "submit", str(VISITS / "visits.toml"), "--master", master, "--store", str(store), *options]
    subprocess.run([*program, *submit], check=True)

    with warren.open(store) as opened:
        rows = [json.loads(message.body) for message in opened.topic("busy_pages").since(0)]
    print(rows)
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="warren-example-") as folder:
        main(sys.argv[1], Path(folder), *sys.argv[2:])
