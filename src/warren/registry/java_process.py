"""The Java process of a ZooKeeper server: how it is started and stopped. It never outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

JAVA_FLAGS: Final = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    # The first compiler is enough: the server starts faster and takes half of the memory.
    "-XX:TieredStopAtLevel=1",
    # A server without memory sends no answers but keeps its port. The next one recovers.
    "-XX:+ExitOnOutOfMemoryError",
    # The digest of a secret depends on the encoding.
    "-Dfile.encoding=UTF-8",
)
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PR_SET_PDEATHSIG: Final = 1
OUTPUT_SIZE_MAX: Final = 1 << 20
"""Above this size, the file with Java's output is moved aside when a server starts."""


def java_command(executable: str, jars: Sequence[str], log_settings: str, configuration: str) -> list[str]:
    """Returns the arguments that start a server."""
    log = f"-Dlog4j2.configurationFile={log_settings}"
    return [executable, *JAVA_FLAGS, log, "-cp", os.pathsep.join(jars), MAIN_CLASS, configuration]


def start_java(command: Sequence[str], output: str) -> subprocess.Popen[bytes]:
    """Starts a Java that writes to the file `output`. It is killed if the calling thread ends before it does.

    Ctrl-C at the terminal does not reach it: its parent decides when it stops. On systems other than Linux it outlives
    a parent that is killed, and the next start reports that the port is in use.
    """
    if os.path.exists(output) and os.path.getsize(output) > OUTPUT_SIZE_MAX:
        os.replace(output, f"{output}.1")
    with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )


def stop_java(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Asks the process to end, and kills it if it has not ended within `within_s` seconds."""
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent() -> _EndWithParent | None:
    """Returns what runs in a child before its program does, so that the kernel kills it when its parent dies.

    None on other systems than Linux. The parent is the thread that starts the child.
    """
    return _EndWithParent() if sys.platform == "linux" else None


class _EndWithParent:
    """Runs in the child before Java does: the kernel will kill the child when its parent dies."""

    def __init__(self) -> None:
        # Loaded before the fork, because the child must not wait for a lock that another thread held.
        self._prctl = ctypes.CDLL(None).prctl
        self._parent = os.getpid()

    def __call__(self) -> None:
        self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:
            # The parent died before the kernel was informed.
            os._exit(1)
