"""Retiring: removes messages from the start of the log. The index changes durably before a file is removed."""

from __future__ import annotations

from contextlib import suppress

from warren.clock import Clock
from warren.errors import NotALog, UnsupportedByVersion
from warren.storage.append.commit import Commit
from warren.storage.append.writer import QueueWriter
from warren.storage.disk import paths
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import STATE_REPLACED
from warren.storage.read.log_view import LogView


def retire(files: LogFiles, view: LogView, commit: Commit, before: int, *, exactly: bool, rolls: bool) -> None:
    """Removes the blocks whose messages all come before `before`.

    With `exactly` it also deletes the remaining messages before `before` in the first block: readers no longer see
    them, and their bytes are freed when the whole block is retired. With `rolls` it first ends the last block, if that
    has messages, so that it can be removed as well; new messages go to the next block.
    """
    if (exactly or rolls) and not files.format.retires_exactly:
        raise UnsupportedByVersion("deleting messages within a block, or the last block", files.format.version)
    before = max(before, view.first)
    rolls = rolls and view.last_count > 0
    if not view.sealed_before(before)[1] and not (exactly and before > view.first) and not rolls:
        return
    if not files.format.has_meta_data:
        # In version 1 the first record of the first block determines all other numbers, so it must not be lost.
        commit.sync()
    with commit.changing() as writer:
        if rolls:
            # A writer in another process considers a log with the same end unchanged, and would continue in the block
            # that was ended: only a new index stops it. The index is rewritten first, because there may be no room for
            # it.
            writer.move_to(files.rewrite_index(writer.index))
            writer.roll()
        _remove_blocks(files, view, writer, before)
        before = min(before, view.end)
        if exactly and before > view.first:
            writer.move_to(files.rewrite_index(writer.index, first_kept=before))
    if rolls:
        # A block that was ended and stays is synced soon, like a full one.
        commit.sync_later()


def remove_index(files: LogFiles, commit: Commit, clock: Clock) -> None:
    """Removes the index, so that every process that has the log open gets NotALog from now on."""
    # The bell of a removed log cannot be rung.
    with suppress(NotALog), commit.changing() as writer:
        files.filesystem.remove(paths.index_path(files.directory))
        files.filesystem.sync_directory(files.directory)
        writer.index.state = STATE_REPLACED
        writer.index.bell(clock).ring()


def _remove_blocks(files: LogFiles, view: LogView, writer: QueueWriter, before: int) -> None:
    index = writer.index
    start, slots = view.sealed_before(before)
    if slots:
        _, count = index.block_range()
        index.put_block_range(start + len(slots), count - len(slots))
        # Durable before a file is removed, because recovery must know that these blocks are retired and not missing.
        index.sync()
        files.forget_blocks(range(start, start + len(slots)))
        for slot in slots:
            path = paths.block_path(files.directory, slot.base_offset, files.format.version)
            files.filesystem.remove(path)
        files.filesystem.sync_directory(files.directory)
