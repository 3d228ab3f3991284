"""Stores and connections to brokers that a Python process of Spark keeps between its tasks.

Opening a store, or connecting to a broker, takes longer than a small task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from warren.errors import WarrenError

if TYPE_CHECKING:
    from warren.client.store import RemoteStore
    from warren.transaction.store import Store

SPARK_STORES_KEPT_MAX: Final = 4
"""How many stores a Python process of Spark keeps open between its tasks."""


class Closable(Protocol):
    """A store that this process has opened, or a client of a broker."""

    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None: ...


Key = TypeVar("Key", bound=Hashable)
Opened = TypeVar("Opened", bound=Closable)


class KeptOpen(Generic[Key, Opened]):
    """At most SPARK_STORES_KEPT_MAX open stores, the least recently used first. One thread, because Spark runs one task
    at a time in a process.

    If a process ends without closing them, the stores recover as after a killed process.
    """

    def __init__(self) -> None:
        self._opened: dict[Key, Opened] = {}

    def get(self, key: Key, open: Callable[[], Opened], is_current: Callable[[Opened], bool]) -> Opened:
        """Returns the store that is kept under `key`. Calls `open` if there is none, or if it is closed or outdated."""
        store = self._opened.pop(key, None)
        if store is not None and (store.is_closed or not is_current(store)):
            _close(store)
            store = None
        self._opened[key] = opened = open() if store is None else store
        while len(self._opened) > SPARK_STORES_KEPT_MAX:
            _close(self._opened.pop(next(iter(self._opened))))
        return opened

    def drop(self, key: Key) -> None:
        """Closes the store that is kept under `key`, if there is one."""
        store = self._opened.pop(key, None)
        if store is not None:
            _close(store)

    def close(self) -> None:
        """Closes all of them."""
        for key in list(self._opened):
            self.drop(key)


def _close(store: Closable) -> None:
    """Closes a store whose files may be damaged, or removed and replaced by those of another store."""
    with suppress(WarrenError, OSError):
        store.close()


@functools.cache
def process_stores() -> KeptOpen[str, Store]:
    """Returns the stores that this process keeps open, by path."""
    return KeptOpen()


@functools.cache
def process_brokers() -> KeptOpen[Hashable, RemoteStore]:
    """Returns the clients that this process keeps connected, by the access to their broker."""
    return KeptOpen()
