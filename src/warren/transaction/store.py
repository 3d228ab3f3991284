"""Store: a data directory with all features, including transactions. `warren.open` returns it."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import warren.queue.store
from warren.clock import SYSTEM_CLOCK, Clock, Duration
from warren.errors import JournalDamaged, ReadOnlyStore
from warren.limits import TRANSACTION_TIMEOUT_S_DEFAULT
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem
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
    """A data directory with transactions. Any number of processes may have it open at the same time; any thread may use
    it.

    Opening it finishes the committed transactions of dead processes. If the journal of transactions is damaged, the
    store opens nevertheless: topics can be read and put to. Transactions then raise JournalDamaged, and so does a call
    that would give messages or partitions of dead processes to others.
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
        self._own_coordinator: Coordinator | None = None
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
        if read_only:
            return
        self._own_coordinator = Coordinator(self)
        try:
            self.settle()
        except JournalDamaged as error:
            LOGGER.error("%s: %s", self.path, error)  # the sentence is complete
        except BaseException:
            self.close()
            raise
        self.keeper.add(self._coordinator.keep)

    @property
    def _coordinator(self) -> Coordinator:
        """Decides transactions. Raises ReadOnlyStore if the store is read-only."""
        if self._own_coordinator is None:
            raise ReadOnlyStore(self.path)
        return self._own_coordinator

    def settle(self) -> None:
        """Finishes the committed transactions of dead sessions. Called without a lock, before their leases are freed.

        Does nothing if the store is read-only.
        """
        if self._own_coordinator is not None:
            self._own_coordinator.settle()

    def undecided(self, topic: str, group: str) -> Set[int]:
        """Returns the partitions in which the position of a group depends on an undecided transaction."""
        return frozenset() if self._own_coordinator is None else self._own_coordinator.undecided(topic, group)

    def transaction(
        self,
        timeout: Duration = TRANSACTION_TIMEOUT_S_DEFAULT,
        id: str | None = None,
        prepared_timeout: Duration | None = None,
    ) -> Transaction:
        """Returns a new transaction. Its puts happen together when it is committed, or not at all.

        It is aborted if it is still open after `timeout` seconds. Once prepared it waits for a decision: for
        `prepared_timeout` seconds, or without a limit if that is None. An `id` belongs to one transaction; the id of an
        aborted one is free. Raises TransactionExists if the id is in use.
        """
        return self._coordinator.begin(timeout, id, prepared_timeout)

    def commit(self, id: str) -> State:
        """Commits a prepared transaction of any process, and returns "done".

        A second call changes nothing.

        Returns "committed" if it is decided and another process is about to carry it out. Raises TransactionAborted or
        NoSuchTransaction if it cannot be committed.
        """
        return self._coordinator.commit(checked_id(id))

    def abort(self, id: str) -> State:
        """Aborts a transaction that is open in this process, or was prepared in any process. Returns "aborted".

        A second call changes nothing.
        """
        return self._coordinator.abort(checked_id(id))

    def transaction_state(self, id: str) -> State:
        """Returns the state of a transaction; "unknown" if it does not exist or ended long ago."""
        return self._coordinator.state(checked_id(id))

    def commit_batch(self, application: str, version: int, ids: Sequence[str]) -> State:
        """Commits prepared transactions together, as the step of `application` to `version`. Returns "done".

        After a crash all of them happened, or none. If the version is not above the last one of the application, it was
        decided before, and these transactions are a repetition: they are aborted, and the result is "done" again.
        Returns "committed" if all is decided and could not be carried out yet. If one of them is not prepared, raises
        the error that names it, and decides nothing.
        """
        ids, application = checked_ids(ids), checked_application(application)
        return self._coordinator.commit_batch(application, checked_version(version), ids)

    @property
    def last_failure(self) -> str:
        """Returns why the last decision that failed in this process could not be carried out; empty if none failed."""
        return self._coordinator.last_failure

    def last_version(self, application: str) -> int | None:
        """Returns the version of the last `commit_batch` of an application, or None if that is not known."""
        return self._coordinator.last_version(checked_application(application))

    def commit_all(self, ids: Sequence[str]) -> State:
        """Commits prepared transactions together, as `commit_batch` does, without an application. Returns "done".

        A second call changes nothing, as long as the transactions are remembered.
        """
        return self._coordinator.commit_batch(None, 0, checked_ids(ids))

    def abort_prepared(self, prefix: str, before: str | None = None) -> list[str]:
        """Aborts the prepared transactions whose ids start with `prefix` and sort before `before`. Returns the ids."""
        return self._coordinator.abort_prepared(checked_id(prefix), before)

    def recover(self) -> list[Prepared]:
        """Finishes interrupted transactions, and returns those that wait for a decision, the oldest first."""
        return self._coordinator.recover()

    def producer(self, name: str) -> Producer:
        """Returns the producer `name`, which numbers its puts. Raises ProducerBusy while it is open in any process."""
        self.check_writable()
        producer = Producer(self, name)
        self._producers.add(producer)
        return producer

    def close(self) -> None:
        """Closes all topics and producers. Open transactions are aborted. A second call does nothing."""
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
    """Returns the store in the directory `path`. Creates it if it does not exist; with create=False raises NotAStore.

    With `read_only` nothing is ever written, so the directory may be one that this process can only read. A call that
    would change something raises ReadOnlyStore. Messages that other processes put can be read; other processes deliver
    delayed messages.

    `defaults` are settings for topics that are created through this object, such as durability="os". With `keeps`, a
    thread of this process delivers delayed messages and retires old ones; without it, `store.keep()` does.
    """
    return Store(path, defaults=defaults, keeps=keeps, create=create, read_only=read_only)
