"""Staging: the files of a run have names that no reader opens, until a manifest lists them."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from warren.clock import SYSTEM_CLOCK, Clock
from warren.spark.archive import paths
from warren.spark.archive.locks import held, try_hold
from warren.spark.archive.manifest import ArchivedFile, Manifest, commit_files, load_manifest
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM


class ArchiveRun:
    """One run that adds to an archive. Until it is closed, no other run removes its staged files as leftovers.

    First it tidies the files that earlier runs left: those that a manifest lists are moved into place, the others
    removed.
    """

    def __init__(self, archive: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.archive, self.id = os.path.abspath(archive), uuid.uuid4().hex
        SYSTEM_FILE_SYSTEM.make_directory(paths.manifests_directory(self.archive))
        # Under the lock, because another run would remove a directory whose own lock is not held.
        with held(paths.manifests_lock(self.archive), clock):
            tidy(self.archive)
            SYSTEM_FILE_SYSTEM.make_directory(paths.run_directory(self.archive, self.id))
            self._lock = try_hold(paths.run_lock(self.archive, self.id))

    def commit(self, files: Sequence[ArchivedFile]) -> Manifest:
        """Makes the files part of the archive, all or none, and moves them into place."""
        manifest = commit_files(self.archive, files)
        move_into_place(self.archive, files)
        return manifest

    def done_count(self) -> int:
        """Returns how many messages the tasks have archived, as their progress files say."""
        directory = paths.run_directory(self.archive, self.id)
        count = 0
        for name in os.listdir(directory):
            if name.endswith(paths.PROGRESS_SUFFIX):
                with open(os.path.join(directory, name), encoding="ascii") as file:
                    count += int(file.read() or 0)
        return count

    def close(self) -> None:
        """Removes everything of the run that it did not commit."""
        settle(self.archive, self.id)
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tidy(archive: str) -> None:
    """Moves the files that ended runs committed into place, and removes their other files."""
    staging = paths.staging_directory(archive)
    for run in os.listdir(staging) if os.path.isdir(staging) else ():
        lock = try_hold(paths.run_lock(archive, run))
        if lock is not None:
            settle(archive, run)
            lock.close()


def settle(archive: str, run: str) -> None:
    """Moves the files that an ended run committed into place, and removes its other files."""
    committed = [file for file in load_manifest(archive).files if paths.run_of(file.staged) == run]
    move_into_place(archive, committed)
    # A task that has not been stopped yet may still write. The next run removes its files.
    shutil.rmtree(paths.run_directory(archive, run), ignore_errors=True)


def move_into_place(archive: str, files: Iterable[ArchivedFile]) -> None:
    """Moves files to the paths in the manifest. Files that are there already are not changed."""
    directories = set()
    for file in files:
        source, target = os.path.join(archive, file.staged), os.path.join(archive, file.path)
        if os.path.exists(target):
            continue
        SYSTEM_FILE_SYSTEM.make_directory(os.path.dirname(target))
        with suppress(FileNotFoundError):
            os.rename(source, target)
            directories.add(os.path.dirname(target))
    for directory in directories:
        SYSTEM_FILE_SYSTEM.sync_directory(directory)


def located(archive: str, file: ArchivedFile) -> str:
    """Returns the path of a file: its place, or its staged path if its run ended just after the commit."""
    target, staged = os.path.join(archive, file.path), os.path.join(archive, file.staged)
    return staged if not os.path.exists(target) and os.path.exists(staged) else target
