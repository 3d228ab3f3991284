"""Filters the stderr of Spark's JVM: drops the tracebacks that PySpark's workers print when a query or Spark stops."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

STDERR: Final = 2
HEAD: Final = b"Traceback (most recent call last):\n"
FILES: Final = b'  File "'
DAEMON: Final = b"/pyspark/daemon.py"
END: Final = b"BrokenPipeError: "
HELD_LINES_MAX: Final = 100
"""A longer traceback is not a broken pipe of a worker."""


@contextmanager
def without_worker_noise() -> Iterator[None]:
    """Filters the stderr of every process that is started inside the `with`, and writes the rest to our stderr.

    A worker prints the traceback of a broken pipe if the JVM closes its socket first. That happens sometimes when a
    query ends. No setting switches it off, and it looks like a failure.
    """
    ours, (source, target) = os.dup(STDERR), os.pipe()
    threading.Thread(target=_pass_on, args=(source, ours), name="warren-jvm-stderr", daemon=True).start()
    os.dup2(target, STDERR)
    os.close(target)
    try:
        yield
    finally:
        # The started processes keep writing to the pipe; this process writes to its own stderr again.
        os.dup2(ours, STDERR)


def _pass_on(source: int, target: int) -> None:
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in without_broken_pipes(lines):
            out.write(line)


def without_broken_pipes(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines without tracebacks of broken pipes in PySpark's daemon."""
    trace: list[bytes] = []
    for line in lines:
        if line == HEAD:
            yield from trace
            trace = [line]
        elif trace and line.startswith(b" ") and len(trace) < HELD_LINES_MAX:
            trace.append(line)
        else:
            # The line that names the error ends a traceback.
            if not (trace and line.startswith(END) and _is_all_daemon(trace)):
                yield from trace
                yield line
            trace = []
    yield from trace


def _is_all_daemon(traceback: list[bytes]) -> bool:
    files = [line for line in traceback if line.startswith(FILES)]
    return bool(files) and all(DAEMON in line for line in files)
