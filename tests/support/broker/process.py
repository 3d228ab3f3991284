"""A broker in its own process: `warren serve`, its log as JSON lines, and the signals that end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tidy.source import SOURCE

PROGRAM = "from warren.cli.main import main; main()"
PATIENCE_S = 30.0


def warren_command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *arguments]


def run_warren(
    *arguments: str, folder: Path, stdin: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Returns the output of the command, and its exit code."""
    return subprocess.run(
        warren_command(*arguments),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | variables,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class ServedStore:
    """A running `warren serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("{"), line + process.stderr.read()
        self.address = json.loads(line)["message"].rpartition(" ")[2]

    def end(self, how: signal.Signals) -> int:
        """Sends the signal. Returns how the process ended."""
        self.process.send_signal(how)
        return self.process.wait(PATIENCE_S)

    def log(self) -> list[dict[str, str]]:
        """Returns everything that it has printed from its start to its end."""
        assert self.process.stderr is not None
        return [json.loads(line) for line in self.process.stderr]


@contextmanager
def served_store(path: Path, *flags: str, port: int = 0) -> Iterator[ServedStore]:
    """Runs `warren serve` on loopback, and kills it at the end if it still runs."""
    command = warren_command("serve", str(path), "--port", str(port), "--log-format", "json", *flags)
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, cwd=path.parent, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield ServedStore(process)
        finally:
            if process.poll() is None:
                process.kill()
