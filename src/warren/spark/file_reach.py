"""A store that the processes of Spark reach by its files: each opens them by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from warren.config import SPARK_BATCH_ROWS_MIN
from warren.errors import NotALog
from warren.queue import positions
from warren.queue.group_settings import open_settings
from warren.queue.store import Store
from warren.spark.catalog import Catalog
from warren.spark.kept_stores import made_store, process_stores
from warren.spark.reach import AnyStore, HeldLog
from warren.storage import Log


@dataclass(frozen=True, slots=True)
class FileReach:
    """The store in the directory `path`, which every process sees under that name."""

    path: str

    def __str__(self) -> str:
        return self.path

    def topics(self) -> FileTopics:
        return FileTopics(Catalog(self.path))

    def store_id(self) -> str:
        """The id of the store, which is made where there is none."""
        return made_store(self.path)

    def store(self, id: str) -> AnyStore:
        return process_stores().get(self.path, id)

    def drop(self) -> None:
        process_stores().drop(self.path)

    def positions(self, group: str) -> FilePositions:
        return FilePositions(self.path, group)


class FileTopics:
    """What the files of a store say. Every answer is read anew."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.topics, self.topic_id = catalog.topics, catalog.topic_id

    def refresh(self) -> None:
        """There is nothing that could be old."""

    def partition_count(self, topic: str) -> int:
        return self._catalog.settings(topic).partitions

    def held(self, topic: str, partition: int) -> HeldLog:
        try:
            return FileLog(self._catalog.log(topic, partition))
        except NotALog:
            return NoLog()


class FileLog:
    """A log of a store that is here, to be read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.find_time, self.close = log.find_time, log.close

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def end(self) -> int:
        return self._log.end

    def offset_of(self, number: int) -> int:
        log = self._log
        if number >= log.end:
            return log.block_of(number - 1).end_offset
        return log.block_of(number).base_offset + log.standing(number).position

    def record_start(self, number: int) -> int:
        """The number of the first message of the record that holds `number`."""
        _, block, position = self._log.standing(number)
        return self._log.number_at(block, position)

    def scan(self, start: int, end: int, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        return self._log.scan(start, end, columns=columns, tag=tag, rows_min=SPARK_BATCH_ROWS_MIN, skips=True)


class NoLog:
    """The log of a partition to which nobody has put anything yet: it has no files."""

    first = end = 0

    def find_time(self, when: int) -> int:
        """Nothing is at or after any time."""
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
        self._group, self._store = group, Store(path, keeps=False)

    def store(self, topic: str, numbers: Mapping[int, int]) -> None:
        found = self._store.existing_topic(topic)
        found.see_partitions()
        open_settings(found.filesystem, found.directory, self._group, {"mode": "stream"}, self._store.lock)
        positions.begin(found, self._group, "start")
        positions.store_positions(found, self._group, numbers)

    def close(self) -> None:
        self._store.close()
