"""A registry inside one process, with seeded faults: for simulations and tests.

Everything that a ZooKeeper may do to its clients can be made to happen here, and repeated with the same seed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from threading import RLock
from typing import Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, RegistryClosed, RegistryUnreached
from warren.registry.limits import CALL_S_DEFAULT, SESSION_S_DEFAULT, WATCHES_MAX
from warren.registry.local_tree import LocalTree
from warren.registry.registry import (
    UNKNOWN,
    Callback,
    Change,
    Node,
    Outcome,
    checked_changes,
    checked_path,
    checked_wait,
)

LOGGER: Final = logging.getLogger(__name__)
ADDRESS: Final = "this process"
NEVER: Final = float("inf")


class Fault(Enum):
    """A fault that may happen to one call."""

    LOST_BEFORE = "the request is lost, and the change is not made"
    LOST_AFTER = "the change is made, and the answer is lost"
    LATE = "the answer is lost, and the change is made later, at the latest before the next call of the session"
    DELAY = "the answer is delayed, possibly longer than the caller waits"
    DISCONNECT = "the connection is cut for some time, possibly longer than the session lives"
    EXPIRE = "the session is over, and a new one begins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The probability of each fault for one call, from 0 to 1, and the length of pauses."""

    rates: dict[Fault, float] = field(default_factory=dict)
    delay_s_max: float = 1.0
    cut_s_max: float = 10.0

    @classmethod
    def all(cls, rate: float) -> Faults:
        """Returns faults that are all equally likely."""
        return cls(rates=dict.fromkeys(Fault, rate))


class LocalEnsemble:
    """The tree that many sessions share. Any thread may use it; with one thread and a fake clock it is deterministic.

    Callbacks run at the end of the call that caused them. With `holds_callbacks` they run when `deliver` is called.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        holds_callbacks: bool = False,
    ) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self._random = Random(seed)
        self._holds_callbacks = holds_callbacks
        self._lock = RLock()
        self._tree = LocalTree()
        self._registries: list[LocalRegistry] = []
        self._sessions = 0
        self._due: dict[tuple[int, str, Callback], LocalRegistry] = {}
        self._is_delivering = False

    def connect(self, session_s: float = SESSION_S_DEFAULT, call_s: float = CALL_S_DEFAULT) -> LocalRegistry:
        """Returns a new session."""
        with self._lock:
            registry = LocalRegistry(self, self._next_session(), session_s, call_s)
            self._registries.append(registry)
            return registry

    def disconnect(self, registry: LocalRegistry, for_s: float = NEVER) -> None:
        """Cuts the connection of a session. It is connected again after `for_s` seconds."""
        with self._lock:
            if registry._cut_s is None:
                registry._cut_s = self.clock.steady_s()
            registry._back_s = self.clock.steady_s() + for_s

    def reconnect(self, registry: LocalRegistry) -> None:
        """Connects a session again, or a new one if it has expired in the meantime. Its watches are called."""
        with self._lock:
            registry._back_s = self.clock.steady_s()
            self._move_on()
        self._deliver_unless_held()

    def expire(self, registry: LocalRegistry) -> None:
        """Ends a session at the server. If it is connected, the next one begins immediately."""
        with self._lock:
            self._expire(registry)
        self._deliver_unless_held()

    def plan(self, registry: LocalRegistry, *faults: Fault) -> None:
        """Makes these faults happen to the next calls of a session, one each, instead of random ones."""
        registry._planned.extend(faults)

    def deliver(self) -> int:
        """Runs the callbacks that are due, and those that become due as a result. Returns how many ran."""
        count = 0
        while True:
            with self._lock:
                if self._is_delivering or not self._due:
                    return count
                key = next(iter(self._due))
                registry = self._due.pop(key)
                _, path, callback = key
                if callback not in registry._watches.get(path, ()):
                    continue
                self._is_delivering = True
            try:
                callback()
            except Exception:
                # The other watches are called nevertheless.
                LOGGER.exception("the callback of a watch on %s failed", path)
            finally:
                with self._lock:
                    self._is_delivering = False
            count += 1

    def move_on(self) -> None:
        """Carries out everything that is due by the clock: reconnections, and the ends of sessions."""
        with self._lock:
            self._move_on()
        self._deliver_unless_held()

    # --- For LocalRegistry ---

    def _deliver_unless_held(self) -> None:
        if not self._holds_callbacks:
            self.deliver()

    def _move_on(self) -> None:
        now_s = self.clock.steady_s()
        for registry in self._registries:
            if registry._cut_s is not None:
                if min(now_s, registry._back_s) > registry._cut_s + registry.session_s:
                    self._end_session(registry)
                if registry._back_s <= now_s:
                    registry._cut_s = None
                    self._connected(registry)
            if registry._late and self._random.random() < 0.5:
                self._apply_late(registry)

    def _expire(self, registry: LocalRegistry) -> None:
        self._end_session(registry)
        if registry._cut_s is None:
            self._connected(registry)

    def _connected(self, registry: LocalRegistry) -> None:
        """Connects the client again. It learns whether its session is over, and all its watches are called."""
        if registry._is_over:
            registry._is_over = False
            registry._number = self._next_session()
        for path, callbacks in registry._watches.items():
            for callback in callbacks:
                self._due[registry._index, path, callback] = registry

    def _end_session(self, registry: LocalRegistry) -> None:
        if not registry._is_over:
            registry._is_over = True
            # A server does not execute requests of a session that is over.
            registry._late.clear()
            self._touch(self._tree.end_session(registry._number, self._now_ms()))

    def _apply(self, registry: LocalRegistry, changes: Sequence[Change]) -> Outcome:
        outcome, touched = self._tree.apply(changes, registry._number, self._now_ms())
        self._touch(touched)
        return outcome

    def _apply_late(self, registry: LocalRegistry) -> None:
        while registry._late:
            self._apply(registry, registry._late.pop(0))

    def _touch(self, paths: Sequence[str]) -> None:
        for path in paths:
            for registry in self._registries:
                for callback in registry._watches.get(path, ()):
                    if registry._cut_s is None:
                        self._due[registry._index, path, callback] = registry

    def _drawn_fault(self, registry: LocalRegistry) -> Fault | None:
        if registry._planned:
            return registry._planned.pop(0)
        for fault, rate in self.faults.rates.items():
            if rate and self._random.random() < rate:
                return fault
        return None

    def _next_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def _now_ms(self) -> int:
        return self.clock.now_ns() // 1_000_000


class LocalRegistry:
    """One session at a LocalEnsemble. Implements the contract of Registry."""

    def __init__(self, ensemble: LocalEnsemble, number: int, session_s: float, call_s: float) -> None:
        self.session_s = session_s
        self._call_s = checked_wait(call_s, "call_s")
        self._ensemble = ensemble
        self._index = self._number = number
        self._watches: dict[str, list[Callback]] = {}
        self._planned: list[Fault] = []
        self._late: list[Sequence[Change]] = []
        self._cut_s: float | None = None
        self._back_s = 0.0
        self._is_over = False
        self._is_closed = False

    def read(self, path: str, within_s: float | None = None) -> Node | None:
        """Returns the node, or None if it does not exist."""
        checked_path(path)
        self._arrive(within_s)
        with self._ensemble._lock:
            return self._ensemble._tree.read(path)

    def children(self, path: str, within_s: float | None = None) -> list[str]:
        """Returns the names of the children in order."""
        checked_path(path)
        self._arrive(within_s)
        with self._ensemble._lock:
            return self._ensemble._tree.children(path)

    def write(self, changes: Sequence[Change], within_s: float | None = None) -> Outcome:
        """Makes all changes together or none."""
        checked_changes(changes)
        fault = self._arrive(within_s, is_write=True)
        ensemble = self._ensemble
        with ensemble._lock:
            match fault:
                case Fault.LOST_BEFORE:
                    outcome = UNKNOWN
                case Fault.LATE:
                    self._late.append(list(changes))
                    outcome = UNKNOWN
                case Fault.LOST_AFTER:
                    ensemble._apply(self, changes)
                    outcome = UNKNOWN
                case _:
                    outcome = ensemble._apply(self, changes)
            if fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.LATE):
                # The answer is lost with its connection, and the next connection exists immediately.
                ensemble._connected(self)
        if fault is Fault.DELAY and not self._is_answered_in_time(within_s):
            outcome = UNKNOWN
        ensemble._deliver_unless_held()
        return outcome

    def watch(self, path: str, callback: Callback) -> None:
        """Calls `callback` soon, after each change, and after each reconnection."""
        checked_path(path)
        ensemble = self._ensemble
        with ensemble._lock:
            self._check_open()
            if sum(map(len, self._watches.values())) >= WATCHES_MAX:
                raise BadInput(f"a registry may have {WATCHES_MAX} watches, and this call would exceed that")
            self._watches.setdefault(path, []).append(callback)
            if self._cut_s is None:
                ensemble._due[self._index, path, callback] = self
        ensemble._deliver_unless_held()

    def unwatch(self, path: str, callback: Callback) -> None:
        """Ends a watch."""
        with self._ensemble._lock:
            callbacks = self._watches.get(path, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._watches.pop(path, None)

    def is_connected(self) -> bool:
        """Returns whether a server answers this session."""
        self._ensemble.move_on()
        return self._cut_s is None and not self._is_closed

    def session(self) -> int:
        """Returns the number of the session."""
        self._ensemble.move_on()
        return self._number

    def remaining_s(self) -> float:
        """Returns for how long the session is certain to live if no server answers from now on."""
        self._ensemble.move_on()
        with self._ensemble._lock:
            if self._is_closed:
                return 0.0
            if self._cut_s is None:
                return self.session_s
            return max(0.0, self._cut_s + self.session_s - self._ensemble.clock.steady_s())

    def close(self) -> None:
        """Ends the session and its ephemeral nodes."""
        ensemble = self._ensemble
        with ensemble._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._watches.clear()
            ensemble._end_session(self)
            ensemble._registries.remove(self)
        ensemble._deliver_unless_held()

    def _arrive(self, within_s: float | None, *, is_write: bool = False) -> Fault | None:
        """Delivers a request to the ensemble. Returns the fault that a write has to execute.

        Raises RegistryUnreached if the request does not arrive in time, or if it is a read without an answer.
        """
        wait_s = self._call_s if within_s is None else checked_wait(within_s)
        ensemble = self._ensemble
        with ensemble._lock:
            self._check_open()
            fault = ensemble._drawn_fault(self)
            if fault is Fault.DISCONNECT:
                ensemble.disconnect(self, ensemble._random.random() * ensemble.faults.cut_s_max)
            elif fault is Fault.EXPIRE:
                ensemble._expire(self)
            ensemble._move_on()
            cut_for_s = 0.0 if self._cut_s is None else self._back_s - ensemble.clock.steady_s()
        if cut_for_s > 0:
            ensemble.clock.sleep(min(wait_s, cut_for_s))
            ensemble.move_on()
            if cut_for_s > wait_s:
                raise RegistryUnreached(ADDRESS, wait_s, "the connection is cut")
        with ensemble._lock:
            ensemble._apply_late(self)
        ensemble._deliver_unless_held()
        if is_write or fault in (None, Fault.DISCONNECT, Fault.EXPIRE):
            return fault
        if fault is not Fault.DELAY or not self._is_answered_in_time(within_s):
            raise RegistryUnreached(ADDRESS, wait_s, "the answer was lost")
        return None

    def _is_answered_in_time(self, within_s: float | None) -> bool:
        """Waits for a delayed answer, up to the deadline. Returns whether it came in time."""
        ensemble = self._ensemble
        wait_s = self._call_s if within_s is None else within_s
        delay_s = ensemble._random.random() * ensemble.faults.delay_s_max
        ensemble.clock.sleep(min(wait_s, delay_s))
        return delay_s <= wait_s

    def _check_open(self) -> None:
        if self._is_closed:
            raise RegistryClosed
