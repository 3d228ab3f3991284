"""The archive as a job on Spark: add to it what is new, and verify what is there."""

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
from warren.spark.archive.manifest import ArchivedFile, Manifest, Place, load_manifest, require_manifest
from warren.spark.archive.planning import Piece, plan, tasks
from warren.spark.archive.staging import Run
from warren.spark.archive.verification import FileCheck, Verification, check_file, conclude
from warren.spark.archive.writing import write_pieces
from warren.spark.catalog import Catalog
from warren.spark.tasks import ShowProgress, cores_of, counted, run_tasks, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What a run has added to an archive: in `seconds`, and with manifest `number`."""

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
    """Add all messages of the topics that the archive in `directory` does not have yet, each exactly once.

    Every topic of the store where none is named. A run that is killed adds nothing, and the next one begins where the
    last one that was committed ended. Both directories are the same on the driver and on all workers.
    """
    start_s = clock.steady_s()
    catalog, directory = Catalog(store), os.path.abspath(directory)
    names = catalog.topics() if topics is None else list(topics)
    until_us = None if until is None else microseconds(until)
    # Before anything is made: a topic that is not there, or a gap, leaves no empty archive behind.
    plan(catalog, load_manifest(directory), directory, names, until_us)
    with Run(directory) as run:
        manifest = load_manifest(directory)
        pieces = plan(catalog, manifest, directory, names, until_us)
        work = partial(_archived, catalog.path, directory, run.id)
        total = sum(piece.messages for piece in pieces)
        with watched(progress and (lambda: progress(run.done_count(), total))):
            results = run_tasks(spark, tasks(pieces, cores_of(spark)), work) if pieces else []
        files = [ArchivedFile.from_json(json.loads(result)) for result in results]
        if files:
            manifest = run.commit(files)
    return Archived(number=manifest.number, files=files, seconds=clock.steady_s() - start_s)


def _archived(store: str, directory: str, run: str, pieces: Sequence[Piece]) -> Iterator[bytes]:
    for file in write_pieces(store, directory, run, pieces):
        yield json.dumps(file.to_json()).encode()


def verify(
    spark: SparkSession,
    directory: str,
    store: str | None = None,
    topics: Sequence[str] | None = None,
    *,
    progress: ShowProgress | None = None,
) -> Verification:
    """Compare the archive with its manifest, and with the logs of `store` wherever they still have the messages."""
    directory = os.path.abspath(directory)
    manifest = require_manifest(directory)
    names = manifest.topics() if topics is None else list(topics)
    for name in names:
        if manifest.topic_id(name) is None:
            raise NoSuchTopic(name)
    files = [file for file in manifest.files if file.topic in names]
    path = None if store is None else Catalog(store).path
    total = sum(file.count for file in files)
    # As many tasks as files: each is short, and it is seen how far they are.
    with counted(spark, total, progress):
        results = run_tasks(spark, files, partial(_checked, path, directory))
    checks = [FileCheck(*json.loads(result)) for result in results]
    return conclude(manifest, checks, _log_firsts(path, manifest, names))


def _checked(store: str | None, directory: str, file: ArchivedFile) -> Iterator[bytes]:
    yield json.dumps(check_file(store, directory, file)).encode()


def _log_firsts(store: str | None, manifest: Manifest, topics: Sequence[str]) -> dict[Place, int]:
    """The first number that is still in the log, of each partition that is archived and still there."""
    if store is None:
        return {}
    catalog, firsts = Catalog(store), {}
    for topic, partition in manifest.ends():
        is_there = topic in topics and topic in catalog.topics()
        if is_there and catalog.topic_id(topic) == manifest.topic_id(topic):
            with suppress(NotALog), catalog.log(topic, partition) as log:
                firsts[topic, partition] = log.first
    return firsts
