"""Where groups stand: the same positions that Warren's own stream groups have, in the same place."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from warren.errors import BadInput, NoSuchPartition, SettingsDiffer, TooLarge
from warren.queue import store_paths
from warren.queue.group_settings import open_settings, read_settings
from warren.queue.json_file import read_json, write_json
from warren.queue.positions import store_position, stored_position
from warren.queue.topic import Topic
from warren.storage import Log, paths

NO_EPOCH: Final = -1
NOTE_SIZE_MAX: Final = 4096


class Position(NamedTuple):
    """A committed number, with what a client noted beside it."""

    number: int
    epoch: int = NO_EPOCH
    note: str = ""


class Positions:
    """Stores and finds committed positions. Any thread may call: it waits for the disk.

    What clients note beside a number lies in a file of the group; it is written when it changes, and where it is lost,
    the number is still there.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._notes: dict[tuple[str, str], dict[str, list[Any]]] = {}

    def commit(self, topic: Topic, group: str, positions: Mapping[int, Position]) -> None:
        """The group goes on from these numbers. All of them, or none where one cannot be."""
        for partition, position in positions.items():
            if partition not in range(topic.partition_count):
                raise NoSuchPartition(topic.name, partition, topic.partition_count)
            if position.number < 0:
                raise BadInput(f"number {position.number}: expected 0 or more")
            if len(position.note.encode()) > NOTE_SIZE_MAX:
                raise TooLarge("metadata", len(position.note.encode()), NOTE_SIZE_MAX)
        self._begin(topic, group)
        for partition, position in positions.items():
            store_position(topic.partition(partition), group, position.number)
        self.note(topic, group, positions)

    def _begin(self, topic: Topic, group: str) -> None:
        """Make the group where there is none; SettingsDiffer where it takes messages by leases."""
        settings = read_settings(topic.filesystem, topic.directory, group)
        if settings is None:
            settings = open_settings(topic.filesystem, topic.directory, group, {"mode": "stream"}, topic.store.lock)
        if settings.mode != "stream":
            raise SettingsDiffer(f"group {group!r}", "mode", "stream", settings.mode, "use another name")

    def find(self, topic: Topic, group: str, partitions: Sequence[int] | None = None) -> dict[int, Position]:
        """What the group has committed, where it has."""
        if read_settings(topic.filesystem, topic.directory, group) is None:
            return {}
        wanted = range(topic.partition_count) if partitions is None else partitions
        notes, found = self._noted(topic, group), {}
        for partition in wanted:
            if partition in range(topic.partition_count):
                log = topic.partition(partition)
                if topic.filesystem.exists(paths.reader_path(log.path, group)):
                    number = stored_position(log, group)
                    found[partition] = Position(number, *notes.get(str(partition), [NO_EPOCH, ""]))
        return found

    def forget(self, topic: Topic, group: str, partition: int) -> bool:
        """The group has committed nothing in the partition; whether it had."""
        log: Log = topic.partition(partition)
        if not topic.filesystem.exists(paths.reader_path(log.path, group)):
            return False
        log.remove_reader(group)
        return True

    # --- What is noted beside them ---

    def _noted(self, topic: Topic, group: str) -> dict[str, list[Any]]:
        with self._mutex:
            key = topic.directory, group
            if key not in self._notes:
                self._notes[key] = read_json(topic.filesystem, _notes_path(topic, group)) or {}
            return self._notes[key]

    def note(self, topic: Topic, group: str, positions: Mapping[int, Position]) -> None:
        """Keep what clients say beside the numbers."""
        notes = self._noted(topic, group)
        with self._mutex:
            told = {str(partition): [position.epoch, position.note] for partition, position in positions.items()}
            changed = {name: note for name, note in told.items() if notes.get(name, [NO_EPOCH, ""]) != note}
            if changed:
                notes.update(changed)
                write_json(topic.filesystem, _notes_path(topic, group), notes)


def _notes_path(topic: Topic, group: str) -> str:
    return store_paths.group_notes_file(store_paths.group_directory(topic.directory, group))
