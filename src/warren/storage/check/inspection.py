"""A description of a log: its index, blocks and readers, for people and for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.storage.disk import paths
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import STATE_CLEAN, STATE_FAILED, STATE_OPEN, STATE_REPLACED
from warren.storage.read.log_view import LogView

STATE_NAMES: Final[Mapping[int, str]] = {
    STATE_CLEAN: "clean",
    STATE_OPEN: "open",
    STATE_REPLACED: "replaced",
    STATE_FAILED: "a sync failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockInfo:
    """One block. Its records end at `end_offset`; `file_size` is None if the file is missing. Times are µs."""

    number: int
    path: str
    base_offset: int
    end_offset: int
    base_number: int
    end_number: int
    created: int
    updated: int
    file_size: int | None
    is_sealed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInfo:
    """The index of a log, its blocks and its readers. `writing` is the process that is changing the log, or 0.

    `passed_over` counts how often readers of this process skipped a batch because its records cannot be read.
    """

    path: str
    version: int
    state: str
    flag: int
    extension: Mapping[str, str]
    first: int
    end: int
    synced: int
    writing: int
    max_block_count: int
    blocks: Sequence[BlockInfo]
    passed_over: int


def inspect(files: LogFiles, view: LogView) -> LogInfo:
    """Returns a description of the log as it is now. Changes nothing, and reads no record."""
    index = files.index()
    slots, end = view.slots(), view.end
    blocks = [
        BlockInfo(
            number=number,
            path=(path := paths.block_path(files.directory, slot.base_offset, index.version)),
            base_offset=slot.base_offset,
            end_offset=index.slot(number).end_offset,
            base_number=slot.base_number,
            end_number=end if number == slots.start + len(slots.slots) - 1 else slot.end_number,
            created=slot.created,
            updated=index.slot(number).updated,
            file_size=_file_size(files, path),
            is_sealed=number < slots.start + len(slots.slots) - 1,
        )
        for number, slot in enumerate(slots.slots, slots.start)
    ]
    return LogInfo(
        path=files.directory,
        version=index.version,
        state=STATE_NAMES.get(index.state, "unknown"),
        flag=index.flag,
        extension=index.extension(),
        first=view.first,
        end=end,
        synced=index.synced,
        writing=index.writing,
        max_block_count=index.max_block_count,
        blocks=blocks,
        passed_over=view.passed_over,
    )


def _file_size(files: LogFiles, path: str) -> int | None:
    return files.filesystem.open(path, writable=False).size() if files.filesystem.exists(path) else None


def reader_names(files: LogFiles) -> list[str]:
    """Returns the names of a log's readers, sorted."""
    directory = paths.readers_directory(files.directory)
    if not files.filesystem.exists(directory):
        return []
    names = map(paths.reader_name, files.filesystem.names(directory))
    return sorted(name for name in names if name is not None)
