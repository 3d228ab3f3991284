"""Staging: where the files of a run wait, under names that nobody reads, for the manifest that names them."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from warren.clock import SYSTEM_CLOCK, Clock
from warren.spark.archive import archive_paths
from warren.spark.archive.locks import held, try_hold
from warren.spark.archive.manifest import ArchivedFile, Manifest, commit_files, load_manifest
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM


class Run:
    """One run that adds to an archive. While it lasts, nobody takes what it has staged for something left behind.

    What runs before it left is put in order first: moved into place where a manifest names it, else removed.
    """

    def __init__(self, archive: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.archive, self.id = os.path.abspath(archive), uuid.uuid4().hex
        SYSTEM_FILE_SYSTEM.make_directory(archive_paths.manifests_directory(self.archive))
        # Under the lock: nobody must find the directory of this run without the lock that says that it lasts.
        with held(archive_paths.manifests_lock(self.archive), clock):
            tidy(self.archive)
            SYSTEM_FILE_SYSTEM.make_directory(archive_paths.run_directory(self.archive, self.id))
            self._lock = try_hold(archive_paths.run_lock(self.archive, self.id))

    def commit(self, files: Sequence[ArchivedFile]) -> Manifest:
        """Make the files part of the archive, all or none, and move them to where they belong."""
        manifest = commit_files(self.archive, files)
        move_into_place(self.archive, files)
        return manifest

    def done_count(self) -> int:
        """How many messages the tasks say they have done."""
        directory = archive_paths.run_directory(self.archive, self.id)
        count = 0
        for name in os.listdir(directory):
            if name.endswith(archive_paths.PROGRESS_SUFFIX):
                with open(os.path.join(directory, name), encoding="ascii") as file:
                    count += int(file.read() or 0)
        return count

    def close(self) -> None:
        """Nothing of the run is left but what it committed."""
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
    """Finish what runs that are over committed, and remove what they did not."""
    staging = archive_paths.staging_directory(archive)
    for run in os.listdir(staging) if os.path.isdir(staging) else ():
        lock = try_hold(archive_paths.run_lock(archive, run))
        if lock is not None:
            settle(archive, run)
            lock.close()


def settle(archive: str, run: str) -> None:
    """What a run that is over has committed stands where it belongs, and the rest of it is gone."""
    committed = [file for file in load_manifest(archive).files if archive_paths.run_of(file.staged) == run]
    move_into_place(archive, committed)
    # A task that did not hear yet that it is over may still write: what it leaves, the next run removes.
    shutil.rmtree(archive_paths.run_directory(archive, run), ignore_errors=True)


def move_into_place(archive: str, files: Iterable[ArchivedFile]) -> None:
    """The files stand where the manifest says. Those that do already are left alone."""
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
    """Where the file is: in its place, or still staged where a run was ended just after its commit."""
    target, staged = os.path.join(archive, file.path), os.path.join(archive, file.staged)
    return staged if not os.path.exists(target) and os.path.exists(staged) else target
