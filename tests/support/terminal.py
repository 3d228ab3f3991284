"""The program `warren` in a pseudo-terminal: its output as a person sees it, bars included."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.tidy.source import SOURCE

PROGRAM = "from warren.cli.main import main; main()"
PATIENCE_S = 240
ROWS, COLUMNS = 24, 80


class Shown(NamedTuple):
    """The exit code of the program, and everything that it wrote to the terminal, with control characters."""

    exit_code: int
    text: str


def run_in_terminal(
    *arguments: str | Path, folder: Path, program: str = PROGRAM, variables: Mapping[str, str] | None = None
) -> Shown:
    """Runs the program with a terminal of 80 columns as its stdin, stdout and stderr, until it ends."""
    keyboard, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"} | dict(variables or {})
    # Rich uses these for the size of the terminal, and CI sets them to nothing.
    for name in ("COLUMNS", "LINES", "NO_COLOR", "CI"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    written = bytearray()
    try:
        while data := _read(keyboard):
            written += data
        return Shown(process.wait(PATIENCE_S), written.decode(errors="replace"))
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


def _read(keyboard: int) -> bytes:
    """Returns the output since the last call; empty once the program has closed the terminal, which Linux reports as
    EIO.
    """
    try:
        return os.read(keyboard, 1 << 16)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
