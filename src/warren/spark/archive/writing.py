"""A task of an archive: messages of a log, decoded as columns and written as Parquet files of a bounded size."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from warren.config import ARCHIVE_FILE_SIZE_TARGET, ARCHIVE_ROW_GROUP_COUNT_MAX, ARCHIVE_ROW_GROUP_SIZE_TARGET
from warren.spark.archive import archive_paths
from warren.spark.archive.content import ContentChecksum
from warren.spark.archive.manifest import ArchivedFile
from warren.spark.archive.planning import Piece
from warren.spark.archive.shape import ARCHIVE_SCHEMA, shaped, with_partition
from warren.spark.catalog import Catalog
from warren.storage.checksum import crc32c

METADATA_PREFIX: Final = "warren."
WITH_DICTIONARY: Final = ["partition", "tag"]
WITH_STATISTICS: Final = ["partition", "offset", "timestamp", "tag"]
ENCODINGS: Final = dict.fromkeys(("offset", "timestamp", "byte_offset"), "DELTA_BINARY_PACKED")
"""Numbers that grow by little are next to nothing then."""


def write_pieces(store: str, archive: str, run: str, pieces: Iterable[Piece]) -> Iterator[ArchivedFile]:
    """Stage the pieces as files, synced when they are given; nobody reads them before a manifest names them."""
    catalog, task = Catalog(store), uuid.uuid4().hex
    progress = Progress(archive_paths.progress_file(archive, run, task))
    for order, piece in enumerate(pieces):
        with catalog.log(piece.topic, piece.partition) as log:
            groups = row_groups(log.scan(piece.first, piece.end))
            files, start = 0, piece.first
            while (group := next(groups, None)) is not None:
                name = archive_paths.staged_path(run, f"{task}-{order}-{files}")
                with StagedFile(archive, name, piece, start) as file:
                    file.write(group)
                    progress.add(group.num_rows)
                    while not file.is_full and (group := next(groups, None)) is not None:
                        file.write(group)
                        progress.add(group.num_rows)
                    if group is None:
                        # What cannot be read at the end of the piece is known to be so, and not missing.
                        file.end = piece.end
                facts = file.facts()
                assert not facts.gaps or log.inspect().passed_over, "only what cannot be read is left out"
                yield facts
                files, start = files + 1, file.end


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches put together to row groups, in the columns of an archive but the partition. Nothing is copied."""
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
    """A Parquet file in the making, closed and synced at the end of its `with`. One thread."""

    def __init__(self, archive: str, name: str, piece: Piece, first: int) -> None:
        self._path, self._name, self._piece = os.path.join(archive, name), name, piece
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
        """Add one row group."""
        numbers, times = group.column("offset"), group.column("timestamp").cast(pa.int64())
        self._runs = joined_runs(self._runs, numbers.to_numpy())
        self.end = self._runs[-1].stop
        self._times += [times[0].as_py(), times[-1].as_py()]
        batches = group.to_batches()
        for batch in batches:
            self._content.add(batch)
        whole = pa.Table.from_batches([with_partition(batch, self._piece.partition) for batch in batches])
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
        piece = self._piece
        return {
            "topic": piece.topic,
            "topic_id": piece.topic_id,
            "partition": piece.partition,
            "date": piece.date,
            "first": self._first,
            "end": self.end,
            "count": self._content.count,
            "first_timestamp": self._times[0],
            "last_timestamp": self._times[-1],
            **{f"content.{name}": crc for name, crc in self._content.columns().items()},
        }

    def facts(self) -> ArchivedFile:
        """What the manifest says of the file, once it is closed."""
        piece, first, end = self._piece, self._first, self.end
        edges = [first, *(number for run in self._runs for number in (run.start, run.stop)), end]
        gaps = tuple(gap for gap in zip(edges[::2], edges[1::2], strict=True) if gap[0] < gap[1])
        size, crc = file_checksum(self._path)
        return ArchivedFile(
            topic=piece.topic,
            topic_id=piece.topic_id,
            partition=piece.partition,
            date=piece.date,
            first=first,
            end=end,
            first_timestamp=self._times[0],
            last_timestamp=self._times[-1],
            size=size,
            crc=crc,
            content=self._content.columns(),
            path=archive_paths.file_path(piece.topic, piece.partition, piece.date, first, end),
            staged=self._name,
            gaps=gaps,
        )


def joined_runs(runs: Sequence[range], numbers: npt.NDArray[np.int64]) -> list[range]:
    """The runs without a gap, and behind them those of `numbers`, at least one; a run that goes on is joined."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    found = [range(int(part[0]), int(part[-1]) + 1) for part in np.split(numbers, cuts)]
    if runs and runs[-1].stop == found[0].start:
        return [*runs[:-1], range(runs[-1].start, found[0].stop), *found[1:]]
    return [*runs, *found]


class Progress:
    """A file that says how many messages a task has done, for whoever shows that."""

    def __init__(self, path: str) -> None:
        self._path, self._count = path, 0

    def add(self, count: int) -> None:
        self._count += count
        new_path = self._path + ".new"
        with open(new_path, "w", encoding="ascii") as file:
            file.write(str(self._count))
        os.replace(new_path, self._path)


def file_checksum(path: str) -> tuple[int, str]:
    """The size of a file, and the CRC-32C of all its bytes."""
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
