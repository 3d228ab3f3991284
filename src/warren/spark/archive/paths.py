"""Makes and parses the names of all files of an archive. No other module does."""

from __future__ import annotations

import os
import re
from typing import Final

MANIFEST: Final = re.compile(r"([0-9]{20})\.jsonl")
PROGRESS_SUFFIX: Final = ".progress"
STAGING: Final = "_staging"


def manifests_directory(archive: str) -> str:
    """Returns the directory of manifests. Other readers of the archive skip names that begin with an underscore."""
    return os.path.join(archive, "_manifests")


def manifest_file(archive: str, number: int) -> str:
    return os.path.join(manifests_directory(archive), f"{number:020d}.jsonl")


def manifest_number(name: str) -> int | None:
    """Returns the number of the manifest with this file name; None for any other file."""
    match = MANIFEST.fullmatch(name)
    return None if match is None else int(match[1])


def manifests_lock(archive: str) -> str:
    return os.path.join(manifests_directory(archive), "lock")


def staging_directory(archive: str) -> str:
    return os.path.join(archive, STAGING)


def run_directory(archive: str, run: str) -> str:
    """Returns the directory of files that a run has written and that are not part of the archive yet."""
    return os.path.join(staging_directory(archive), run)


def run_lock(archive: str, run: str) -> str:
    return os.path.join(run_directory(archive, run), "lock")


def progress_file(archive: str, run: str, task: str) -> str:
    """Returns the file in which a task of a run writes how many messages it has archived."""
    return os.path.join(run_directory(archive, run), task + PROGRESS_SUFFIX)


def staged_path(run: str, name: str) -> str:
    """Returns the path, relative to the archive, of a file that is not part of it yet."""
    return os.path.join(STAGING, run, f"{name}.parquet")


def run_of(staged: str) -> str:
    """Returns the id of the run that staged the file."""
    return os.path.basename(os.path.dirname(staged))


def file_path(topic: str, partition: int, date: str, first: int, end: int) -> str:
    """Returns the path of a file, relative to the archive: by topic and date, as is usual for tables of files."""
    return os.path.join(f"topic={topic}", f"date={date}", f"{partition}-{first:020d}-{end:020d}.parquet")
