"""The paths of all files of a replica that are shipped, in the order in which their digests are compared."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from warren.replication.disk.file_kinds import FileKind, is_local_directory, kind_of
from warren.storage.disk.filesystem import FileSystem

SHIPPED: Final = (FileKind.STATE, FileKind.INDEX)


def shipped_paths(filesystem: FileSystem, root: str, after: str = "") -> Iterator[str]:
    """Yields the paths of all state files, and of the indexes of all logs, that come after `after`, in order.

    Paths are relative to the store, with forward slashes. Directories that lie before `after` are not read, so that
    all parts of a long list together cost as much as the list.
    """
    waiting = _entries(filesystem, root, "", _names(filesystem, root) or (), after)
    while waiting:
        path, names = waiting.pop()
        if names is None:
            yield path
        else:
            waiting += _entries(filesystem, root, path, names, after)


def _entries(
    filesystem: FileSystem, root: str, above: str, names: Sequence[str], after: str
) -> list[tuple[str, Sequence[str] | None]]:
    """Returns the files of a directory that are shipped, and the directories in it with their names; the first last.

    The path of a directory ends with a slash, as `above` does, so that it stands where the paths below it stand.
    """
    entries: list[tuple[str, Sequence[str] | None]] = []
    for name in names:
        path = above + name
        below = path + "/"
        is_before = path <= after and below <= after and not after.startswith(below)
        if is_before or is_local_directory(path):
            continue
        children = _names(filesystem, os.path.join(root, path))
        if children is not None:
            entries.append((below, children))
        elif path > after and kind_of(path) in SHIPPED:
            entries.append((path, None))
    return sorted(entries, reverse=True)


def _names(filesystem: FileSystem, path: str) -> Sequence[str] | None:
    """Returns the names in a directory; None if it is a file, or gone."""
    try:
        return filesystem.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
