"""Store: a data directory with all that is done in it; what `warren.open` gives."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import warren.queue.store
from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.config import TRANSACTION_TIMEOUT_S_DEFAULT
from warren.errors import JournalDamaged, ReadOnlyStore
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
from warren.transaction.coordinator import (
    Coordinator,
    Prepared,
    checked_application,
    checked_id,
    checked_ids,
    checked_version,
)
from warren.transaction.producer import Producer
from warren.transaction.states import State
from warren.transaction.transaction import Transaction

LOGGER: Final = logging.getLogger("warren")


class Store(warren.queue.store.Store):
    """A data directory with transactions. Any number of processes may have it open at once; any thread may use it.

    Opening it finishes what processes that died had committed. If the journal of transactions is damaged the store
    opens all the same: topics are read and put to. Transactions then raise JournalDamaged, and so does what would give
    away messages or partitions of processes that died.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        defaults: Mapping[str, Any] | None = None,
        keeps: bool = True,
        create: bool = True,
        read_only: bool = False,
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            path,
            defaults=defaults,
            keeps=keeps,
            create=create,
            read_only=read_only,
            filesystem=filesystem,
            clock=clock,
        )
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._own_coordinator: Coordinator | None = None
        if read_only:
            return
        self._own_coordinator = Coordinator(self)
        self.settle = self._coordinator.settle
        self.undecided = self._coordinator.undecided
        try:
            self.settle()
        except JournalDamaged as error:
            LOGGER.error("%s: %s", self.path, error)  # the sentence says it all
        except BaseException:
            self.close()
            raise
        self.keeper.add(self._coordinator.keep)

    @property
    def _coordinator(self) -> Coordinator:
        """Decides transactions. Raises ReadOnlyStore if there is none, because nothing may be changed."""
        if self._own_coordinator is None:
            raise ReadOnlyStore(self.path)
        return self._own_coordinator

    def transaction(
        self,
        timeout: Duration = TRANSACTION_TIMEOUT_S_DEFAULT,
        id: str | None = None,
        prepared_timeout: Duration | None = None,
    ) -> Transaction:
        """A transaction: what is put to it happens when it is committed, all of it or nothing.

        It is aborted when it is still open after `timeout` seconds. Once prepared it waits to be decided, for
        `prepared_timeout` seconds or for ever. An `id` belongs to one transaction; that of an aborted one is free.
        """
        return self._coordinator.begin(timeout, id, prepared_timeout)

    def commit(self, id: str) -> State:
        """Commit a prepared transaction, whichever process prepared it: "done". Once more does nothing.

        "committed" where it is decided and another process is about to carry it out. TransactionAborted and
        NoSuchTransaction where it cannot happen.
        """
        return self._coordinator.commit(checked_id(id))

    def abort(self, id: str) -> State:
        """Abort a transaction that is open here, or was prepared anywhere: "aborted". Once more does nothing."""
        return self._coordinator.abort(checked_id(id))

    def transaction_state(self, id: str) -> State:
        """Where a transaction stands; "unknown" where there is none, or it ended long ago."""
        return self._coordinator.state(checked_id(id))

    def commit_batch(self, application: str, version: int, ids: Sequence[str]) -> State:
        """Commit prepared transactions together, as what `application` did to reach `version`: "done".

        After any crash all of them happened or none. A version that is not above the last one of that application
        was decided before: then the transactions given, which are those of a repeat, are aborted, and "done" is the
        answer again. "committed" where all is decided, and could not be carried out yet. Where one of them is not
        prepared, the error that names it, and nothing was decided.
        """
        ids, application = checked_ids(ids), checked_application(application)
        return self._coordinator.commit_batch(application, checked_version(version), ids)

    @property
    def last_failure(self) -> str:
        """Why something that was decided could not be carried out here, the last time; empty where all could."""
        return self._coordinator.last_failure

    def last_version(self, application: str) -> int | None:
        """The version of the last `commit_batch` of an application; None where there was none, or not for long."""
        return self._coordinator.last_version(checked_application(application))

    def commit_all(self, ids: Sequence[str]) -> State:
        """Commit prepared transactions together, as `commit_batch` does, for nobody who would come back: "done".

        Once more does nothing, as long as the transactions are remembered.
        """
        return self._coordinator.commit_batch(None, 0, checked_ids(ids))

    def abort_prepared(self, prefix: str, before: str | None = None) -> list[str]:
        """Abort every prepared transaction whose id starts with `prefix`, and sorts before `before`; their ids."""
        return self._coordinator.abort_prepared(checked_id(prefix), before)

    def recover(self) -> list[Prepared]:
        """Finish what was left, and give the transactions that wait for somebody to decide, the oldest first."""
        return self._coordinator.recover()

    def producer(self, name: str) -> Producer:
        """The producer `name`, which numbers its puts. ProducerBusy while it is open anywhere."""
        self.check_writable()
        producer = Producer(self, name)
        self._producers.add(producer)
        return producer

    def close(self) -> None:
        """Close all topics and producers. What is open of transactions is aborted. Closing twice does no harm."""
        if not self.is_closed and not self.is_read_only:
            self.keeper.stop()
            for producer in list(self._producers):
                producer.close()
            self._coordinator.close()
        super().close()

    def after_fork(self) -> None:
        super().after_fork()
        for producer in list(self._producers):
            producer.after_fork()
        if not self.is_closed and not self.is_read_only:
            self._coordinator.after_fork()


def open(
    path: str | os.PathLike[str], *, create: bool = True, read_only: bool = False, keeps: bool = True, **defaults: Any
) -> Store:
    """Returns the store in the directory `path`. It is made if there is none; with create=False that is NotAStore.

    With `read_only` nothing is ever written, so that it works in a directory that this process may only read. What
    would change something raises ReadOnlyStore. What other processes put is seen; what is due is delivered by others.

    `defaults` are settings for topics that are made through this opening, such as durability="os". With `keeps` a
    thread of this process delivers what is due and retires what is old; without, `store.keep()` does.
    """
    return Store(path, defaults=defaults, keeps=keeps, create=create, read_only=read_only)
