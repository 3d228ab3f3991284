"""Reads records of a master's logs to send them: ranges of the current changes, and old records for a slave."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from mmap import mmap
from typing import Final

from warren.clock import Clock
from warren.errors import CorruptRecord, NotALog, NumberRetired
from warren.replication.changes import Item, LogRange
from warren.replication.disk.log_facts import directory_of, facts_of, log_name
from warren.replication.disk.replica import Ranges
from warren.storage.disk import paths
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import File, FileSystem
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.open_files import process_residents
from warren.storage.format.versions import VERSION_DEFAULT
from warren.storage.read.log_view import LogView

MAPS_MAX: Final = 128


class BlockMaps:
    """Keeps maps of the MAPS_MAX blocks that were read last. Any thread may call."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._mutex = threading.Lock()
        # By log and block. A later log in the same directory has another name.
        self._maps: OrderedDict[tuple[str, int], tuple[File, mmap, int]] = OrderedDict()

    def data(self, directory: str, change: LogRange) -> memoryview | None:
        """Returns the bytes of a range; None if its block is gone."""
        key, end = (change.log, change.block), change.position + change.size
        with self._mutex:
            mapped = self._maps.get(key)
            if mapped is None or mapped[2] < end:
                mapped = self._map(paths.block_path(directory, change.block, VERSION_DEFAULT))
                if mapped is None or mapped[2] < end:
                    return None
                self._maps[key] = mapped
                if len(self._maps) > MAPS_MAX:
                    self._maps.popitem(last=False)
            self._maps.move_to_end(key)
        return memoryview(mapped[1])[change.position : end]

    def _map(self, path: str) -> tuple[File, mmap, int] | None:
        try:
            file = self._filesystem.open(path, writable=False)
            size = file.size()
            return file, file.map(size, writable=False), size
        except (FileNotFoundError, ValueError):
            return None

    def clear(self) -> None:
        with self._mutex:
            self._maps.clear()


def read_ranges(
    filesystem: FileSystem, root: str, ranges: Sequence[tuple[str, int, int]], size_max: int, clock: Clock
) -> Ranges | None:
    """Returns old records in the order of `ranges`: as many as fit, but at least one. None if a log is gone."""
    items: list[Item] = []
    left = list(ranges)
    while left and size_max > 0:
        log, start, end = left[0]
        files = LogFiles(os.path.join(root, *directory_of(log).split("/")), filesystem, clock, process_residents())
        files.writable = False
        try:
            range = _next_range(files, log, start, end, size_max, is_first=not items)
        except (CorruptRecord, NotALog, NumberRetired, FileNotFoundError):
            return None
        finally:
            files.close()
        if range is None:
            break
        items.append(range)
        size_max -= range.size
        if range.end < end:
            left[0] = (log, range.end, end)
        else:
            left.pop(0)
            # A caller may have waited for the sync of some of these records, so the slave has to sync them all.
            items.append(LogRange(log, 0, 0, end, end, 0))
    return Ranges(items, left)


def _next_range(files: LogFiles, log: str, start: int, end: int, size_max: int, *, is_first: bool) -> LogRange | None:
    """Returns records of one block from `start` on, of about `size_max` bytes; None if not even one fits.

    The first range of an answer has at least one record, even if it does not fit.
    """
    index = files.index()
    index.shows_all = True
    if log_name(directory_of(log), facts_of(index)) != log:
        raise NotALog(files.directory, "it is another log by now")
    view = LogView(files)
    blocks = view.slots()
    places = [place for place, slot in enumerate(blocks.slots) if slot.base_number <= start]
    if not places:
        raise NumberRetired(start, view.first)
    place = places[-1]
    slot = blocks.slots[place]
    is_last = place == len(blocks.slots) - 1
    if is_last:
        slot = index.slot(blocks.start + place)
    block = files.block(blocks.start + place, slot)
    # The last records may be laid, and be published only when the slaves have them. They are in the block already: a
    # slave that joins now needs them from here, because nothing is published before it has them.
    is_laid = is_last and end > index.message_count
    limit = block.mapped_size if is_laid else slot.end_offset - slot.base_offset
    end_number = end if is_last else min(end, slot.end_number)
    # A slave that has nothing of the block gets the block from its header on, and skips the records that it has.
    is_whole = start == slot.base_number or start == view.first
    # The range begins behind the record before it, because an index message may stand between the two.
    position = 0 if is_whole else block.end_after(start - 1, limit)
    first = slot.base_number if is_whole else start
    if is_laid:
        end_number, end_position = _one(block, limit, end - 1)
    else:
        is_all = end_number == (index.message_count if is_last else slot.end_number)
        end_position = limit if is_all else block.find(end_number, limit)
    if end_position - position > size_max:
        shorter = _fitting(block, limit, position, max(start, first), end_number, size_max)
        if shorter is None and not is_first:
            return None
        end_number, end_position = shorter or _one(block, limit, max(start, first))
    data = memoryview(block.view)[position:end_position]
    return LogRange(log, slot.base_offset, position, first, end_number, len(data), data)


def _fitting(block: Block, limit: int, position: int, start: int, end: int, size_max: int) -> tuple[int, int] | None:
    """Returns the number and the position after the last record from `start` on that fits; None if none fits."""
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if block.find(middle, limit) - position <= size_max:
            low = middle
        else:
            high = middle
    if low == start:
        return None
    at = block.find(low, limit)
    number = block.read_packed(at, limit)[1]
    return (number, at) if number > start else None


def _one(block: Block, limit: int, start: int) -> tuple[int, int]:
    """Returns the number and the position after the record that holds the message `start`."""
    packed, number, end = block.read_packed(block.find(start, limit), limit)
    return number + packed.message_count, end
