"""The producer behind a transactional id: its id, and an epoch that only grows and is on disk before it is answered."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from warren.broker.kafka.producers.ids import ProducerIds
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CorruptSettings, TooLarge, WarrenError
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage.disk.filesystem import FileSystem

TRANSACTIONAL_IDS_MAX: Final = 100_000
TRANSACTIONAL_IDS_MAX_PER_USER: Final = 10_000

EPOCH_MAX: Final = (1 << 15) - 2
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A transactional producer as it is on disk. `timeout_ms` is how long its transactions may be open.

    `previous_epoch` is the epoch whose client may still request this one, because its answer was lost or its
    transaction timed out; NO_EPOCH if another client took over. `transaction` counts the transactions of this epoch.
    `is_open` says that the latest one was begun and not aborted; the journal knows whether it was committed. `used_ms`
    is the last time it was stored, 0 if an older broker wrote it; `owner` is the user who had the id first.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    previous_epoch: int = NO_EPOCH
    timeout_ms: int
    transaction: int = 0
    is_open: bool = False
    used_ms: int = 0
    owner: str = ""

    @property
    def transaction_id(self) -> str:
        """Returns the id of its latest transaction, which is unique in the store."""
        return f"kafka {self.producer_id} {self.epoch} {self.transaction}"

    def begun(self) -> Self:
        """Returns it with one more transaction, which is open."""
        return replace(self, transaction=self.transaction + 1, is_open=True)

    def aborted(self) -> Self:
        """Returns it with its latest transaction aborted."""
        return replace(self, is_open=False)


class Identities:
    """Stores identities, each in a file. One thread at a time may call for one transactional id; it waits for the disk.

    The identities of each owner are counted when the first one is made, and again by each `unused`.
    """

    def __init__(self, filesystem: FileSystem, store_path: str, ids: ProducerIds, clock: Clock = SYSTEM_CLOCK) -> None:
        self._filesystem, self._ids, self._clock = filesystem, ids, clock
        self._counts: Counter[str] | None = None
        self._mutex = threading.Lock()
        self._directory = paths.transactional_directory(paths.broker_directory(store_path))

    def find(self, transactional_id: str) -> Identity | None:
        """Returns the producer of the id; None if the id was never used."""
        return self._read(self._path(transactional_id))

    def _read(self, path: str) -> Identity | None:
        data = read_json(self._filesystem, path)
        if data is None:
            return None
        try:
            return Identity(**data)
        except TypeError as error:
            raise CorruptSettings(path, str(error)) from error

    def make(self, transactional_id: str, timeout_ms: int, owner: str = "") -> Identity:
        """Makes an identity. Raises TooLarge if there are too many, in total or of this owner. No
        owner has no limit.
        """
        self._filesystem.make_directory(self._directory)
        with self._mutex:
            if self._counts is None:
                self._counts = Counter(identity.owner for identity in self._all())
            counts, most_of_owner = self._counts, TRANSACTIONAL_IDS_MAX_PER_USER if owner else TRANSACTIONAL_IDS_MAX
            for count, most in ((counts.total(), TRANSACTIONAL_IDS_MAX), (counts[owner], most_of_owner)):
                if count >= most:
                    raise TooLarge("number of transactional ids", count + 1, most)
            counts[owner] += 1
        producer_id = self._ids.take(owner)
        identity = Identity(
            transactional_id=transactional_id, producer_id=producer_id, epoch=0, timeout_ms=timeout_ms, owner=owner
        )
        return self.keep(identity)

    def _all(self) -> Iterator[Identity]:
        """Yields all identities that can be read."""
        names = self._filesystem.names(self._directory) if self._filesystem.exists(self._directory) else ()
        for path in paths.transactional_files(self._directory, names):
            # A damaged file is reported when its producer comes back.
            with suppress(WarrenError):
                identity = self._read(path)
                if identity is not None:
                    yield identity

    # --- Expiry ---

    def unused(self, before_ms: int) -> list[str]:
        """Returns the transactional ids that were not used since `before_ms`, or whose last use is unknown."""
        unused_ids: list[str] = []
        counts: Counter[str] = Counter()
        for identity in self._all():
            counts[identity.owner] += 1
            if identity.used_ms < before_ms:
                unused_ids.append(identity.transactional_id)
        with self._mutex:
            self._counts = counts
        return unused_ids

    def forget(self, transactional_id: str, before_ms: int) -> bool:
        """Removes an id that is still unused. Returns whether it did. If the last use is unknown, records it as now."""
        identity = self.find(transactional_id)
        if identity is None or identity.used_ms >= before_ms:
            return False
        if not identity.used_ms:
            self.keep(identity)
            return False
        # If a power cut undoes this, the file is there once more and is removed again.
        self._filesystem.remove(self._path(transactional_id))
        with self._mutex:
            if self._counts is not None:
                self._counts[identity.owner] -= 1
        return True

    def raised(self, identity: Identity, *, timeout_ms: int, previous_epoch: int) -> Identity:
        """Returns the same with the next epoch; with a new producer id if there is no next epoch."""
        if identity.epoch >= EPOCH_MAX:
            raised = replace(identity, producer_id=self._ids.take(identity.owner), epoch=0, previous_epoch=NO_EPOCH)
        else:
            raised = replace(identity, epoch=identity.epoch + 1, previous_epoch=previous_epoch)
        return replace(raised, timeout_ms=timeout_ms, transaction=0, is_open=False)

    def keep(self, identity: Identity) -> Identity:
        """Stores the identity as used now, and returns it. It is on disk when this returns."""
        used = replace(identity, used_ms=self._clock.now_ns() // 1_000_000)
        write_json(self._filesystem, self._path(identity.transactional_id), asdict(used))
        return used

    def _path(self, transactional_id: str) -> str:
        return paths.transactional_file(self._directory, transactional_id)
