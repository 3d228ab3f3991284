"""Renewals: the leases of messages that a program has in hand are renewed before they run out."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from warren.clock import Clock
from warren.config import RENEWAL_COUNT_MAX, RENEWAL_IDLE_S, RENEWAL_PAUSE_S, RENEWAL_STOP_S
from warren.errors import GroupClosed, NoSuchGroup, NoSuchTopic, StoreClosed, WarrenError
from warren.message import Message, Origin, named
from warren.storage.residents import process_residents

Place = tuple[int, int]
Renew = Callable[[Sequence[Message]], Sequence[Place]]
"""Renews the leases of these messages, for as long as a new lease lasts. Returns the places of those that are lost."""

DUE_AT: Final = 0.5
"""The share of a lease after which it is renewed."""
EARLY: Final = 0.25
"""The share of a lease by which a lease is renewed too early, if others of its group are due: one event serves all."""
OVER: Final = (GroupClosed, StoreClosed, NoSuchGroup, NoSuchTopic)
LOGGER: Final = logging.getLogger("warren")


@dataclass(slots=True, eq=False)
class Hand:
    """What one take gave. `places` has the attempt of each message that is still to be renewed."""

    topic: str
    group: str
    places: dict[Place, int]
    renew: weakref.WeakMethod[Renew]
    origin: weakref.ref[Origin]
    lease_s: float
    due_s: float
    end_s: float


class Renewals:
    """Renews leases for all queue groups of a store, in a thread that starts with the first take. Any thread may call.

    A message is in hand while the program refers to it and the group that it was taken from is open. Python says when
    that ends: all messages of a take share one object, the name of their topic, and a weak reference to it tells when
    the last of them is gone. So nothing has to be done when a message is acknowledged, and a message that a worker
    dropped without a word is handed out again when its lease runs out.

    Without a thread (`threaded`), `run` renews what is due when it is called.
    """

    def __init__(self, clock: Clock, *, threaded: bool) -> None:
        self._clock, self._threaded = clock, threaded
        self._begin()
        process_residents().register(self)

    def _begin(self) -> None:
        self._hands: dict[int, Hand] = {}
        self._serials = itertools.count()
        # The garbage collector adds to this, in any thread and at any moment: it must not wait for a lock.
        self._gone: deque[int] = deque()
        self._changed = threading.Condition()
        self._failing: set[str] = set()
        self._wakes_s = math.inf
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def hold(
        self, messages: Sequence[Message], group: str, renew: Renew, *, lease_s: float, renew_s_max: float
    ) -> list[Message]:
        """Renews the leases of messages that were taken now, for up to `renew_s_max` seconds.

        Returns the messages to give to the caller: while it refers to one of them, they are in hand.
        """
        origin = Origin(messages[0].topic)
        if isinstance(messages[0].topic, Origin):
            origin.answer = messages[0].topic.answer
        now_s, serial = self._clock.steady_s(), next(self._serials)
        hand = Hand(
            str(origin),
            group,
            {(message.partition, message.number): message.attempt for message in messages},
            weakref.WeakMethod(renew),
            weakref.ref(origin, lambda _, gone=self._gone: gone.append(serial)),  # type: ignore[misc]
            lease_s,
            now_s + DUE_AT * lease_s,
            now_s + renew_s_max,
        )
        with self._changed:
            self._forget_gone()
            self._hands[serial] = hand
            if hand.due_s < self._wakes_s:
                self._start()
                self._changed.notify()
        return _with_origin(messages, origin)

    def _start(self) -> None:
        if self._threaded and self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(target=self._run, name="warren-renewals", daemon=True)
            self._thread.start()

    def drop(self, topic: str, group: str, messages: Sequence[Message]) -> None:
        """Leaves the leases of these messages as they are from now on: the caller said how long they last."""
        # The group itself refuses what is no message.
        given: Sequence[object] = messages
        places = [(message.partition, message.number) for message in given if isinstance(message, Message)]
        with self._changed:
            for hand in self._hands.values():
                if (hand.topic, hand.group) == (topic, group):
                    for place in places:
                        hand.places.pop(place, None)

    def _forget_gone(self) -> None:
        while self._gone:
            self._hands.pop(self._gone.popleft(), None)

    # --- Renewing ---

    def run(self) -> float:
        """Renews what is due. Returns after how many seconds there is more to renew."""
        now_s = self._clock.steady_s()
        with self._changed:
            self._forget_gone()
            self._hands = {serial: hand for serial, hand in self._hands.items() if hand.places and hand.end_s > now_s}
            due = {(hand.topic, hand.group) for hand in self._hands.values() if hand.due_s <= now_s}
            hands = [
                (serial, hand)
                for serial, hand in self._hands.items()
                if (hand.topic, hand.group) in due and hand.due_s <= now_s + EARLY * hand.lease_s
            ]
        by_method: dict[int, tuple[Renew, list[tuple[int, Hand]]]] = {}
        for serial, hand in hands:
            renew = hand.renew()
            if renew is None:
                # The group was collected: its messages cannot be acknowledged through it any more.
                self._gone.append(serial)
            else:
                owner = id(getattr(renew, "__self__", renew))
                by_method.setdefault(owner, (renew, []))[1].append((serial, hand))
        for renew, found in by_method.values():
            self._renew(renew, found)
        with self._changed:
            return max(0.0, self._next_s() - self._clock.steady_s())

    def _renew(self, renew: Renew, hands: Sequence[tuple[int, Hand]]) -> None:
        """Renews the leases of one worker. What cannot be renewed now is tried again soon."""
        with self._changed:
            messages = [
                named(hand.topic, *place, attempt) for _, hand in hands for place, attempt in hand.places.items()
            ]
        group, lease_s = hands[0][1].group, hands[0][1].lease_s
        lost: list[Place] = []
        pause_s = DUE_AT * lease_s
        try:
            for start in range(0, len(messages), RENEWAL_COUNT_MAX):
                lost += renew(messages[start : start + RENEWAL_COUNT_MAX])
            self._failing.discard(group)
        except OVER:
            self._gone.extend(serial for serial, _ in hands)
            return
        except Exception as error:
            # Logged once, however often it is tried again. The expected, such as a broker that restarts, is one line.
            if not self._is_stopping and group not in self._failing:
                is_bug = not isinstance(error, WarrenError | OSError)
                LOGGER.warning(
                    "leases of group %r could not be renewed; this is tried again: %s", group, error, exc_info=is_bug
                )
            self._failing.add(group)
            pause_s = min(RENEWAL_PAUSE_S, EARLY * lease_s)
        with self._changed:
            due_s = self._clock.steady_s() + pause_s
            for _, hand in hands:
                hand.due_s = due_s
                for place in lost:
                    # Settled, or handed out again: the caller is told when it acknowledges.
                    hand.places.pop(place, None)

    def _next_s(self) -> float:
        return min((hand.due_s for hand in self._hands.values()), default=math.inf)

    def _run(self) -> None:
        while True:
            self.run()
            with self._changed:
                # Looked at under the lock: a take that comes before the wait would ring in vain.
                self._wakes_s = self._next_s()
                wait_s = min(self._wakes_s - self._clock.steady_s(), RENEWAL_IDLE_S)
                is_rung = self._is_stopping or wait_s <= 0 or self._changed.wait(wait_s)
                if self._is_stopping or not (is_rung or self._hands):
                    self._wakes_s, self._thread = math.inf, None
                    return

    def stop(self) -> None:
        """Renews no more."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(RENEWAL_STOP_S)

    # --- As a resident of the process: told when it forks, asked for no files ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """In a child: what the parent took is the parent's to renew."""
        is_stopping = self._is_stopping
        self._begin()
        self._is_stopping = is_stopping


def _with_origin(messages: Sequence[Message], origin: Origin) -> list[Message]:
    """The messages, each of them with this name of their topic."""
    numbers, offsets, partitions, _, *rest = zip(*messages, strict=True)
    rows = zip(numbers, offsets, partitions, repeat(origin, len(messages)), *rest, strict=True)
    return list(map(tuple.__new__, repeat(Message), rows))
