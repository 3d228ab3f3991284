"""One open transaction of a Kafka client: its batches in the journal, and the positions that it commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from warren.broker.kafka.groups.positions import Position, PositionStore
from warren.broker.services.parked_records import put_split
from warren.errors import WarrenError
from warren.protocol.kafka.delayed_records import Split
from warren.queue.state.group_settings import open_settings
from warren.queue.topic import Topic
from warren.storage import Log
from warren.transaction.states import State
from warren.transaction.transaction import Transaction


class TransactionPartition(NamedTuple):
    """A partition by name."""

    topic: str
    number: int


class OpenTransaction:
    """The partitions, groups and batches. The sets are for the event loop's thread, the methods for other threads."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.partitions: set[TransactionPartition] = set()
        self.groups: set[str] = set()
        self.logs: dict[TransactionPartition, Log] = {}
        self.waiting = Counter[TransactionPartition]()
        """How many messages wait for each partition."""
        self._notes: dict[tuple[str, str], tuple[Topic, dict[int, Position]]] = {}

    def put(self, topic: Topic, partition: int, batch: memoryview, split: Split | None = None) -> None:
        """Writes the batch to the journal; a split batch in its parts."""
        if split is None:
            self._transaction.put_kafka(topic, batch, partition=partition)
        else:
            put_split(self._transaction, topic, partition, split)

    def commit_positions(self, topic: Topic, group: str, positions: Mapping[int, Position]) -> None:
        """Adds the positions from which the group continues once the transaction is committed."""
        # Raises SettingsDiffer if the group is a queue group, which has leases.
        open_settings(topic.filesystem, topic.directory, group, {"mode": "stream"}, topic.store.lock)
        self._transaction.commit_numbers(topic, group, {number: each.number for number, each in positions.items()})
        self._notes.setdefault((topic.name, group), (topic, {}))[1].update(positions)

    def commit(self, positions: PositionStore) -> None:
        """Commits everything. Raises an error if nothing was committed."""
        try:
            self._transaction.commit()
        except WarrenError:
            if self._transaction.state not in (State.COMMITTED, State.DONE):
                raise
        for (_, group), (topic, notes) in self._notes.items():
            # The positions are committed, even if there is no room for their metadata.
            with suppress(WarrenError, OSError):
                positions.note(topic, group, notes)

    def abort(self) -> None:
        """Aborts the transaction."""
        self._transaction.abort()

    def grown(self) -> Sequence[Log]:
        """Returns the logs that the commit appended to."""
        return [self.logs[partition] for partition, count in self.waiting.items() if count]
