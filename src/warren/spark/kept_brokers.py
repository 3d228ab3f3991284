"""Brokers that a Python process of Spark stays connected to between its tasks: connecting takes longer than asking."""

from __future__ import annotations

import functools
from typing import Protocol

from warren.client.store import RemoteStore
from warren.config import SPARK_STORES_KEPT_MAX


class Connecting(Protocol):
    """How to reach a broker; equal to another that reaches the same one as the same user."""

    def connect(self) -> RemoteStore: ...
    def __hash__(self) -> int: ...


class KeptBrokers:
    """Clients by how they reach their brokers, the latest used last. Used by one thread at a time."""

    def __init__(self) -> None:
        self._stores: dict[Connecting, RemoteStore] = {}

    def get(self, reach: Connecting) -> RemoteStore:
        """The client that reaches the broker so."""
        store = self._stores.pop(reach, None)
        if store is None or store.is_closed:
            store = reach.connect()
        self._stores[reach] = store
        while len(self._stores) > SPARK_STORES_KEPT_MAX:
            self._stores.pop(next(iter(self._stores))).close()
        return store

    def drop(self, reach: Connecting) -> None:
        """Close a client with which something went wrong."""
        store = self._stores.pop(reach, None)
        if store is not None:
            store.close()

    def close(self) -> None:
        """Close all of them."""
        for reach in list(self._stores):
            self.drop(reach)


@functools.cache
def process_brokers() -> KeptBrokers:
    """The clients that this process keeps."""
    return KeptBrokers()
