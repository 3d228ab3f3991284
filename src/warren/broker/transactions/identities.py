"""Who a transactional id stands for: a producer id, and an epoch that only rises, on disk before anybody is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from warren.broker.producer_ids import ProducerIds
from warren.config import TRANSACTIONAL_IDS_MAX
from warren.errors import CorruptSettings, TooLarge
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.storage.filesystem import FileSystem

EPOCH_MAX: Final = (1 << 15) - 2
NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A transactional producer as it is on disk. `timeout_ms` is how long its transactions may be open.

    `previous_epoch` is the epoch that may still ask for this one: its answer was lost, or its time ran out. NO_EPOCH
    where somebody else took its place. `transaction` counts those of this epoch, and `is_open` says that the latest of
    them was begun, and not that it was aborted: whether it was committed the journal knows.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    previous_epoch: int = NO_EPOCH
    timeout_ms: int
    transaction: int = 0
    is_open: bool = False

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
    """Keeps them, each in a file. One thread at a time may call for one transactional id; it waits for the disk."""

    def __init__(self, filesystem: FileSystem, store_path: str, ids: ProducerIds) -> None:
        self._filesystem, self._ids = filesystem, ids
        self._directory = store_paths.transactional_directory(store_paths.broker_directory(store_path))

    def find(self, transactional_id: str) -> Identity | None:
        """Who the id stands for; None where nobody has had it."""
        path = self._path(transactional_id)
        data = read_json(self._filesystem, path)
        if data is None:
            return None
        try:
            return Identity(**data)
        except TypeError as error:
            raise CorruptSettings(path, str(error)) from error

    def make(self, transactional_id: str, timeout_ms: int) -> Identity:
        """Somebody new; TooLarge where there are too many."""
        self._filesystem.make_directory(self._directory)
        count = len(self._filesystem.names(self._directory))
        if count >= TRANSACTIONAL_IDS_MAX:
            raise TooLarge("number of transactional ids", count + 1, TRANSACTIONAL_IDS_MAX)
        identity = Identity(
            transactional_id=transactional_id, producer_id=self._ids.take(), epoch=0, timeout_ms=timeout_ms
        )
        self.keep(identity)
        return identity

    def raised(self, identity: Identity, *, timeout_ms: int, previous_epoch: int) -> Identity:
        """The same with the next epoch, to be kept; with another producer id where there is no next one."""
        if identity.epoch >= EPOCH_MAX:
            raised = replace(identity, producer_id=self._ids.take(), epoch=0, previous_epoch=NO_EPOCH)
        else:
            raised = replace(identity, epoch=identity.epoch + 1, previous_epoch=previous_epoch)
        return replace(raised, timeout_ms=timeout_ms, transaction=0, is_open=False)

    def keep(self, identity: Identity) -> None:
        """It is on disk when this returns."""
        write_json(self._filesystem, self._path(identity.transactional_id), asdict(identity))

    def _path(self, transactional_id: str) -> str:
        return store_paths.transactional_file(self._directory, transactional_id)
