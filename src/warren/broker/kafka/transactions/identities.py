"""The producer behind a transactional id: its id, and an epoch that only rises, on disk before it is answered."""

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

    `previous_epoch` is the epoch that may still ask for this one: its answer was lost, or its time ran out. NO_EPOCH
    if another client took its place. `transaction` counts those of this epoch, and `is_open` says that the latest of
    them was begun, and not that it was aborted: whether it was committed the journal knows. `used_ms` is when it was
    kept last, 0 if a broker wrote it that did not note this; `owner` is the user who had the id first.
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
        """The id of its latest transaction among all of the store."""
        return f"kafka {self.producer_id} {self.epoch} {self.transaction}"

    def begun(self) -> Self:
        """With one more transaction, which is open."""
        return replace(self, transaction=self.transaction + 1, is_open=True)

    def aborted(self) -> Self:
        """With its latest transaction aborted."""
        return replace(self, is_open=False)


class Identities:
    """Keeps them, each in a file. One thread at a time may call for one transactional id; it waits for the disk.

    How many each owner has is counted when the first is made, and again by each `unused`.
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
        """A new one. Raises TooLarge if there are too many, of all or of this owner; without a name it has no limit."""
        self._filesystem.make_directory(self._directory)
        with self._mutex:
            counts = self._counts = self._counted() if self._counts is None else self._counts
            for count, most in ((counts.total(), TRANSACTIONAL_IDS_MAX), (counts[owner], self._most(owner))):
                if count >= most:
                    raise TooLarge("number of transactional ids", count + 1, most)
            counts[owner] += 1
        producer_id = self._ids.take(owner)
        identity = Identity(
            transactional_id=transactional_id, producer_id=producer_id, epoch=0, timeout_ms=timeout_ms, owner=owner
        )
        return self.keep(identity)

    def _most(self, owner: str) -> int:
        return TRANSACTIONAL_IDS_MAX_PER_USER if owner else TRANSACTIONAL_IDS_MAX

    def _counted(self) -> Counter[str]:
        return Counter(identity.owner for identity in self._all())

    def _all(self) -> Iterator[Identity]:
        """All that can be read."""
        names = self._filesystem.names(self._directory) if self._filesystem.exists(self._directory) else ()
        for path in paths.transactional_files(self._directory, names):
            # A damaged file is reported when its producer comes back.
            with suppress(WarrenError):
                identity = self._read(path)
                if identity is not None:
                    yield identity

    # --- Those that are no longer used ---

    def unused(self, before_ms: int) -> list[str]:
        """The transactional ids that were not used since then, or for which no broker noted when."""
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
        """Removes one that was still not used since then; whether it did. Of one that says nothing it is noted now."""
        identity = self.find(transactional_id)
        if identity is None or identity.used_ms >= before_ms:
            return False
        if not identity.used_ms:
            self.keep(identity)
            return False
        # If this is lost with the power, it is there once more, and removed again.
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
        """The same, used now; it is on disk when this returns."""
        used = replace(identity, used_ms=self._clock.now_ns() // 1_000_000)
        write_json(self._filesystem, self._path(identity.transactional_id), asdict(used))
        return used

    def _path(self, transactional_id: str) -> str:
        return paths.transactional_file(self._directory, transactional_id)
