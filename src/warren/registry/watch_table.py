"""The watches of a registry, and the thread that arms them at the server and runs their callbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Condition, Thread, current_thread
from typing import Final

from warren.errors import BadInput, RegistryError
from warren.registry.limits import WATCHES_MAX
from warren.registry.registry import Callback

LOGGER: Final = logging.getLogger(__name__)
ARMED_MAX: Final = 100
"""How many watches are armed with one call."""
RETRY_S: Final = 1.0
"""After this time, watches that could not be armed are tried again, unless a reconnection comes first."""
Arm = Callable[[Sequence[str]], None]


class WatchTable:
    """Callbacks by path. Any thread may use it; callbacks run one at a time on the thread of the table.

    A server reports one change only, so a watch is armed again before its callbacks run: a change that comes while they
    read is reported by the new watch. `arm` raises RegistryError if it could not arm the paths.
    """

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._condition = Condition()
        self._callbacks: dict[str, list[Callback]] = {}
        self._count = 0
        self._due: dict[str, None] = {}
        self._is_waiting = False
        self._is_closed = False
        self._thread = Thread(target=self._run, name="warren registry watches", daemon=True)
        self._thread.start()

    def add(self, path: str, callback: Callback) -> None:
        """Adds a watch. Its callback runs soon, when the watch is armed. Raises BadInput if there are too many."""
        with self._condition:
            if self._count >= WATCHES_MAX:
                raise BadInput(f"a registry may have {WATCHES_MAX} watches, and this call would exceed that")
            self._callbacks.setdefault(path, []).append(callback)
            self._count += 1
            self._mark([path])

    def remove(self, path: str, callback: Callback) -> bool:
        """Removes a watch. Returns whether the path has other watches."""
        with self._condition:
            callbacks = self._callbacks.get(path, [])
            if callback in callbacks:
                callbacks.remove(callback)
                self._count -= 1
            if not callbacks:
                self._callbacks.pop(path, None)
            return bool(callbacks)

    def mark(self, path: str) -> None:
        """Makes a watch due, because its node may have changed. Does not block."""
        with self._condition:
            self._mark([path])

    def mark_all(self) -> None:
        """Makes every watch due, because there is a new connection. Does not block."""
        with self._condition:
            self._mark(list(self._callbacks))

    def close(self) -> None:
        """Ends the thread. A callback that runs now may still be running when this returns."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def join(self, within_s: float) -> None:
        """Waits for the thread to end, unless it is the caller itself."""
        if current_thread() is not self._thread:
            self._thread.join(within_s)

    def _mark(self, paths: Sequence[str]) -> None:
        self._due.update(dict.fromkeys(path for path in paths if path in self._callbacks))
        self._is_waiting = False
        self._condition.notify_all()

    def _run(self) -> None:
        while (paths := self._next()) is not None:
            try:
                self._arm(paths)
            except RegistryError as error:
                LOGGER.debug("watches could not be armed: %s", error)
                self._retry(paths)
                continue
            for path in paths:
                self._announce(path)

    def _next(self) -> list[str] | None:
        """Waits for due watches. Returns some of them, or None if the table is closed."""
        with self._condition:
            while not self._is_closed and (self._is_waiting or not self._due):
                was_waiting = self._is_waiting
                self._condition.wait(RETRY_S if was_waiting else None)
                self._is_waiting = False
            if self._is_closed:
                return None
            paths = list(self._due)[:ARMED_MAX]
            for path in paths:
                del self._due[path]
            return paths

    def _retry(self, paths: Sequence[str]) -> None:
        with self._condition:
            self._due.update(dict.fromkeys(paths))
            self._is_waiting = True

    def _announce(self, path: str) -> None:
        with self._condition:
            callbacks = list(self._callbacks.get(path, ()))
        for callback in callbacks:
            if self._is_closed:
                return
            try:
                callback()
            except Exception:
                # The other watches are called nevertheless.
                LOGGER.exception("the callback of a watch on %s failed", path)
