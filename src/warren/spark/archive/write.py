"""A task of an archive run: writes the messages of a log as Parquet files of a limited size."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from warren.spark.archive import paths
from warren.spark.archive.checksums import ContentChecksum
from warren.spark.archive.columns import ARCHIVE_SCHEMA, shaped, with_partition
from warren.spark.archive.manifest import ArchivedFile
from warren.spark.archive.plan import DayRange
from warren.spark.store_access.files import FileCatalog
from warren.storage.format.checksum import crc32c

ARCHIVE_FILE_SIZE_TARGET: Final = 128 << 20
ARCHIVE_ROW_GROUP_SIZE_TARGET: Final = 32 << 20
ARCHIVE_ROW_GROUP_COUNT_MAX: Final = 1 << 18

METADATA_PREFIX: Final = "warren."
WITH_DICTIONARY: Final = ["partition", "tag"]
WITH_STATISTICS: Final = ["partition", "offset", "timestamp", "tag"]
ENCODINGS: Final = dict.fromkeys(("offset", "timestamp", "byte_offset"), "DELTA_BINARY_PACKED")
"""An encoding in which numbers that grow by little take almost no space."""


def write_ranges(store: str, archive: str, run: str, day_ranges: Iterable[DayRange]) -> Iterator[ArchivedFile]:
    """Stages the ranges as files and yields each file when it is synced. Readers see it when a manifest lists it."""
    catalog, task = FileCatalog(store), uuid.uuid4().hex
    progress = ProgressFile(paths.progress_file(archive, run, task))
    for order, day_range in enumerate(day_ranges):
        with catalog.log(day_range.topic, day_range.partition) as log:
            groups = row_groups(log.scan(day_range.first, day_range.end))
            files, start = 0, day_range.first
            while (group := next(groups, None)) is not None:
                name = paths.staged_path(run, f"{task}-{order}-{files}")
                with StagedFile(archive, name, day_range, start) as file:
                    file.write(group)
                    progress.add(group.num_rows)
                    while not file.is_full and (group := next(groups, None)) is not None:
                        file.write(group)
                        progress.add(group.num_rows)
                    if group is None:
                        # Messages at the end of the range that cannot be read become a gap. They are not missing.
                        file.end = day_range.end
                facts = file.facts()
                assert not facts.gaps or log.inspect().passed_over, "only messages that cannot be read are omitted"
                yield facts
                files, start = files + 1, file.end


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields the batches joined to row groups, with the columns of an archive except the partition. Copies nothing."""
    waiting: list[pa.RecordBatch] = []
    size = count = 0
    for whole in batches:
        for start in range(0, whole.num_rows, ARCHIVE_ROW_GROUP_COUNT_MAX):
            batch = shaped(whole.slice(start, ARCHIVE_ROW_GROUP_COUNT_MAX))
            if waiting and (
                size + batch.nbytes > ARCHIVE_ROW_GROUP_SIZE_TARGET
                or count + batch.num_rows > ARCHIVE_ROW_GROUP_COUNT_MAX
            ):
                yield pa.Table.from_batches(waiting)
                waiting, size, count = [], 0, 0
            waiting.append(batch)
            size, count = size + batch.nbytes, count + batch.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)


class StagedFile:
    """A Parquet file that is being written. The end of its `with` closes and syncs it. One thread."""

    def __init__(self, archive: str, name: str, day_range: DayRange, first: int) -> None:
        self._path, self._name, self._day_range = os.path.join(archive, name), name, day_range
        self._content = ContentChecksum()
        self._times: list[int] = []
        self._runs: list[range] = []
        self._first = self.end = first
        self._sink = pa.OSFile(self._path, "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            ARCHIVE_SCHEMA,
            compression="zstd",
            use_dictionary=WITH_DICTIONARY,
            column_encoding=ENCODINGS,
            write_statistics=WITH_STATISTICS,
            store_schema=False,
        )

    @property
    def is_full(self) -> bool:
        return bool(self._sink.tell() >= ARCHIVE_FILE_SIZE_TARGET)

    def write(self, group: pa.Table) -> None:
        """Adds one row group."""
        numbers, times = group.column("offset"), group.column("timestamp").cast(pa.int64())
        self._runs = joined_runs(self._runs, numbers.to_numpy())
        self.end = self._runs[-1].stop
        self._times += [times[0].as_py(), times[-1].as_py()]
        batches = group.to_batches()
        for batch in batches:
            self._content.add(batch)
        whole = pa.Table.from_batches([with_partition(batch, self._day_range.partition) for batch in batches])
        self._writer.write_table(whole, row_group_size=ARCHIVE_ROW_GROUP_COUNT_MAX)

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            facts = {name: str(value) for name, value in self._metadata().items()}
            self._writer.add_key_value_metadata({METADATA_PREFIX + name: value for name, value in facts.items()})
        self._writer.close()
        self._sink.close()
        if kind is None:
            _sync(self._path)

    def _metadata(self) -> dict[str, object]:
        day_range = self._day_range
        return {
            "topic": day_range.topic,
            "topic_id": day_range.topic_id,
            "partition": day_range.partition,
            "date": day_range.date,
            "first": self._first,
            "end": self.end,
            "count": self._content.count,
            "first_timestamp": self._times[0],
            "last_timestamp": self._times[-1],
            **{f"content.{name}": crc for name, crc in self._content.columns().items()},
        }

    def facts(self) -> ArchivedFile:
        """Returns the entry of the file for the manifest. Call it after the file is closed."""
        day_range, first, end = self._day_range, self._first, self.end
        edges = [first, *(number for run in self._runs for number in (run.start, run.stop)), end]
        gaps = tuple(gap for gap in zip(edges[::2], edges[1::2], strict=True) if gap[0] < gap[1])
        size, crc = file_checksum(self._path)
        return ArchivedFile(
            topic=day_range.topic,
            topic_id=day_range.topic_id,
            partition=day_range.partition,
            date=day_range.date,
            first=first,
            end=end,
            first_timestamp=self._times[0],
            last_timestamp=self._times[-1],
            size=size,
            crc=crc,
            content=self._content.columns(),
            path=paths.file_path(day_range.topic, day_range.partition, day_range.date, first, end),
            staged=self._name,
            gaps=gaps,
        )


def joined_runs(runs: Sequence[range], numbers: npt.NDArray[np.int64]) -> list[range]:
    """Returns the runs and those of `numbers` after them. Joins the last run with the next one if there is no gap."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    added = [range(int(part[0]), int(part[-1]) + 1) for part in np.split(numbers, cuts)]
    if runs and runs[-1].stop == added[0].start:
        return [*runs[:-1], range(runs[-1].start, added[0].stop), *added[1:]]
    return [*runs, *added]


class ProgressFile:
    """A file with the number of messages that a task has archived. The driver reads it to show the progress."""

    def __init__(self, path: str) -> None:
        self._path, self._count = path, 0

    def add(self, count: int) -> None:
        self._count += count
        new_path = self._path + ".new"
        with open(new_path, "w", encoding="ascii") as file:
            file.write(str(self._count))
        os.replace(new_path, self._path)


def file_checksum(path: str) -> tuple[int, str]:
    """Returns the size of a file, and the CRC-32C of all its bytes."""
    size = os.path.getsize(path)
    if not size:
        return 0, f"{crc32c(b''):08x}"
    with pa.memory_map(path) as file:
        return size, f"{crc32c(file.read_buffer()):08x}"


def _sync(path: str) -> None:
    for each, flags in ((path, os.O_RDWR), (os.path.dirname(path), os.O_RDONLY)):
        descriptor = os.open(each, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
