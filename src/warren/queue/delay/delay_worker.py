"""Mover: the one process of a store that delivers due messages, for all of its topics."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Protocol

from warren.clock import Clock
from warren.errors import GONE, NoSuchTopic
from warren.queue.delay.delay import DelayingTopic
from warren.queue.delay.delivery import LOOK_S, Delivery
from warren.queue.state import paths
from warren.storage.disk.filesystem import FileSystem, Lock

LIST_S: Final = 0.01
"""How often the mover checks, at most, whether more topics have parked messages."""


class DelayingStore(Protocol):
    """The part of a store that delivery uses."""

    @property
    def path(self) -> str: ...
    @property
    def filesystem(self) -> FileSystem: ...
    @property
    def clock(self) -> Clock: ...
    def existing_topic(self, name: str) -> DelayingTopic: ...


class Mover:
    """A duty of the store's keeper. The process that holds `mover.lock` delivers, until it ends or fails.

    It also delivers to topics that this process never opened. Any thread may call.
    """

    def __init__(self, store: DelayingStore) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._lock: Lock | None = None
        self._is_mover = False
        self._deliveries: dict[str, Delivery] = {}
        self._names: Sequence[str] = ()
        self._listed_s = float("-inf")

    def run(self) -> float:
        """Delivers some of the due messages. Returns after how many seconds there is more to do."""
        with self._mutex:
            return self._run() if self._become_mover() else LOOK_S

    def _run(self) -> float:
        wait_s = self._list_topics()
        error: Exception | None = None
        for name in self._names:
            try:
                wait_s = min(wait_s, self._step(name))
            except (NoSuchTopic, *GONE):
                # The topic was deleted in between. A new one of the same name is found by the next listing.
                self._deliveries.pop(name, None)
            except Exception as other:  # noqa: BLE001
                # An error of one topic must not delay the other topics.
                error = other
        if error is not None:
            # Another process may succeed.
            self._stop()
            raise error
        return wait_s

    def _become_mover(self) -> bool:
        if not self._is_mover:
            if self._lock is None:
                self._lock = self._store.filesystem.lock(paths.mover_lock(self._store.path))
            self._is_mover = self._lock.try_acquire()
        return self._is_mover

    def _list_topics(self) -> float:
        """Finds the topics with parked messages. Returns after how many seconds to check again."""
        store, now_s = self._store, self._store.clock.steady_s()
        if now_s < self._listed_s + LIST_S:
            return LIST_S
        self._listed_s = now_s
        topics = paths.topics_directory(store.path)
        self._names = [
            name
            for name in store.filesystem.names(topics)
            if store.filesystem.exists(paths.delayed_directory(paths.topic_directory(store.path, name)))
        ]
        for name in self._deliveries.keys() - self._names:
            # The topic was deleted.
            del self._deliveries[name]
        return LOOK_S

    def _step(self, name: str) -> float:
        topic = self._store.existing_topic(name)
        delivery = self._deliveries.get(name)
        if delivery is None or delivery.topic is not topic:
            delivery = self._deliveries[name] = Delivery(topic)
        return delivery.step()

    def stop(self) -> None:
        """Stops delivering, so that another process can take over."""
        with self._mutex:
            self._stop()

    def _stop(self) -> None:
        for delivery in self._deliveries.values():
            delivery.topic.delay.forget_order()
        self._deliveries.clear()
        lock, self._lock, self._is_mover = self._lock, None, False
        if lock is not None:
            lock.release()
            lock.close()

    def after_fork(self) -> None:
        """In a child process: stops, because the parent continues to deliver."""
        self._mutex = threading.Lock()
        self._deliveries.clear()
        lock, self._lock, self._is_mover = self._lock, None, False
        if lock is not None:
            # Closed, not released: the parent holds the same lock, and keeps it.
            lock.close()
