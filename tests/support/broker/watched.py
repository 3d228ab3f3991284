"""A broker process whose log is read while it is written, and its usage of memory, files and threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.broker.process import PATIENCE_S, warren_command
from tests.tidy.source import SOURCE

LINES_KEPT: Final = 10_000


class Usage(NamedTuple):
    """The usage of a process: memory in bytes, private memory, the most it ever took, open files, and threads."""

    resident: int
    private: int
    resident_max: int
    files: int
    threads: int


class WatchedBroker:
    """A running `warren serve`. Its output is read immediately, so that it never waits for its reader."""

    def __init__(self, path: Path, *flags: str, port: int = 0, variables: Mapping[str, str] | None = None) -> None:
        command = warren_command("serve", str(path), "--port", str(port), "--log-format", "json", *flags)
        environment = os.environ | {"PYTHONPATH": str(SOURCE), **(variables or {})}
        self._process = subprocess.Popen(
            command, cwd=path.parent, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self.lines = list[str]()
        assert self._process.stderr is not None
        first = self._process.stderr.readline()
        assert first.startswith("{"), first + self._process.stderr.read()
        self.port = int(json.loads(first)["message"].rpartition(":")[2])
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            # A process that is killed may not finish its line.
            if line.endswith("\n") and (len(self.lines) < LINES_KEPT or '"level": "warning"' not in line):
                self.lines.append(line)

    def errors(self) -> list[str]:
        """Returns the lines about unexpected errors."""
        return [line for line in list(self.lines) if not line.startswith("{") or json.loads(line)["level"] == "error"]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def usage(self) -> Usage:
        folder = Path("/proc", str(self._process.pid))
        facts = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        resident, private, most = (int(facts[name].split()[0]) << 10 for name in ("VmRSS", "RssAnon", "VmHWM"))
        return Usage(resident, private, most, len(os.listdir(folder / "fd")), int(facts["Threads"]))

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Sends the signal. Returns how the process ended."""
        self._process.send_signal(how)
        code = self._process.wait(PATIENCE_S)
        self._close()
        return code

    def close(self) -> None:
        """Kills it if it still runs."""
        if self.is_running:
            self._process.kill()
        self._process.wait(PATIENCE_S)
        self._close()

    def _close(self) -> None:
        self._reading.join(PATIENCE_S)
        assert self._process.stderr is not None
        self._process.stderr.close()


@contextmanager
def watched_broker(
    path: Path, *flags: str, port: int = 0, variables: Mapping[str, str] | None = None
) -> Iterator[WatchedBroker]:
    """A broker of the store at `path`, killed at the end if it still runs."""
    broker = WatchedBroker(path, *flags, port=port, variables=variables)
    try:
        yield broker
    finally:
        broker.close()
