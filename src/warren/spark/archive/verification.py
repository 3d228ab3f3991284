"""Whether an archive is what its manifest says, and what the log says, wherever the log still has the messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warren.config import SCAN_ROWS_DEFAULT
from warren.errors import GONE, CorruptRecord, NoSuchPartition, NoSuchTopic, NumberRetired
from warren.spark.archive.content import ContentChecksum
from warren.spark.archive.manifest import ArchivedFile, Manifest, Place
from warren.spark.archive.shape import CHECKED, shaped
from warren.spark.archive.staging import located
from warren.spark.archive.writing import file_checksum, joined_runs
from warren.spark.catalog import Catalog
from warren.storage import Log

RUNS_SHOWN_MAX: Final = 3


class Finding(NamedTuple):
    """Something that is wrong with the messages from `first` up to `end`."""

    topic: str
    partition: int
    first: int
    end: int
    path: str
    reason: str


class FileCheck(NamedTuple):
    """What was found out of one file: how many messages were compared with the log, and what is wrong."""

    path: str
    compared: int
    reasons: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """What was found out of one partition. Up to `verified_end` nothing is wrong, and nothing is missing."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    files: int
    size: int
    compared: int
    verified_end: int
    findings: Sequence[Finding] = ()

    @property
    def messages(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found out of an archive as manifest `number` has it."""

    number: int
    partitions: Sequence[PartitionCheck] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        return [finding for partition in self.partitions for finding in partition.findings]

    @property
    def is_good(self) -> bool:
        return not self.findings

    def verified_ends(self) -> dict[Place, int]:
        """By partition, the number up to which everything is archived as it should be."""
        return {(found.topic, found.partition): found.verified_end for found in self.partitions}


# --- One file ---


def check_file(store: str | None, archive: str, file: ArchivedFile) -> FileCheck:
    """Compare a file with the manifest, and with the log of `store`, as far as that still has the messages."""
    path = located(archive, file)
    reasons = _reasons_of_file(path, file)
    if reasons or store is None:
        return FileCheck(file.path, 0, reasons)
    try:
        compared, reasons = _compare_with_log(Catalog(store), path, file)
    except CorruptRecord as error:
        compared, reasons = 0, [f"the log cannot be read: {error}"]
    return FileCheck(file.path, compared, reasons)


def _reasons_of_file(path: str, file: ArchivedFile) -> list[str]:
    if not os.path.exists(path):
        return ["the file is missing"]
    size, crc = file_checksum(path)
    if size != file.size:
        return [f"the file has {size:,} bytes, and had {file.size:,} when it was archived"]
    if crc != file.crc:
        return ["the bytes of the file are not those that were archived"]
    try:
        content, runs = _content_of(path, file.first)
    except (pa.ArrowException, OSError) as error:
        return [f"the file cannot be read: {error}"]
    if runs != file.runs(file.first):
        return [f"the file has the messages {_runs_text(runs)}, and not {_runs_text(file.runs(file.first))}"]
    return _differences(content.columns(), file.content, "the manifest")


def _content_of(path: str, start: int) -> tuple[ContentChecksum, list[range]]:
    """What the messages from `start` on are, and their numbers, as runs without a gap."""
    content, runs = ContentChecksum(), list[range]()
    for batch in file_batches(path):
        numbers = batch.column("offset").to_numpy()
        skipped = int(np.searchsorted(numbers, start))
        batch, numbers = batch.slice(skipped), numbers[skipped:]
        if len(numbers):
            runs = joined_runs(runs, numbers)
            content.add(batch)
    return content, runs


def file_batches(path: str, columns: Sequence[str] = CHECKED) -> Iterator[pa.RecordBatch]:
    """The messages of a file, in the columns of an archive."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(SCAN_ROWS_DEFAULT, columns=list(columns), use_threads=False)


def _compare_with_log(catalog: Catalog, path: str, file: ArchivedFile) -> tuple[int, list[str]]:
    while True:
        try:
            if catalog.topic_id(file.topic) != file.topic_id:
                return 0, []
            with catalog.log(file.topic, file.partition) as log:
                return _compare(log, path, file)
        except (NoSuchTopic, NoSuchPartition, *GONE):
            # The topic was deleted: the archive is all there is.
            return 0, []
        except NumberRetired:
            # Retention was at work just now: less is left to compare.
            continue


def _compare(log: Log, path: str, file: ArchivedFile) -> tuple[int, list[str]]:
    start = max(file.first, log.first)
    if start >= file.end:
        return 0, []
    if log.end < file.end:
        return 0, [f"the log ends at {log.end:,}, before what was archived from it"]
    archived = file.content if start == file.first else _content_of(path, start)[0].columns()
    content = ContentChecksum()
    for batch in log.scan(start, file.end):
        content.add(shaped(batch))
    return content.count, _differences(archived, content.columns(), "the log")


def _differences(found: Mapping[str, str], expected: Mapping[str, str], where: str) -> list[str]:
    names = [name for name in CHECKED if found.get(name) != expected.get(name)]
    return [f"{', '.join(names)}: not what {where} has"] if names else []


def _runs_text(runs: Sequence[range]) -> str:
    shown = [f"{run.start:,} to {run.stop - 1:,}" for run in runs[:RUNS_SHOWN_MAX]]
    return ", ".join(shown) + (" and more" if len(runs) > RUNS_SHOWN_MAX else "") if runs else "of no number"


# --- The archive as a whole ---


def conclude(manifest: Manifest, checks: Sequence[FileCheck], log_firsts: Mapping[Place, int]) -> Verification:
    """What the checks of all files, and the numbers of the manifest, mean for each partition.

    `log_firsts` has the first number that is still in the log, of the partitions that there still are.
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
        log_first = log_firsts.get((topic, partition), 0)
        if log_first > end:
            reason = "neither in the archive nor in the log: retired before they were archived"
            findings.append(Finding(topic, partition, end, log_first, "", reason))
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


def _findings(files: Sequence[ArchivedFile], checks: Mapping[str, FileCheck]) -> tuple[list[Finding], int]:
    """What is wrong, and up to which number nothing is."""
    findings: list[Finding] = []
    end = verified_end = files[0].first
    for file in files:
        if file.first > end:
            findings.append(Finding(*file.place, end, file.first, "", "missing between two files"))
        if file.first < end:
            findings.append(Finding(*file.place, file.first, min(end, file.end), file.path, "in two files"))
        reasons = checks[file.path].reasons
        findings += (Finding(*file.place, file.first, file.end, file.path, reason) for reason in reasons)
        end = max(end, file.end)
        if not findings:
            verified_end = end
    return findings, verified_end
