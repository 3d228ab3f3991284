"""Archives as jobs on Spark: one adds new messages to an archive, one verifies it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from warren.clock import SYSTEM_CLOCK, Clock, microseconds
from warren.errors import NoSuchTopic, NotALog
from warren.spark.archive.manifest import ArchivedFile, Manifest, load_manifest, require_manifest
from warren.spark.archive.plan import DayRange, plan, tasks
from warren.spark.archive.staging import ArchiveRun
from warren.spark.archive.verification import FileCheck, Verification, check_file, conclude
from warren.spark.archive.write import write_ranges
from warren.spark.runtime.tasks import ShowProgress, cores_of, counted, run_tasks, watched
from warren.spark.store_access.access import TopicPartition
from warren.spark.store_access.files import FileCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The files that a run added to an archive, in `seconds`, with manifest `number`."""

    number: int
    files: Sequence[ArchivedFile]
    seconds: float

    @property
    def count(self) -> int:
        return sum(file.count for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def archive(
    spark: SparkSession,
    store: str,
    directory: str,
    topics: Sequence[str] | None = None,
    *,
    until: datetime | float | int | None = None,
    progress: ShowProgress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Archived:
    """Adds all messages of the topics that the archive in `directory` does not have yet, each exactly once.

    Without `topics` it archives every topic of the store. A run that is killed adds nothing, and the next run begins
    where the last committed one ended. Both directories must be the same on the driver and on all workers.
    """
    start_s = clock.steady_s()
    catalog, directory = FileCatalog(store), os.path.abspath(directory)
    names = catalog.topics() if topics is None else list(topics)
    until_us = None if until is None else microseconds(until)
    # Planned before anything is created, so that a missing topic or a gap leaves no empty archive behind.
    plan(catalog, load_manifest(directory), directory, names, until_us)
    with ArchiveRun(directory) as run:
        manifest = load_manifest(directory)
        catalog.refresh()
        day_ranges = plan(catalog, manifest, directory, names, until_us)
        work = partial(_archived, catalog.path, directory, run.id)
        total = sum(day_range.messages for day_range in day_ranges)
        with watched(progress and (lambda: progress(run.done_count(), total))):
            results = run_tasks(spark, tasks(day_ranges, cores_of(spark)), work) if day_ranges else []
        files = [ArchivedFile.from_json(json.loads(result)) for result in results]
        if files:
            manifest = run.commit(files)
    return Archived(number=manifest.number, files=files, seconds=clock.steady_s() - start_s)


def _archived(store: str, directory: str, run: str, day_ranges: Sequence[DayRange]) -> Iterator[bytes]:
    for file in write_ranges(store, directory, run, day_ranges):
        yield json.dumps(file.to_json()).encode()


def verify(
    spark: SparkSession,
    directory: str,
    store: str | None = None,
    topics: Sequence[str] | None = None,
    *,
    progress: ShowProgress | None = None,
) -> Verification:
    """Compares the archive with its manifest, and with the logs of `store` as far as they still have the messages."""
    directory = os.path.abspath(directory)
    manifest = require_manifest(directory)
    names = manifest.topics() if topics is None else list(topics)
    for name in names:
        if manifest.topic_id(name) is None:
            raise NoSuchTopic(name)
    files = [file for file in manifest.files if file.topic in names]
    path = None if store is None else FileCatalog(store).path
    total = sum(file.count for file in files)
    # One task for each file, so that tasks are short and the number of finished tasks shows the progress.
    with counted(spark, total, progress):
        results = run_tasks(spark, files, partial(_checked, path, directory))
    checks = [FileCheck(*json.loads(result)) for result in results]
    return conclude(manifest, checks, _log_firsts(path, manifest, names))


def _checked(store: str | None, directory: str, file: ArchivedFile) -> Iterator[bytes]:
    yield json.dumps(check_file(store, directory, file)).encode()


def _log_firsts(store: str | None, manifest: Manifest, topics: Sequence[str]) -> dict[TopicPartition, int]:
    """Returns the first number that is still in the log, for each archived partition that still exists."""
    if store is None:
        return {}
    catalog, firsts = FileCatalog(store), {}
    for place in manifest.ends():
        topic, partition = place
        is_there = topic in topics and topic in catalog.topics()
        if is_there and catalog.topic_id(topic) == manifest.topic_id(topic):
            with suppress(NotALog), catalog.log(topic, partition) as log:
                firsts[place] = log.first
    return firsts
