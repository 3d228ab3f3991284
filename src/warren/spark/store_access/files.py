"""A store that the processes of Spark access by its files: each process opens them itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from warren.errors import NoSuchPartition, NoSuchTopic, NotALog, NotAStore
from warren.queue.state import paths
from warren.queue.state.group_settings import open_settings
from warren.queue.state.json_file import read_json
from warren.queue.state.settings import TopicSettings, checked_name
from warren.queue.store import Store as QueueStore
from warren.queue.stream import positions
from warren.spark.columns.rebatch import SPARK_BATCH_ROWS_MIN
from warren.spark.store_access.access import ReadableLog
from warren.spark.store_access.store_cache import process_stores
from warren.storage import Log
from warren.storage.disk.filesystem import PICKING_FILE_SYSTEM, SYSTEM_FILE_SYSTEM
from warren.transaction.store import Store

SHARED_STORAGE = "on a cluster the path must be on storage that the driver and every worker share"


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The store in the directory `path`, which every process sees under that name."""

    path: str

    def __str__(self) -> str:
        return self.path

    def catalog(self) -> FileCatalog:
        return FileCatalog(self.path)

    def store_id(self) -> str:
        """Returns the id of the store. Creates the store if it does not exist."""
        data = read_json(SYSTEM_FILE_SYSTEM, paths.store_file(self.path))
        if data is None:
            with Store(self.path, keeps=False) as store:
                return store.id
        return str(data.get("id"))

    def store(self, id: str) -> Store:
        self._check_id(id)
        # `keeps=False`: no background thread of the store works while no task runs.
        return process_stores().get(self.path, lambda: Store(self.path, keeps=False), lambda store: store.id == id)

    def _check_id(self, id: str) -> None:
        """Raises NotAStore, which names the host, if the path is not a store, or one with another id."""
        data = read_json(SYSTEM_FILE_SYSTEM, paths.store_file(self.catalog().path)) or {}
        if data.get("id") != id:
            host = socket.gethostname()
            raise NotAStore(self.path, f"on the host {host} it is another store than on the driver; {SHARED_STORAGE}")

    def drop(self) -> None:
        process_stores().drop(self.path)

    def positions(self, group: str) -> FilePositions:
        return FilePositions(self.path, group)


class TopicFile(NamedTuple):
    """The content of a `topic.json`."""

    id: str
    settings: TopicSettings


class FileCatalog:
    """The topics of a store, read from its files without opening the store.

    Each `topic.json` is read once, until `refresh`. Raises NotAStore, which names the host, if the path is not a store
    on this machine.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._files: dict[str, TopicFile] = {}
        if not os.path.exists(paths.store_file(self.path)):
            reason = "has no store.json" if os.path.isdir(self.path) else "does not exist"
            raise NotAStore(path, f"on the host {socket.gethostname()} it {reason}; {SHARED_STORAGE}")

    def refresh(self) -> None:
        self._files.clear()

    def topics(self) -> list[str]:
        names = SYSTEM_FILE_SYSTEM.names(paths.topics_directory(self.path))
        return sorted(name for name in names if os.path.exists(self._path_of(name)))

    def topic_id(self, topic: str) -> str:
        return self._file(topic).id

    def settings(self, topic: str) -> TopicSettings:
        """Returns the settings of a topic. Raises NoSuchTopic."""
        return self._file(topic).settings

    def partition_count(self, topic: str) -> int:
        return self.settings(topic).partitions

    def open_log(self, topic: str, partition: int) -> ReadableLog:
        try:
            return FileLog(self.log(topic, partition))
        except NotALog:
            # Either no message has been put to the partition, or the topic was deleted after its file was read.
            before = self.topic_id(topic)
            self._files.pop(topic)
            if self.topic_id(topic) != before:
                raise NoSuchTopic(topic) from None
            return EmptyLog()

    def log(self, topic: str, partition: int) -> Log:
        """Opens the log of a partition for reading. The caller closes it. Raises NotALog if it has no files yet."""
        count = self.partition_count(topic)
        if partition not in range(count):
            raise NoSuchPartition(topic, partition, count)
        directory = paths.topic_directory(self.path, topic)
        path = paths.partition_directory(directory, partition)
        return Log.open(path, read_only=True, topic=topic, partition=partition, filesystem=PICKING_FILE_SYSTEM)

    def _file(self, topic: str) -> TopicFile:
        topic_file = self._files.get(topic)
        if topic_file is None:
            path = self._path_of(checked_name("topic", topic))
            data = read_json(SYSTEM_FILE_SYSTEM, path)
            if data is None:
                raise NoSuchTopic(topic)
            topic_file = TopicFile(str(data.get("id", "")), TopicSettings.from_json(path, data))
            self._files[topic] = topic_file
        return topic_file

    def _path_of(self, topic: str) -> str:
        return paths.topic_file(paths.topic_directory(self.path, topic))


class FileLog:
    """A log in the files of a store, open for reading."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def end(self) -> int:
        return self._log.end

    def find_time(self, when: int) -> int:
        return self._log.find_time(when)

    def offset_of(self, number: int) -> int:
        log = self._log
        if number >= log.end:
            return log.block_of(number - 1).end_offset
        return log.block_of(number).base_offset + log.standing(number).position

    def record_start(self, number: int) -> int:
        """Returns the number of the first message of the record that holds `number`."""
        _, block, position = self._log.standing(number)
        return self._log.number_at(block, position)

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        return self._log.scan(start, end, columns=columns, tag=tag, rows_min=SPARK_BATCH_ROWS_MIN, skips=True)

    def close(self) -> None:
        self._log.close()


class EmptyLog:
    """The log of a partition that has no files yet, because no message was ever put to it."""

    first = end = 0

    def find_time(self, when: int) -> int:
        return 0

    def offset_of(self, number: int) -> int:
        return 0

    def record_start(self, number: int) -> int:
        return number

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        return iter(())

    def close(self) -> None:
        """There is nothing to close."""


class FilePositions:
    """The positions of a group in the files of a store. One thread."""

    def __init__(self, path: str, group: str) -> None:
        self._group, self._store = group, QueueStore(path, keeps=False)

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        existing = self._store.existing_topic(topic)
        existing.see_partitions()
        open_settings(existing.filesystem, existing.directory, self._group, {"mode": "stream"}, self._store.lock)
        positions.begin(existing, self._group, "start")
        positions.store_positions(existing, self._group, numbers)

    def close(self) -> None:
        self._store.close()
