"""The archive's part of a table: its files as pieces for Spark's tasks, and archive and log as one log."""

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
from warren.config import SCAN_ROWS_DEFAULT
from warren.spark.archive.errors import ArchiveDamaged, ArchiveGap, ArchiveOfAnother
from warren.spark.archive.manifest import ArchivedFile, Manifest, require_manifest
from warren.spark.archive.shape import archived_columns, scanned
from warren.spark.archive.staging import located
from warren.spark.reach import Numbered
from warren.storage.tags import TagFilter

PIECE_ROWS_MAX: Final = 1 << 20
"""A file with more messages is read by several tasks."""


class Archive:
    """The archive in a directory, as its latest manifest has it when this is made."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self._manifest: Manifest = require_manifest(self.directory)

    def partition(self, topic: str, topic_id: str, partition: int) -> ArchivedPartition | None:
        """What is archived of a partition; None for nothing. ArchiveOfAnother where it is another topic's."""
        files = self._manifest.of(topic, partition)
        if files and files[0].topic_id != topic_id:
            raise ArchiveOfAnother(self.directory, topic)
        return ArchivedPartition(self.directory, files) if files else None


class ArchivedPartition:
    """The archived messages of one partition: one behind the other, without a gap, from `first` up to `end`."""

    def __init__(self, directory: str, files: Sequence[ArchivedFile]) -> None:
        self._directory, self._files = directory, list(files)
        self.first, self.end = files[0].first, files[-1].end

    def find_time(self, when: int) -> int:
        """The number of the first message at or after `when`; the end of the archive where it lies behind."""
        found = next((file for file in self._files if file.last_timestamp >= when), None)
        if found is None:
            return self.end
        if found.first_timestamp >= when:
            return found.first
        return _find_in_file(located(self._directory, found), when)

    def with_log(self, log: Numbered) -> ArchiveAndLog:
        """This and the log of the partition as one."""
        return ArchiveAndLog(self, log, *self._files[0].place)

    def pieces(self, start: int, end: int) -> list[ArchivePiece]:
        """What to read for the messages from `start` up to `end`, as far as they are archived, in their order."""
        found = []
        for file in self._files:
            first, last_end = max(start, file.first), min(end, file.end)
            for cut in range(first, last_end, PIECE_ROWS_MAX):
                cut_end = min(cut + PIECE_ROWS_MAX, last_end)
                found.append(ArchivePiece(directory=self._directory, file=file, start=cut, end=cut_end))
        return found


class ArchiveAndLog:
    """Archive and log of one partition as one: the archive up to its end, the log from there on.

    ArchiveGap where messages between the two were retired before they were archived.
    """

    def __init__(self, archived: ArchivedPartition, log: Numbered, topic: str, partition: int) -> None:
        if log.first > archived.end:
            raise ArchiveGap(topic, partition, archived.end, log.first)
        self.archived, self._log = archived, log
        self.first = archived.first

    @property
    def end(self) -> int:
        return max(self.archived.end, self._log.end)

    def find_time(self, when: int) -> int:
        """The number of the first message at or after `when`."""
        found = self.archived.find_time(when)
        return found if found < self.archived.end else max(found, self._log.find_time(when))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePiece:
    """The messages from `start` up to `end` of one file. Only row groups that have some of them are read."""

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
        """The messages that pass the filter, in those columns of a scan that are asked for."""
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
    """The number of the first message at or after a time, which the file has."""
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            last = _statistics(file.metadata, group, "timestamp")[1]
            if microseconds(last) >= when_us:
                rows = file.read_row_group(group, columns=["offset", "timestamp"])
                times = rows.column("timestamp").cast(pa.int64()).to_numpy()
                return int(rows.column("offset")[int(np.searchsorted(times, when_us))].as_py())
    raise ArchiveDamaged(path, "its times are not those that the manifest has")


def _statistics(metadata: pq.FileMetaData, group: int, column: str) -> tuple[int, int]:
    found = metadata.row_group(group)
    index = next(index for index in range(found.num_columns) if found.column(index).path_in_schema == column)
    statistics = found.column(index).statistics
    return statistics.min, statistics.max
