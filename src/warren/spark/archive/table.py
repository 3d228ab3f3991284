"""An archive as a source of messages: its files as ranges that tasks read, and archive and log combined."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warren.clock import microseconds
from warren.spark.archive.columns import archived_columns, scanned
from warren.spark.archive.errors import ArchiveDamaged, ArchiveGap, ArchiveOfAnother
from warren.spark.archive.manifest import ArchivedFile, Manifest, require_manifest
from warren.spark.archive.staging import located
from warren.spark.store_access.access import PartitionMessages
from warren.storage.format.limits import SCAN_ROWS_DEFAULT
from warren.storage.format.tags import TagFilter

RANGE_ROWS_MAX: Final = 1 << 20
"""Several tasks read a file that has more messages than this."""


class Archive:
    """The archive in a directory, with the manifest that is the latest when this object is created."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self._manifest: Manifest = require_manifest(self.directory)

    def partition(self, topic: str, topic_id: str, partition: int) -> ArchivedPartition | None:
        """Returns the archived part of a partition; None if it has none. Raises ArchiveOfAnother."""
        files = self._manifest.of(topic, partition)
        if files and files[0].topic_id != topic_id:
            raise ArchiveOfAnother(self.directory, topic)
        return ArchivedPartition(self.directory, files) if files else None


class ArchivedPartition:
    """The archived messages of one partition: all from `first` up to `end`, in order."""

    def __init__(self, directory: str, files: Sequence[ArchivedFile]) -> None:
        self._directory, self._files = directory, list(files)
        self.first, self.end = files[0].first, files[-1].end

    def find_time(self, when: int) -> int:
        """Returns the number of the first message at or after `when`; the end of the archive if there is none."""
        file = next((file for file in self._files if file.last_timestamp >= when), None)
        if file is None:
            return self.end
        if file.first_timestamp >= when:
            return file.first
        return _find_in_file(located(self._directory, file), when)

    def with_log(self, log: PartitionMessages) -> ArchiveAndLog:
        """Returns the archive and the log of the partition as one."""
        return ArchiveAndLog(self, log, *self._files[0].place)

    def ranges(self, start: int, end: int) -> list[ArchiveRange]:
        """Returns the ranges of files with the messages from `start` up to `end`, as far as they are archived."""
        ranges = []
        for file in self._files:
            first, last_end = max(start, file.first), min(end, file.end)
            for cut in range(first, last_end, RANGE_ROWS_MAX):
                cut_end = min(cut + RANGE_ROWS_MAX, last_end)
                ranges.append(ArchiveRange(directory=self._directory, file=file, start=cut, end=cut_end))
        return ranges


class ArchiveAndLog:
    """The archive and the log of one partition as one: the archive up to its end, the log from there on.

    Raises ArchiveGap if messages between the two were retired before they were archived.
    """

    def __init__(self, archived: ArchivedPartition, log: PartitionMessages, topic: str, partition: int) -> None:
        if log.first > archived.end:
            raise ArchiveGap(topic, partition, archived.end, log.first)
        self.archived, self._log = archived, log
        self.first = archived.first

    @property
    def end(self) -> int:
        return max(self.archived.end, self._log.end)

    def find_time(self, when: int) -> int:
        """Returns the number of the first message at or after `when`; `end` if there is none."""
        number = self.archived.find_time(when)
        return number if number < self.archived.end else max(number, self._log.find_time(when))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRange:
    """The messages from `start` up to `end` of one file. Reads only the row groups that contain some of them."""

    directory: str
    file: ArchivedFile
    start: int
    end: int

    @property
    def topic(self) -> str:
        return self.file.topic

    @property
    def partition(self) -> int:
        return self.file.partition

    def __len__(self) -> int:
        return self.end - self.start

    def read(self, columns: Sequence[str], tag: str | None) -> Iterator[pa.RecordBatch]:
        """Yields the messages that pass the filter, with these columns of a scan. Raises ArchiveDamaged."""
        tag_filter = None if tag is None else TagFilter.parse(tag)
        needed = ["offset", *(["tag"] if tag_filter else []), *archived_columns(columns)]
        path = located(self.directory, self.file)
        try:
            with pq.ParquetFile(path) as file:
                groups = [group for group in range(file.num_row_groups) if self._has_some(file.metadata, group)]
                names = list(dict.fromkeys(needed))
                for batch in file.iter_batches(SCAN_ROWS_DEFAULT, groups, columns=names, use_threads=False):
                    rows = _passing(self._within(batch), tag_filter)
                    if rows.num_rows:
                        yield scanned(rows, columns)
        except FileNotFoundError as error:
            raise ArchiveDamaged(path, "the file is missing") from error
        except pa.ArrowException as error:
            raise ArchiveDamaged(path, f"the file cannot be read: {error}") from error

    def _has_some(self, metadata: pq.FileMetaData, group: int) -> bool:
        first, last = _statistics(metadata, group, "offset")
        return bool(first < self.end and last >= self.start)

    def _within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch.column("offset").to_numpy()
        first, end = np.searchsorted(numbers, (self.start, self.end))
        return batch.slice(first, end - first)


def _passing(batch: pa.RecordBatch, tag: TagFilter | None) -> pa.RecordBatch:
    if tag is None:
        return batch
    tags = batch.column("tag").dictionary_encode()
    matching = pa.array([tag.matches(text) for text in tags.dictionary.to_pylist()], pa.bool_())
    return batch.filter(pc.fill_null(matching.take(tags.indices), False))


def _find_in_file(path: str, when_us: int) -> int:
    """Returns the number of the first message at or after a time, which must be in the file."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            last = _statistics(file.metadata, group, "timestamp")[1]
            if microseconds(last) >= when_us:
                rows = file.read_row_group(group, columns=["offset", "timestamp"])
                times = rows.column("timestamp").cast(pa.int64()).to_numpy()
                return int(rows.column("offset")[int(np.searchsorted(times, when_us))].as_py())
    raise ArchiveDamaged(path, "its times differ from those in the manifest")


def _statistics(metadata: pq.FileMetaData, group: int, column: str) -> tuple[int, int]:
    rows = metadata.row_group(group)
    index = next(index for index in range(rows.num_columns) if rows.column(index).path_in_schema == column)
    statistics = rows.column(index).statistics
    return statistics.min, statistics.max
