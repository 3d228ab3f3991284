"""The background work of a store: delivers due messages, retires old ones. One thread of each opening does it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from warren.clock import Clock
from warren.queue.state.wakeup import Wakeup

Duty = Callable[[], float]
"""Does the work that is due. Returns after how many seconds to call it again if the store is not rung before."""

PAUSE_AFTER_ERROR_S: Final = 1.0
STOP_S_MAX: Final = 10.0
LOGGER: Final = logging.getLogger("warren")


class Keeper:
    """Calls each duty when it is due. If the duty listens, also calls it when the store is rung.
    Any thread may call.
    """

    def __init__(self, wakeup: Wakeup, clock: Clock, *, threaded: bool) -> None:
        self._wakeup, self._clock, self._threaded = wakeup, clock, threaded
        self._duties: dict[Duty, bool] = {}
        self._next_s: dict[Duty, float] = {}
        self._failing: set[Duty] = set()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def add(self, duty: Duty, *, listens: bool = True) -> None:
        """Calls `duty` from now on, never twice at the same time.

        A duty that does not listen is called only when it is due, because a store may be rung a hundred times a second.
        """
        with self._mutex:
            self._duties[duty] = listens
            if self._threaded and self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="warren-keeper", daemon=True)
                self._thread.start()
        self._wakeup.ring()

    def remove(self, duty: Duty) -> None:
        """Stops calling `duty`. A second call does nothing, because a duty may be about to remove itself."""
        with self._mutex:
            self._duties.pop(duty, None)
            self._next_s.pop(duty, None)
            self._failing.discard(duty)

    def keep(self, *, all_of_them: bool = True, is_rung: bool = False) -> float:
        """Calls all duties, or only those that are due. Returns after how many seconds the next one is due."""
        now_s = self._clock.steady_s()
        with self._mutex:
            duties = [
                duty
                for duty, listens in self._duties.items()
                if all_of_them or (is_rung and listens) or self._next_s.get(duty, 0.0) <= now_s
            ]
        for duty in duties:
            if self._is_stopping:
                break
            if duty not in self._duties:
                continue
            wait_s = self._call(duty)
            with self._mutex:
                if duty in self._duties:
                    self._next_s[duty] = self._clock.steady_s() + wait_s
                else:
                    self._failing.discard(duty)
        with self._mutex:
            times = [self._next_s.get(duty, 0.0) for duty in self._duties]
        return max(0.0, min(times, default=now_s + STOP_S_MAX) - self._clock.steady_s())

    def _call(self, duty: Duty) -> float:
        try:
            wait_s = duty()
        except Exception:
            # Logged once, no matter how often it is tried again.
            if not self._is_stopping and duty not in self._failing:
                LOGGER.exception(
                    "background work of the store failed; it is tried again every %g s", PAUSE_AFTER_ERROR_S
                )
            self._failing.add(duty)
            return PAUSE_AFTER_ERROR_S
        self._failing.discard(duty)
        return wait_s

    def _run(self) -> None:
        rung_before = -1
        while not self._is_stopping:
            rung = self._wakeup.value()
            wait_s = self.keep(all_of_them=False, is_rung=rung != rung_before)
            rung_before = rung
            if wait_s > 0:
                # `stop` rings the store, so this returns immediately.
                self._wakeup.sleep(rung, wait_s)

    def stop(self) -> None:
        """Stops. When this returns, no duty is running."""
        self._is_stopping = True
        self._wakeup.ring()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S_MAX)

    def after_fork(self) -> None:
        """In a child process: starts a thread if the parent had one."""
        self._mutex = threading.Lock()
        thread, self._thread = self._thread, None
        if thread is not None and not self._is_stopping:
            self._thread = threading.Thread(target=self._run, name="warren-keeper", daemon=True)
            self._thread.start()
