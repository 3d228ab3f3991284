"""Stores that a Python process of Spark keeps open between its tasks: opening one takes longer than a small task."""

from __future__ import annotations

import functools
import socket
from contextlib import suppress

from warren.config import SPARK_STORES_KEPT_MAX
from warren.errors import NotAStore, WarrenError
from warren.queue import store_paths
from warren.queue.json_file import read_json
from warren.spark.catalog import Catalog
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM
from warren.transaction.store import Store


class KeptStores:
    """Open stores by path, the latest used last. Used by one thread at a time, as Spark runs tasks.

    They keep nothing by themselves: no thread of theirs works while no task does. A process that ends without closing
    them leaves what one that is killed leaves, which every store is made for.
    """

    def __init__(self) -> None:
        self._stores: dict[str, Store] = {}

    def get(self, path: str, id: str) -> Store:
        """The store with this id; NotAStore, naming the host, where it is not there."""
        check_store(path, id)
        store = self._stores.pop(path, None)
        if store is not None and (store.id != id or store.is_closed):
            _close(store)
            store = None
        self._stores[path] = found = Store(path, keeps=False) if store is None else store
        while len(self._stores) > SPARK_STORES_KEPT_MAX:
            _close(self._stores.pop(next(iter(self._stores))))
        return found

    def drop(self, path: str) -> None:
        """Close a store with which something went wrong."""
        store = self._stores.pop(path, None)
        if store is not None:
            _close(store)

    def close(self) -> None:
        """Close all of them."""
        for path in list(self._stores):
            self.drop(path)


def _close(store: Store) -> None:
    """Close a store that may be damaged, or gone: others may have removed its files, and put another in its place."""
    with suppress(WarrenError, OSError):
        store.close()


@functools.cache
def process_stores() -> KeptStores:
    """The stores that this process keeps."""
    return KeptStores()


def made_store(path: str) -> str:
    """The id of the store at `path`, made where there is none: on the driver, and nowhere else."""
    data = read_json(SYSTEM_FILE_SYSTEM, store_paths.store_file(path))
    if data is None:
        with Store(path, keeps=False) as store:
            return store.id
    return str(data.get("id"))


def check_store(path: str, id: str) -> None:
    """NotAStore, naming the host, where there is another store than the one with this id, or none."""
    catalog = Catalog(path)
    data = read_json(SYSTEM_FILE_SYSTEM, store_paths.store_file(catalog.path)) or {}
    if data.get("id") != id:
        raise NotAStore(
            path,
            f"on the host {socket.gethostname()} it is another store than on the driver; on a cluster the path must "
            "lie on storage that the driver and every worker share",
        )
