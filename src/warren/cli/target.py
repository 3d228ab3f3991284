"""The log that a command is pointed at: found and opened without making one, and its readers."""

from __future__ import annotations

import os
from dataclasses import dataclass

from warren.config import VERSIONS
from warren.errors import CorruptRecord, NotALog
from warren.storage import Log, paths


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderInfo:
    """One reader. `tag` is None where every message passes, and `damage` is None where its file checks."""

    name: str
    position: int
    behind: int
    tag: str | None
    damage: str | None = None


def require_log(path: str, *, needs_index: bool = True) -> None:
    """NotALog, saying what is there instead, unless `path` is a directory with a log in it."""
    if not os.path.isdir(path):
        raise NotALog(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    names = os.listdir(path)
    if os.path.basename(paths.index_path(path)) in names:
        return
    if not any(paths.block_base_offset(name, version) is not None for name in names for version in VERSIONS):
        raise NotALog(path, "it holds neither an index nor blocks; name the directory of a log")
    if needs_index:
        raise NotALog(path, f"its index is missing; `warren log repair {path}` makes it anew from the blocks")


def open_to_read(path: str) -> Log:
    """The log in `path`, for reading alone."""
    require_log(path)
    return Log.open(path, read_only=True)


def reader_infos(log: Log) -> list[ReaderInfo]:
    """Where each reader stands. One whose file is damaged is listed with what is wrong."""
    return [_reader_info(log, name) for name in log.readers()]


def _reader_info(log: Log, name: str) -> ReaderInfo:
    try:
        reader = log.reader(name)
    except CorruptRecord as error:
        return ReaderInfo(name=name, position=0, behind=0, tag=None, damage=error.reason)
    position = reader.position
    return ReaderInfo(name=name, position=position, behind=max(0, log.end - position), tag=reader.tag)
