"""Verifies an archive: compares it with its manifest, and with the log as far as the log still has the messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warren.errors import GONE, CorruptRecord, NoSuchPartition, NoSuchTopic, NumberRetired
from warren.spark.archive.checksums import ContentChecksum
from warren.spark.archive.columns import CHECKED, shaped
from warren.spark.archive.manifest import ArchivedFile, Manifest
from warren.spark.archive.staging import located
from warren.spark.archive.write import file_checksum, joined_runs
from warren.spark.store_access.access import TopicPartition
from warren.spark.store_access.files import FileCatalog
from warren.storage import Log
from warren.storage.format.limits import SCAN_ROWS_DEFAULT

RUNS_SHOWN_MAX: Final = 3


class ArchiveFault(NamedTuple):
    """A fault in the archived messages from `first` up to `end`."""

    topic: str
    partition: int
    first: int
    end: int
    path: str
    reason: str


class FileCheck(NamedTuple):
    """The result for one file: how many messages were compared with the log, and the faults."""

    path: str
    compared: int
    reasons: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """The result for one partition. Up to `verified_end` there is no fault, and no message is missing."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    files: int
    size: int
    compared: int
    verified_end: int
    findings: Sequence[ArchiveFault] = ()

    @property
    def messages(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result for an archive with manifest `number`."""

    number: int
    partitions: Sequence[PartitionCheck] = field(default_factory=list)

    @property
    def findings(self) -> list[ArchiveFault]:
        return [finding for partition in self.partitions for finding in partition.findings]

    @property
    def is_good(self) -> bool:
        return not self.findings


# --- One file ---


def check_file(store: str | None, archive: str, file: ArchivedFile) -> FileCheck:
    """Compares a file with the manifest, and with the log of `store` as far as it still has the messages."""
    path = located(archive, file)
    reasons = _reasons_of_file(path, file)
    if reasons or store is None:
        return FileCheck(file.path, 0, reasons)
    try:
        compared, reasons = _compare_with_log(FileCatalog(store), path, file)
    except CorruptRecord as error:
        compared, reasons = 0, [f"the log cannot be read: {error}"]
    return FileCheck(file.path, compared, reasons)


def _reasons_of_file(path: str, file: ArchivedFile) -> list[str]:
    if not os.path.exists(path):
        return ["the file is missing"]
    size, crc = file_checksum(path)
    if size != file.size:
        return [f"the file has {size:,} bytes, but had {file.size:,} when it was archived"]
    if crc != file.crc:
        return ["the bytes of the file differ from those that were archived"]
    try:
        content, runs = _content_of(path, file.first)
    except (pa.ArrowException, OSError) as error:
        return [f"the file cannot be read: {error}"]
    if runs != file.runs(file.first):
        return [f"the file has the messages {_runs_text(runs)}, not {_runs_text(file.runs(file.first))}"]
    return _differences(content.columns(), file.content, "the manifest")


def _content_of(path: str, start: int) -> tuple[ContentChecksum, list[range]]:
    """Returns the checksums of the messages from `start` on, and their numbers as runs without a gap."""
    content, runs = ContentChecksum(), list[range]()
    for batch in file_batches(path):
        numbers = batch.column("offset").to_numpy()
        skipped = int(np.searchsorted(numbers, start))
        batch, numbers = batch.slice(skipped), numbers[skipped:]
        if len(numbers):
            runs = joined_runs(runs, numbers)
            content.add(batch)
    return content, runs


def file_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yields the messages of a file, with the columns of an archive."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(SCAN_ROWS_DEFAULT, columns=list(CHECKED), use_threads=False)


def _compare_with_log(catalog: FileCatalog, path: str, file: ArchivedFile) -> tuple[int, list[str]]:
    while True:
        try:
            if catalog.topic_id(file.topic) != file.topic_id:
                return 0, []
            with catalog.log(file.topic, file.partition) as log:
                return _compare(log, path, file)
        except (NoSuchTopic, NoSuchPartition, *GONE):
            # The topic was deleted, so the archive has the only copy.
            return 0, []
        except NumberRetired:
            # Retention has just removed messages, so there is less to compare.
            continue


def _compare(log: Log, path: str, file: ArchivedFile) -> tuple[int, list[str]]:
    start = max(file.first, log.first)
    if start >= file.end:
        return 0, []
    if log.end < file.end:
        return 0, [f"the log ends at {log.end:,}, before the last archived message"]
    archived = file.content if start == file.first else _content_of(path, start)[0].columns()
    content = ContentChecksum()
    for batch in log.scan(start, file.end):
        content.add(shaped(batch))
    return content.count, _differences(archived, content.columns(), "the log")


def _differences(checksums: Mapping[str, str], expected: Mapping[str, str], origin: str) -> list[str]:
    names = [name for name in CHECKED if checksums.get(name) != expected.get(name)]
    return [f"{', '.join(names)}: different from {origin}"] if names else []


def _runs_text(runs: Sequence[range]) -> str:
    texts = [f"{run.start:,} to {run.stop - 1:,}" for run in runs[:RUNS_SHOWN_MAX]]
    return ", ".join(texts) + (" and more" if len(runs) > RUNS_SHOWN_MAX else "") if runs else "of no number"


# --- The archive as a whole ---


def conclude(manifest: Manifest, checks: Sequence[FileCheck], log_firsts: Mapping[TopicPartition, int]) -> Verification:
    """Returns the result for each partition, from the checks of all files and the numbers of the manifest.

    `log_firsts` has the first number that is still in the log, for the partitions that still exist.
    """
    by_path = {check.path: check for check in checks}
    chosen = [file for file in manifest.files if file.path in by_path]
    partitions = []
    for (topic, partition), group in groupby(
        sorted(chosen, key=lambda file: (file.place, file.first)), key=lambda file: file.place
    ):
        files = list(group)
        findings, verified_end = _findings(files, by_path)
        end = max(file.end for file in files)
        log_first = log_firsts.get(TopicPartition(topic, partition), 0)
        if log_first > end:
            reason = "neither in the archive nor in the log: retired before they were archived"
            findings.append(ArchiveFault(topic, partition, end, log_first, "", reason))
        partitions.append(
            PartitionCheck(
                topic=topic,
                topic_id=files[0].topic_id,
                partition=partition,
                first=files[0].first,
                end=end,
                files=len(files),
                size=sum(file.size for file in files),
                compared=sum(by_path[file.path].compared for file in files),
                verified_end=verified_end,
                findings=findings,
            )
        )
    return Verification(number=manifest.number, partitions=partitions)


def _findings(files: Sequence[ArchivedFile], checks: Mapping[str, FileCheck]) -> tuple[list[ArchiveFault], int]:
    """Returns the faults, and the number up to which there are none."""
    findings: list[ArchiveFault] = []
    end = verified_end = files[0].first
    for file in files:
        if file.first > end:
            findings.append(ArchiveFault(*file.place, end, file.first, "", "missing between two files"))
        if file.first < end:
            findings.append(ArchiveFault(*file.place, file.first, min(end, file.end), file.path, "in two files"))
        reasons = checks[file.path].reasons
        findings += (ArchiveFault(*file.place, file.first, file.end, file.path, reason) for reason in reasons)
        end = max(end, file.end)
        if not findings:
            verified_end = end
    return findings, verified_end
