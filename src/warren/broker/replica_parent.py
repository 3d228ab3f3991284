"""The parent of a replica: runs it as a child, starts it again, and says in the registry when it has died.

So a fail-over need not wait for the session of the dead process, nor for its lease. The parent touches no file.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from warren.broker.cluster.paths import ClusterPaths
from warren.broker.cluster.settings import ClusterSettings
from warren.broker.cluster.shard_registry import ShardRegistry
from warren.broker.replica_server import LEAVE_S, Exit, connected_registry
from warren.clock import SYSTEM_CLOCK
from warren.errors import WarrenError
from warren.registry.java_process import end_with_parent

LOGGER: Final = logging.getLogger("warren.broker")
RESTART_S_MIN: Final = 0.2
RESTART_S_MAX: Final = 5.0
"""The first and the longest pause before a replica that failed is started again."""
STEADY_S: Final = 30.0
"""A replica that has run for so long begins with the shortest pause again."""
KILL_S: Final = LEAVE_S + 5.0
"""After so long a child that was asked to stop is killed."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class ReplicaParent:
    """Runs one replica until it is asked to stop, or the replica says that it cannot be one. In the main thread."""

    def __init__(self, cluster: ClusterSettings, command: Callable[[str], Sequence[str]]) -> None:
        self._cluster, self._command = cluster, command
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopping = threading.Event()
        self._registry: ShardRegistry | None = None

    def run(self) -> int:
        """Runs the replica. Returns the exit code for the command."""
        for each in SIGNALS:
            signal.signal(each, self._stop)
        connecting = threading.Thread(target=self._connect, name="warren parent registry", daemon=True)
        connecting.start()
        pause_s = RESTART_S_MIN
        while True:
            nonce, begun_s = uuid.uuid4().hex, SYSTEM_CLOCK.steady_s()
            code = self._run_once(nonce)
            self._note_death(nonce)
            if self._is_stopping.is_set() or code in (Exit.STOPPED, Exit.REFUSED):
                return Exit.STOPPED if self._is_stopping.is_set() else code
            if SYSTEM_CLOCK.steady_s() - begun_s > STEADY_S:
                pause_s = RESTART_S_MIN
            if code != Exit.AGAIN:
                LOGGER.warning("the replica ended with code %d; it is started again in %.1f s", code, pause_s)
                if self._is_stopping.wait(pause_s):
                    return Exit.STOPPED
                pause_s = min(pause_s * 2, RESTART_S_MAX)

    def _run_once(self, nonce: str) -> int:
        # In the main thread, because the kernel kills the child when the thread ends that made it.
        child = self._child = subprocess.Popen(self._command(nonce), preexec_fn=end_with_parent())
        if self._is_stopping.is_set():
            child.terminate()
        while True:
            try:
                return child.wait(KILL_S if self._is_stopping.is_set() else None)
            except subprocess.TimeoutExpired:
                LOGGER.warning("the replica does not stop; it is killed")
                child.kill()

    def _stop(self, number: int, frame: Any) -> None:
        self._is_stopping.set()
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.terminate()

    # --- The registry ---

    def _connect(self) -> None:
        """Connects in the background: the child says what is wrong if this does not work."""
        while self._registry is None and not self._is_stopping.is_set():
            try:
                session = connected_registry(self._cluster)
                self._registry = ShardRegistry(session, ClusterPaths(self._cluster.root), self._cluster.shard)
            except WarrenError as error:
                LOGGER.debug("the parent has no registry: %s", error)
                self._is_stopping.wait(1.0)

    def _note_death(self, nonce: str) -> None:
        """Removes the node of the child, which has ended, and notes that its epoch has no master."""
        if self._registry is None:
            return
        try:
            self._registry.unregister(self._cluster.replica, nonce)
        except WarrenError as error:
            LOGGER.warning("the registry does not know that the replica has ended: %s", error)


def run_parent(cluster: ClusterSettings, command: Callable[[str], Sequence[str]]) -> int:
    """Runs a replica with a parent. Returns the exit code for the command."""
    code = ReplicaParent(cluster, command).run()
    sys.stdout.flush()
    return code
