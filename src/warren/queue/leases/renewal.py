"""Renews the leases of messages that a program still refers to, before they run out."""

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
from typing import Final, Protocol

from warren.clock import Clock
from warren.errors import GroupClosed, NoSuchGroup, NoSuchTopic, StoreClosed, WarrenError
from warren.message import Message, Origin, named
from warren.queue.leases.lease_check import MessageKey
from warren.queue.state.topic_view import StoreView, TopicView
from warren.storage.disk.open_files import process_residents

RENEWAL_COUNT_MAX: Final = 1_000
"""How many leases are renewed with one event of the ledger, or one request to a broker."""
RENEWAL_PAUSE_S: Final = 1.0
"""The longest pause before a failed renewal is tried again."""
RENEWAL_IDLE_S: Final = 60.0
"""The thread that renews leases ends after this time without a message in hand."""
RENEWAL_STOP_S: Final = 10.0
"""How long closing a store waits for a running renewal."""

Renew = Callable[[Sequence[Message]], Sequence[MessageKey]]
"""Renews the leases of these messages for the duration of a new lease. Returns the places of leases that have ended."""

DUE_AT: Final = 0.5
"""The share of a lease after which it is renewed."""
EARLY: Final = 0.25
"""A lease is renewed early, by up to this share of it, if other leases of its group are due, because one event serves
all.
"""
OVER: Final = (GroupClosed, StoreClosed, NoSuchGroup, NoSuchTopic)
LOGGER: Final = logging.getLogger("warren")


@dataclass(slots=True, eq=False)
class Hand:
    """The messages of one take. `places` holds the attempt of each message whose lease is still renewed."""

    topic: str
    group: str
    places: dict[MessageKey, int]
    renew: weakref.WeakMethod[Renew]
    origin: weakref.ref[Origin]
    lease_s: float
    due_s: float
    end_s: float


class Renewals:
    """Renews leases for all queue groups of a store, in a thread that starts with the first take. Any thread may call.

    A message is in hand while the program refers to it and the group that it was taken from is open. All messages of a
    take share one object, the name of their topic. A weak reference to that object shows when the last of the messages
    was collected. So an acknowledgement costs nothing here, and a message that a worker dropped is handed out again
    when its lease runs out.

    Without a thread (`threaded=False`), `run` renews the leases that are due when it is called.
    """

    def __init__(self, clock: Clock, *, threaded: bool) -> None:
        self._clock, self._threaded = clock, threaded
        self._begin()
        process_residents().register(self)

    def _begin(self) -> None:
        self._hands: dict[int, Hand] = {}
        self._serials = itertools.count()
        # The garbage collector adds to this, in any thread and at any moment, so it must not wait for a lock.
        self._gone: deque[int] = deque()
        self._changed = threading.Condition()
        self._failing: set[str] = set()
        self._wakes_s = math.inf
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def hold(
        self, messages: Sequence[Message], group: str, renew: Renew, *, lease_s: float, renew_s_max: float
    ) -> list[Message]:
        """Renews the leases of messages that were just taken, for up to `renew_s_max` seconds.

        Returns the messages to give to the caller. They are in hand while the caller refers to one of them.
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
        numbers, offsets, partitions, _, *rest = zip(*messages, strict=True)
        rows = zip(numbers, offsets, partitions, repeat(origin, len(messages)), *rest, strict=True)
        return list(map(tuple.__new__, repeat(Message), rows))

    def _start(self) -> None:
        if self._threaded and self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(target=self._run, name="warren-renewals", daemon=True)
            self._thread.start()

    def drop(self, topic: str, group: str, messages: Sequence[Message]) -> None:
        """Stops renewing the leases of these messages, because the caller has set their duration."""
        # The group itself refuses an argument that is not a message.
        candidates: Sequence[object] = messages
        places = [(message.partition, message.number) for message in candidates if isinstance(message, Message)]
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
        """Renews the leases that are due. Returns after how many seconds there is more to renew."""
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
                # The group was collected, so its messages can no longer be acknowledged through it.
                self._gone.append(serial)
            else:
                owner = id(getattr(renew, "__self__", renew))
                by_method.setdefault(owner, (renew, []))[1].append((serial, hand))
        for renew, of_group in by_method.values():
            self._renew(renew, of_group)
        with self._changed:
            return max(0.0, self._next_s() - self._clock.steady_s())

    def _renew(self, renew: Renew, hands: Sequence[tuple[int, Hand]]) -> None:
        """Renews the leases of one worker. If that fails, it tries again soon."""
        with self._changed:
            messages = [
                named(hand.topic, *place, attempt) for _, hand in hands for place, attempt in hand.places.items()
            ]
        group, lease_s = hands[0][1].group, hands[0][1].lease_s
        lost: list[MessageKey] = []
        pause_s = DUE_AT * lease_s
        try:
            for start in range(0, len(messages), RENEWAL_COUNT_MAX):
                lost += renew(messages[start : start + RENEWAL_COUNT_MAX])
            self._failing.discard(group)
        except OVER:
            self._gone.extend(serial for serial, _ in hands)
            return
        except Exception as error:
            # Logged once, no matter how often it is tried again. An expected failure, such as a broker that restarts,
            # takes one line.
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
                    # Settled, or handed out again. The caller gets LeaseLost when it acknowledges.
                    hand.places.pop(place, None)

    def _next_s(self) -> float:
        return min((hand.due_s for hand in self._hands.values()), default=math.inf)

    def _run(self) -> None:
        while True:
            self.run()
            with self._changed:
                # Computed under the lock. Otherwise the notification of a take that comes just before the wait would be
                # lost.
                self._wakes_s = self._next_s()
                wait_s = min(self._wakes_s - self._clock.steady_s(), RENEWAL_IDLE_S)
                is_rung = self._is_stopping or wait_s <= 0 or self._changed.wait(wait_s)
                if self._is_stopping or not (is_rung or self._hands):
                    self._wakes_s, self._thread = math.inf, None
                    return

    def stop(self) -> None:
        """Stops renewing."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(RENEWAL_STOP_S)

    # --- As a resident of the process: called after a fork, has no files to close ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        """In a child process: discards everything, because the parent renews the leases of the
        messages that it took.
        """
        is_stopping = self._is_stopping
        self._begin()
        self._is_stopping = is_stopping


class LeasingStore(StoreView, Protocol):
    """The store of a topic that has queue groups."""

    @property
    def renewals(self) -> Renewals: ...


class LeasingTopic(TopicView, Protocol):
    """A topic as queue groups see it."""

    @property
    def store(self) -> LeasingStore: ...
