"""The changes of state files in one round. Each file is written and synced only once."""

from __future__ import annotations

import os
from typing import TypeAlias

from warren.replication.changes import FileContent, FileGone, FilePatch
from warren.replication.disk.parallel_work import for_each
from warren.storage.disk.filesystem import FileSystem, replace_file

StateChange: TypeAlias = FileContent | FilePatch | FileGone


class StateChanges:
    """Collects changes of files below `root`, and carries them out.

    A file whose changes begin with its whole content is replaced. If an existing file has only patches, they are
    written in place, as the master wrote them. A power cut may leave some of several patches. But a master makes the
    second patch after the whole set has the first one, so only a replica outside the set gets several in one round.
    """

    def __init__(self, filesystem: FileSystem, root: str) -> None:
        self._filesystem, self._root = filesystem, root
        self._changes: dict[str, list[StateChange]] = {}
        self._emptied: set[str] = set()

    def add(self, change: StateChange) -> None:
        if isinstance(change, FilePatch):
            self._changes.setdefault(change.path, []).append(change)
        else:
            self._changes[change.path] = [change]

    def note_removed_log(self, directory: str) -> None:
        """Notes that the directory of a log, relative to the store, is to be removed at the end if it is empty."""
        self._emptied.add(self._absolute(directory))

    def content(self, path: str) -> bytes | None:
        """Returns the content that the file will have; None if it will not exist."""
        changes = self._changes.get(path, [])
        content: bytearray | None = None
        if not changes or isinstance(changes[0], FilePatch):
            absolute = self._absolute(path)
            if not self._filesystem.exists(absolute):
                return None
            file = self._filesystem.open(absolute, writable=False)
            content = bytearray(file.read(0, file.size()))
            file.close()
        for change in changes:
            if isinstance(change, FileGone):
                content = None
            elif isinstance(change, FileContent):
                content = bytearray(change.data)
            elif content is not None:
                content.extend(bytes(max(0, change.position - len(content))))
                content[change.position : change.position + len(change.data)] = change.data
        return None if content is None else bytes(content)

    def carry_out(self) -> None:
        """Carries out the changes of each file, and syncs it."""
        directories, self._emptied = self._emptied, set()
        removed = for_each(self._filesystem, self._carry_out, self._changes)
        directories.update(os.path.dirname(path) for path in removed if path)
        for directory in sorted(directories, reverse=True):
            if self._filesystem.exists(directory):
                self._filesystem.sync_directory(directory)
                self._prune(directory)
        self._changes.clear()

    def _carry_out(self, path: str) -> str:
        """Carries out the changes of one file. Returns its absolute path if they removed it, otherwise nothing.

        Threads do this for several files at the same time.
        """
        changes, absolute = self._changes[path], self._absolute(path)
        first, is_there = changes[0], self._filesystem.exists(absolute)
        if isinstance(first, FileGone) and len(changes) == 1:
            if not is_there:
                return ""
            self._filesystem.remove(absolute)
            return absolute
        if isinstance(first, FilePatch) and is_there:
            self._patch(absolute, changes)
        else:
            self._filesystem.make_directory(os.path.dirname(absolute))
            replace_file(self._filesystem, absolute, self.content(path) or b"")
        return ""

    def _patch(self, path: str, changes: list[StateChange]) -> None:
        file = self._filesystem.open(path, writable=True)
        for change in changes:
            assert isinstance(change, FilePatch)
            file.write(change.position, change.data)
        file.sync()
        file.close()

    def _prune(self, directory: str) -> None:
        """Removes a directory if it is empty, and then those above it; never one at the root of the store."""
        while os.path.dirname(os.path.dirname(directory)).startswith(self._root):
            if self._filesystem.names(directory):
                return
            self._filesystem.remove_directory(directory)
            directory = os.path.dirname(directory)

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/"))
