"""Positions of Kafka groups, stored as the positions of Warren's own stream groups, in the same files."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final, NamedTuple

from warren.broker.kafka.groups.partition_locks import begin
from warren.errors import NoSuchPartition, NotOwner
from warren.queue.state import paths as store_paths
from warren.queue.state.group_settings import read_settings
from warren.queue.state.json_file import read_json, write_json
from warren.queue.stream.positions import store_position, stored_position
from warren.queue.topic import Topic
from warren.storage.disk import paths

NO_EPOCH: Final = -1

Notes = dict[str, list[Any]]
"""The epoch and the metadata of each partition."""


class Position(NamedTuple):
    """A committed number, with the metadata that the client stored with it."""

    number: int
    epoch: int = NO_EPOCH
    note: str = ""


class PositionStore:
    """Stores and finds committed positions. Any thread may call; the calls wait for the disk.

    The metadata that clients store with a position is in a file of the group, which is written when it changes. If it
    is lost, the position is still there.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        # Clients that are not members do not exclude each other by ownership, so this lock does.
        self._taking = threading.Lock()
        self._moving: weakref.WeakKeyDictionary[object, dict[tuple[str, str], set[int]]] = weakref.WeakKeyDictionary()
        self._notes: weakref.WeakKeyDictionary[Topic, dict[str, Notes]] = weakref.WeakKeyDictionary()

    def commit(self, topic: Topic, group: str, positions: Mapping[int, Position], *, is_member: bool = True) -> None:
        """Moves the group to these positions. Without `is_member`, raises NotOwner if a partition has an owner."""
        begin(topic, group)
        with ExitStack() as stack:
            if not is_member:
                stack.enter_context(self._taking)
                stack.enter_context(_owned(topic, group, positions))
            for partition, position in positions.items():
                store_position(topic.partition(partition), group, position.number)
        self.note(topic, group, positions)

    def find(self, topic: Topic, group: str, partitions: Sequence[int] | None = None) -> dict[int, Position]:
        """Returns the positions that the group has committed."""
        if read_settings(topic.filesystem, topic.directory, group) is None:
            self.drop(topic, group)
            return {}
        numbers = range(topic.partition_count) if partitions is None else partitions
        notes, positions = self._noted(topic, group), {}
        for partition in numbers:
            if partition in range(topic.partition_count):
                log = topic.partition(partition)
                if topic.filesystem.exists(paths.reader_path(log.path, group)):
                    number = stored_position(log, group)
                    positions[partition] = Position(number, *notes.get(str(partition), [NO_EPOCH, ""]))
        return positions

    def forget(self, topic: Topic, group: str, partition: int) -> None:
        """Deletes the position in the partition. Raises NotOwner if a member owns it."""
        if partition not in range(topic.partition_count):
            raise NoSuchPartition(topic.name, partition, topic.partition_count)
        if read_settings(topic.filesystem, topic.directory, group) is None:
            return
        with self._taking, _owned(topic, group, [partition]):
            topic.partition(partition).remove_reader(group)
        self.note(topic, group, {partition: Position(0)})

    def will_move(self, transaction: object, topic: str, group: str, partitions: Collection[int]) -> None:
        """Marks positions that an open transaction moves. `moving` returns them while the object lives."""
        with self._mutex:
            self._moving.setdefault(transaction, {}).setdefault((topic, group), set()).update(partitions)

    def moving(self, topic: Topic, group: str) -> set[int]:
        """Returns the partitions whose position an undecided transaction of any process may move."""
        with self._mutex:
            moved = [each.get((topic.name, group), set()) for each in self._moving.values()]
        return set[int]().union(topic.store.undecided(topic.name, group), *moved)

    def drop(self, topic: Topic, group: str) -> None:
        """Forgets the metadata of a group that was deleted."""
        with self._mutex:
            self._notes.get(topic, {}).pop(group, None)

    # --- Metadata ---

    def _noted(self, topic: Topic, group: str) -> Notes:
        with self._mutex:
            groups = self._notes.setdefault(topic, {})
            if group not in groups:
                groups[group] = read_json(topic.filesystem, _notes_path(topic, group)) or {}
            return groups[group]

    def note(self, topic: Topic, group: str, positions: Mapping[int, Position]) -> None:
        """Stores the metadata of these positions."""
        notes = self._noted(topic, group)
        with self._mutex:
            new = {str(partition): [position.epoch, position.note] for partition, position in positions.items()}
            changed = {name: note for name, note in new.items() if notes.get(name, [NO_EPOCH, ""]) != note}
            if changed:
                notes.update(changed)
                write_json(topic.filesystem, _notes_path(topic, group), notes)


def _notes_path(topic: Topic, group: str) -> str:
    return store_paths.group_notes_file(store_paths.group_directory(topic.directory, group))


@contextmanager
def _owned(topic: Topic, group: str, partitions: Collection[int]) -> Iterator[None]:
    """Owns these partitions during the block. Raises NotOwner if one has another owner."""
    directory = store_paths.group_directory(topic.directory, group)
    with ExitStack() as stack:
        for partition in partitions:
            lock = topic.filesystem.lock(store_paths.owner_lock(directory, partition))
            stack.enter_context(closing(lock))
            if not lock.try_acquire():
                raise NotOwner(topic.name, group, [partition])
        yield
