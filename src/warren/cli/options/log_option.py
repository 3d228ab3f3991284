"""The log that a command works on: opened without creating one, and its readers."""

from __future__ import annotations

import os
from dataclasses import dataclass

from warren.errors import CorruptRecord, NotALog
from warren.storage import Log
from warren.storage.disk import paths
from warren.storage.format.versions import VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderInfo:
    """One reader. `tag` is None if every message passes, and `damage` is None if its file is whole."""

    name: str
    position: int
    behind: int
    tag: str | None
    damage: str | None = None


def require_log(path: str, *, needs_index: bool = True) -> None:
    """Raises NotALog, with a description of the path, unless `path` is a directory with a log in it."""
    if not os.path.isdir(path):
        raise NotALog(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    names = os.listdir(path)
    if os.path.basename(paths.index_path(path)) in names:
        return
    if not any(paths.block_base_offset(name, version) is not None for name in names for version in VERSIONS):
        raise NotALog(path, "it has neither an index nor blocks; name the directory of a log")
    if needs_index:
        raise NotALog(path, f"its index is missing; `warren log repair {path}` rebuilds it from the blocks")


def open_to_read(path: str) -> Log:
    """Opens the log in `path` for reading only."""
    require_log(path)
    return Log.open(path, read_only=True)


def reader_infos(log: Log) -> list[ReaderInfo]:
    """Returns the position of each reader. A reader with a damaged file is listed with its damage."""
    return [_reader_info(log, name) for name in log.readers()]


def _reader_info(log: Log, name: str) -> ReaderInfo:
    try:
        reader = log.reader(name)
    except CorruptRecord as error:
        return ReaderInfo(name=name, position=0, behind=0, tag=None, damage=error.reason)
    position = reader.position
    return ReaderInfo(name=name, position=position, behind=max(0, log.end - position), tag=reader.tag)
