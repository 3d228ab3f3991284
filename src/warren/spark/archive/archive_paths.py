"""Every file name of an archive, made and parsed."""

from __future__ import annotations

import os
import re
from typing import Final

MANIFEST: Final = re.compile(r"([0-9]{20})\.jsonl")
PROGRESS_SUFFIX: Final = ".progress"
STAGING: Final = "_staging"


def manifests_directory(archive: str) -> str:
    """What is named with an underscore first, others who read the directory as a table pass over."""
    return os.path.join(archive, "_manifests")


def manifest_file(archive: str, number: int) -> str:
    return os.path.join(manifests_directory(archive), f"{number:020d}.jsonl")


def manifest_number(name: str) -> int | None:
    """The number of the manifest that is called so; None for any other file."""
    found = MANIFEST.fullmatch(name)
    return None if found is None else int(found[1])


def manifests_lock(archive: str) -> str:
    return os.path.join(manifests_directory(archive), "lock")


def staging_directory(archive: str) -> str:
    return os.path.join(archive, STAGING)


def run_directory(archive: str, run: str) -> str:
    """Where one run keeps what is not part of the archive yet."""
    return os.path.join(staging_directory(archive), run)


def run_lock(archive: str, run: str) -> str:
    return os.path.join(run_directory(archive, run), "lock")


def progress_file(archive: str, run: str, task: str) -> str:
    """Where a task of a run says how many messages it has done."""
    return os.path.join(run_directory(archive, run), task + PROGRESS_SUFFIX)


def staged_path(run: str, name: str) -> str:
    """Where a file waits to become part of the archive, seen from the archive."""
    return os.path.join(STAGING, run, f"{name}.parquet")


def run_of(staged: str) -> str:
    """The run that staged the file."""
    return os.path.basename(os.path.dirname(staged))


def file_path(topic: str, partition: int, date: str, first: int, end: int) -> str:
    """Where a file stands in the archive, seen from it: by topic and date, as others lay out tables of files."""
    return os.path.join(f"topic={topic}", f"date={date}", f"{partition}-{first:020d}-{end:020d}.parquet")
