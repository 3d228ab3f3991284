"""Archives for tests, made without Spark: the work of the tasks and the driver of a run, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warren.message import Message
from warren.spark.archive.manifest import ArchivedFile, Manifest, load_manifest
from warren.spark.archive.plan import plan, tasks
from warren.spark.archive.staging import ArchiveRun
from warren.spark.archive.verification import Verification, check_file, conclude
from warren.spark.archive.write import write_ranges
from warren.spark.store_access.files import FileCatalog
from warren.storage.arrow.arrays import SCHEMA


def staged_files(store: Path, run: ArchiveRun, topics: Sequence[str], cores: int = 2) -> list[ArchivedFile]:
    """Returns the result of a run's tasks: the staged files of everything that is not archived yet."""
    day_ranges = plan(FileCatalog(str(store)), load_manifest(run.archive), run.archive, topics)
    return [file for task in tasks(day_ranges, cores) for file in write_ranges(str(store), run.archive, run.id, task)]


def archived(store: Path, archive: Path, *topics: str) -> Manifest:
    """Archives everything that is not archived yet."""
    with ArchiveRun(str(archive)) as run:
        files = staged_files(store, run, topics)
        return run.commit(files) if files else load_manifest(run.archive)


def verified(store: Path | None, archive: Path) -> Verification:
    """Returns the result of `verify`."""
    manifest = load_manifest(str(archive))
    checks = [check_file(None if store is None else str(store), str(archive), file) for file in manifest.files]
    firsts = {}
    if store is not None:
        for place in manifest.ends():
            with FileCatalog(str(store)).log(*place) as log:
                firsts[place] = log.first
    return conclude(manifest, checks, firsts)


def reasons(verification: Verification) -> list[str]:
    return [finding.reason for finding in verification.findings]


def columns_of(message: Message) -> list[object]:
    """The message as a row of a scan, in the order of its schema; headers as a list of pairs."""
    fields = message._asdict()
    values = {"number": message.number, "headers": list(message.headers.items()), "timestamp": message.time}
    return [values.get(name, fields.get(name)) for name in SCHEMA.names]
