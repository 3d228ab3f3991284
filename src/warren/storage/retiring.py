"""Retiring: whole blocks leave the log at its start, and the log knows so before a file goes."""

from __future__ import annotations

from warren.storage import paths
from warren.storage.commit import Commit
from warren.storage.files import LogFiles
from warren.storage.view import LogView


def retire(files: LogFiles, view: LogView, commit: Commit, before: int) -> None:
    """Remove the blocks whose messages all come before `before`."""
    version = files.format.version
    if version == 1:
        # The first record of the first block is what tells the numbers of all: it must not be lost.
        commit.sync()
    with commit.changing() as writer:
        index = writer.index
        start, slots = view.sealed_before(before)
        if slots:
            _, count = index.block_range()
            index.put_block_range(start + len(slots), count - len(slots))
            # Durable before a file goes: recovery must know that these blocks are not missing but retired.
            index.sync()
            files.forget_blocks(range(start, start + len(slots)))
            for slot in slots:
                files.filesystem.remove(paths.block_path(files.directory, slot.base_offset, version))
            files.filesystem.sync_directory(files.directory)
