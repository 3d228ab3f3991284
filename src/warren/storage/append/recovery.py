"""Recovery after a crash: finds the true end of the log, and rebuilds everything that is derived from the records.

There are two cases. Either a process died while it held the writer lock, and another process has had the log open all
the time: then the system still has every byte, the published end is right, and the bytes after it were never
acknowledged. Or no living process can vouch for the log: then any page that was not synced may be lost, including the
page with the published end, and the log goes as far as its records match their checksums.

Both end the same way. The last block is cut at the end, and the space after it is cleared and synced, because a
complete record after a torn one must never come back. Then a new index replaces the old one. Only the holder of the
writer lock may recover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from warren.errors import CorruptRecord
from warren.storage.disk import paths
from warren.storage.disk.block import HEADER_SIZE_MAX, Block, BlockHeader, end_of_block, is_cut_short
from warren.storage.disk.filesystem import File
from warren.storage.disk.index import Blocks, Index, index_bytes, slots_by_base, with_first
from warren.storage.disk.log_files import LogFiles
from warren.storage.format.layout import (
    END_OF_BLOCK,
    INDEX_SPACING,
    LABEL_INDEX,
    META_HEAD,
    RECORD_HEAD_V1,
    SIZE_WORD,
    STATE_FAILED,
    STATE_OPEN,
    RecordHeadV1,
    Slot,
)
from warren.storage.format.record import Damage, DiskMessage
from warren.storage.read.reader import ReaderCursor, take_readers_back

MAX_BLOCK_COUNT_DEFAULT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The result of a recovery. `cut_bytes` counts the bytes after the last complete record that were not zero.

    A repair does not delete the blocks that it removes, but appends `.cut` to their names.
    """

    message_count: int
    cut_path: str
    cut_position: int
    cut_bytes: int
    removed_paths: Sequence[str]


@dataclass(slots=True, kw_only=True)
class _BlockFile:
    """One block file, and what its header and the old index say about it."""

    base_offset: int
    number: int
    base_number: int
    slot: Slot


@dataclass(slots=True, kw_only=True)
class _Plan:
    """The blocks that stay, and where the log ends in the last of them."""

    number: int
    end: int = 0
    last: Block | None = None
    slots: list[Slot] = field(default_factory=list)
    to_seal: list[tuple[Block, int]] = field(default_factory=list)


def recover(
    files: LogFiles, index: Index | None, *, max_block_count: int, force: bool = False, visible: int | None = None
) -> tuple[Index, Recovery]:
    """Recovers the log. With `visible` readers of a replica see it up to there, and not to where the index says.

    Raises CorruptRecord if messages that were on disk are damaged, unless `force` cuts there.
    """
    return _Recoverer(files, index, max_block_count, force=force, visible=visible).run()


def cut(files: LogFiles, index: Index, number: int) -> Index:
    """Ends a log that is whole at `number`, on disk: what is behind comes back after no crash.

    Raises CorruptRecord if the messages before it are damaged, or if it stands within a record.
    """
    return _Recoverer(files, index, index.max_block_count, force=False, cut=number).run()[0]


class _Recoverer:
    """One recovery: reads the files that exist, and writes the index that describes them."""

    def __init__(
        self,
        files: LogFiles,
        index: Index | None,
        max_block_count: int,
        *,
        force: bool,
        cut: int | None = None,
        visible: int | None = None,
    ) -> None:
        self._files, self._force, self._cut_at = files, force, cut
        self._max_block_count = max(max_block_count, index.max_block_count if index else 0)
        self._flag = index.flag if index else 0
        self._extension = index.extension() if index else {}
        self._first_kept = index.first_kept if index else 0
        self._index = index if index is not None and index.is_credible() and not force else None
        # If a process had the log open all the time, the published end is right. Otherwise only synced messages are
        # safe.
        self._end_known: int | None = None
        self._floor, self._rewrites = 0, False
        self._recovered_us = index.recovered_us if index is not None else 0
        if self._index is not None:
            is_failed = self._index.state == STATE_FAILED
            self._floor = self._index.message_count
            if files.is_vouched_by_anyone(self._index):
                self._end_known, self._rewrites = self._floor, is_failed
            else:
                # A sync may have failed since the machine started. Then the system considers pages clean that it could
                # not write, and only storing them again brings them to disk.
                self._rewrites = self._index.boot_id == files.filesystem.boot_id()
            if self._end_known is None or is_failed:
                self._floor = min(self._index.synced, self._floor)
        if cut is not None:
            self._end_known = self._floor = cut
        if self._end_known is None or cut is not None:
            self._recovered_us = max(files.now_us(), self._recovered_us + 1)
        # A recovery never shows readers of a replica more than they saw.
        self._visible = index.visible if visible is None and index is not None else visible
        self._old = slots_by_base(self._index)
        # Used even from an index that cannot be trusted, because the files of version 1 do not contain their block
        # numbers.
        self._numbers = {base: number for base, (number, _) in slots_by_base(index).items()}
        self._leftovers: list[str] = []
        self._retired: list[str] = []
        self._removed: list[str] = []

    def run(self) -> tuple[Index, Recovery]:
        block_files = self._find_blocks()
        plan = self._plan(block_files)
        self._refuse_to_lose(plan, block_files)
        self._promise_less()
        for path in self._leftovers + [self._path(later) for later in block_files[len(plan.slots) :]]:
            self._take_away(path)
        for block, end in plan.to_seal:
            self._seal(block, end)
        cut_bytes = self._cut(plan.last, plan.end) if plan.last is not None else 0
        self._files.filesystem.sync_directory(self._files.directory)
        start = block_files[0].number if block_files else 0
        end_block = start + max(len(plan.slots) - 1, 0)
        take_readers_back(self._files, ReaderCursor(plan.number, end_block, plan.end))
        index = self._write_index(Blocks(start=start, slots=plan.slots), plan.number)
        # Removed only after the new index is durable, because the old one still lists these blocks.
        for path in self._retired:
            self._take_away(path)
        self._files.filesystem.sync_directory(self._files.directory)
        report = Recovery(
            message_count=plan.number,
            cut_path=plan.last.path if plan.last is not None else "",
            cut_position=plan.end,
            cut_bytes=cut_bytes,
            removed_paths=tuple(self._removed),
        )
        return index, report

    def _take_away(self, path: str) -> None:
        """Removes a block that is not part of the log. A repair only renames it."""
        if self._force:
            self._files.filesystem.replace(path, path + ".cut")
        else:
            self._files.filesystem.remove(path)
        self._removed.append(path)

    def _plan(self, block_files: Sequence[_BlockFile]) -> _Plan:
        """Decides where the log ends: which blocks stay, and where the last of them is cut."""
        plan = _Plan(number=block_files[0].base_number if block_files else 0)
        first_walked = self._first_to_walk(block_files)
        for place, block_file in enumerate(block_files):
            if plan.slots and (not self._follows(plan, block_file) or plan.number == self._cut_at):
                break
            if plan.last is not None:
                plan.to_seal.append((plan.last, plan.end))
            if place < first_walked:
                plan.slots.append(self._sealed_slot(block_file, block_files[place + 1]))
                plan.number = plan.slots[-1].end_number
                if self._index is None or plan.number > self._index.synced:
                    # A writer sealed it and was killed before its sync, but the new index will declare it synced.
                    self._files.filesystem.open(self._path(block_file), writable=True).sync()
                continue
            timestamp = plan.slots[-1].updated if plan.slots else 0
            if plan.slots and not self._files.format.has_meta_data:
                block_file.base_number = plan.number
            plan.last, slot, plan.number = self._walk_block(block_file, timestamp)
            plan.slots.append(slot)
            plan.end = slot.end_offset - slot.base_offset
        return plan

    def _promise_less(self) -> None:
        """Before a cut, lets the old index promise only what is kept, durably: the cut may end before the new index."""
        if self._cut_at is not None and self._index is not None and self._files.format.has_meta_data:
            self._index.synced = min(self._index.synced, self._cut_at)
            # The next process to open the log recovers it: its published end is no longer the true one.
            self._index.open_for(self._files.filesystem.boot_id(), STATE_FAILED)

    def _refuse_to_lose(self, plan: _Plan, block_files: Sequence[_BlockFile]) -> None:
        """Raises CorruptRecord if the cut would lose messages that were on disk, and not only an unfinished append."""
        if self._force:
            return
        path = plan.last.path if plan.last is not None else self._files.directory
        if self._cut_at is not None and plan.number != self._cut_at:
            raise CorruptRecord(path, plan.end, f"the log cannot end at message {self._cut_at}")
        if plan.number < self._floor:
            raise CorruptRecord(path, plan.end, f"the log ends at message {plan.number}; {self._floor} were on disk")
        if self._index is None and len(plan.slots) < len(block_files):
            raise CorruptRecord(path, plan.end, "the next block does not follow this one, and there is no index")

    # --- Which blocks there are ---

    def _find_blocks(self) -> list[_BlockFile]:
        """Returns the block files from the first live one on, in order."""
        version = self._files.format.version
        names = self._files.filesystem.names(self._files.directory)
        bases = [base for name in names if (base := paths.block_base_offset(name, version)) is not None]
        first_live = min(self._old) if self._old else 0
        # If the first record of a version 1 block is lost, its number is unknown, so no block can follow it.
        is_cut_by_gap = not self._files.format.has_meta_data and self._index is not None
        block_files: list[_BlockFile] = []
        for base_offset in sorted(bases):
            path = paths.block_path(self._files.directory, base_offset, version)
            if base_offset < first_live:
                self._retired.append(path)
            elif self._leftovers and is_cut_by_gap:
                self._leftovers.append(path)
            elif (described := self._describe(base_offset, path, block_files)) is not None:
                block_files.append(described)
            else:
                # A crash interrupted the creation of the block.
                self._leftovers.append(path)
        # A block that was created after the last sync of the index may be missing although no synced message is lost.
        missing = [base for base in self._old if base not in bases and self._was_on_disk(base, block_files)]
        if missing and not self._force:
            path = paths.block_path(self._files.directory, missing[0], version)
            raise CorruptRecord(path, 0, "the block is missing")
        return block_files

    def _was_on_disk(self, base_offset: int, block_files: Sequence[_BlockFile]) -> bool:
        """Returns whether a missing block held messages below the floor.

        The index of version 1 has no numbers, so there the first number of a later block decides. If there is no later
        block, the log ends before the missing one, and `_refuse_to_lose` checks whether that loses messages.
        """
        if self._files.format.has_meta_data:
            return self._old[base_offset][1].base_number < self._floor
        return any(later.base_offset > base_offset and later.base_number <= self._floor for later in block_files)

    def _describe(self, base_offset: int, path: str, before: Sequence[_BlockFile]) -> _BlockFile | None:
        """Returns what the header of a block file says, or None if the header was never written, or only in part."""
        number = self._numbers.get(base_offset, before[-1].number + 1 if before else 0)
        _, slot = self._old.get(base_offset, (number, _EMPTY_SLOT))
        file = self._files.filesystem.open(path, writable=False)
        head = file.read(0, HEADER_SIZE_MAX)
        if not self._files.format.has_meta_data:
            if not any(head[: RECORD_HEAD_V1.size]):
                return None
            base_number = self._first_number(path, base_offset)
            return _BlockFile(base_offset=base_offset, number=number, base_number=base_number, slot=slot)
        if not any(head[:512]) or (base_offset not in self._old and self._is_torn(file, is_first=not before)):
            return None
        header = BlockHeader.parse(head) if len(head) >= SIZE_WORD.size else None
        if header is not None and header.base_offset == base_offset:
            slot = slot if base_offset in self._old else slot._replace(created=header.created)
            return _BlockFile(base_offset=base_offset, number=header.block, base_number=header.base_number, slot=slot)
        if base_offset in self._old:
            return _BlockFile(base_offset=base_offset, number=number, base_number=slot.base_number, slot=slot)
        raise CorruptRecord(path, 0, "the header of the block does not match its checksum")

    def _is_torn(self, file: File, *, is_first: bool) -> bool:
        """Returns whether a crash tore the first bytes of a block that the index does not name.

        The index names a block, durably, before the block gets its first record. So this block has no records. Without
        an index the same bytes may be the rest of a block with records. That is damage: a repair renames the block, but
        never the first one, because the numbers would start again at 0.
        """
        if self._index is None and (is_first or not self._force):
            return False
        size = file.size()
        return size >= SIZE_WORD.size and is_cut_short(file.map(size, writable=False))

    def _first_number(self, path: str, base_offset: int) -> int:
        """Returns the number in the first record of a block, because version 1 has no block headers."""
        file = self._files.filesystem.open(path, writable=False)
        head = file.read(0, RECORD_HEAD_V1.size)
        number = RecordHeadV1._make(RECORD_HEAD_V1.unpack(head)).number if len(head) == RECORD_HEAD_V1.size else 0
        return number if base_offset else 0

    def _first_to_walk(self, block_files: Sequence[_BlockFile]) -> int:
        """Returns the place of the first block that may hold unsynced messages. The blocks before it are trusted."""
        if self._force or not block_files:
            return 0
        if self._index is None:
            return self._first_unsealed(block_files)
        for place in range(len(block_files) - 1, 0, -1):
            base_number = block_files[place].base_number
            # A cut leaves no empty block at the end: the log that this one is a copy of need not have begun the block.
            if base_number < self._floor or (base_number == self._floor and self._cut_at is None):
                return place
        return 0

    def _first_unsealed(self, block_files: Sequence[_BlockFile]) -> int:
        """Returns the place of the first block that was not sealed: its size, or its end word, does not match.

        For a log without an index: the name of the next block says where this one should end.
        """
        tail = end_of_block(self._files.format)
        for place, (block_file, following) in enumerate(pairwise(block_files)):
            end = following.base_offset - block_file.base_offset
            file = self._files.filesystem.open(self._path(block_file), writable=False)
            if file.size() != end + len(tail) or file.read(end, len(tail)) != tail:
                return place
        return len(block_files) - 1

    def _open(self, block_file: _BlockFile) -> Block:
        file = self._files.filesystem.open(self._path(block_file), writable=True)
        return Block.open(
            file, self._files.format, block_file.number, block_file.base_offset, block_file.base_number, writable=True
        )

    def _sealed_slot(self, block_file: _BlockFile, following: _BlockFile) -> Slot:
        """Returns the slot of a block whose messages are all below the floor."""
        block = self._open(block_file) if not self._is_trusted(block_file, following) else None
        if block is None:
            if self._files.format.has_meta_data:
                return block_file.slot
            return block_file.slot._replace(end_number=following.base_number)
        end = following.base_offset - block_file.base_offset
        first = block.read(block.next_record(block.start, end), end)
        last = block.read(block.find(following.base_number - 1, end), end)
        return Slot(
            block_file.base_offset,
            following.base_offset,
            first.timestamp,
            last.timestamp,
            block_file.base_number,
            following.base_number,
            first.timestamp,
            last.timestamp,
        )

    def _is_trusted(self, block_file: _BlockFile, following: _BlockFile) -> bool:
        slot = block_file.slot
        if slot.base_offset != block_file.base_offset or slot.end_offset != following.base_offset:
            return False
        if not self._files.format.has_meta_data:
            return True
        return slot.base_number == block_file.base_number and slot.end_number == following.base_number

    def _follows(self, plan: _Plan, following: _BlockFile) -> bool:
        """Returns whether a block starts where the blocks before it end."""
        if plan.slots[-1].end_offset != following.base_offset:
            return False
        return not self._files.format.has_meta_data or plan.number == following.base_number

    def _path(self, block_file: _BlockFile) -> str:
        return paths.block_path(self._files.directory, block_file.base_offset, self._files.format.version)

    # --- How far they go ---

    def _walk_block(self, block_file: _BlockFile, timestamp: int) -> tuple[Block, Slot, int]:
        """Walks the records of a block up to the first that does not match its checksum, and rebuilds the block's index
        from them.

        `timestamp` is the last one before this block: timestamps continue from it even if the block is empty.
        """
        block = self._open(block_file)
        position, number = self._start_of_walk(block)
        created, first_timestamp = block_file.slot.created, block_file.slot.first_timestamp
        last_timestamp = max(timestamp, created)
        end = position
        for record in self._records(block, position, number):
            if block.index is not None:
                block.index.note(record.number, record.message_count, record.position)
            first_timestamp = first_timestamp or record.timestamp
            end, number, last_timestamp = record.end, record.number + record.message_count, record.timestamp
        if self._rewrites:
            block.file.write(position, block.view[position:end])
        block.file.sync()
        slot = Slot(
            block.base_offset,
            block.base_offset + end,
            created or first_timestamp,
            last_timestamp,
            block.base_number,
            number,
            first_timestamp,
            last_timestamp,
        )
        return block, slot, number

    def _start_of_walk(self, block: Block) -> tuple[int, int]:
        """Returns where the walk starts: the last indexed record below the floor if it matches its checksum, otherwise
        the first record.
        """
        size = block.mapped_size
        if block.index is not None and self._floor > block.base_number:
            place = (self._floor - 1 - block.base_number) // INDEX_SPACING
            position = block.index.entry(place).position
            if 0 < position < size:
                try:
                    record = block.read(position, size)
                except CorruptRecord:
                    return block.start, block.base_number
                if block.base_number <= record.number < self._floor:
                    return position, record.number
        return block.start, block.base_number

    def _records(self, block: Block, position: int, number: int) -> Iterator[DiskMessage]:
        """Yields checked records from `position` on, as long as each follows the one before."""
        format, limit, timestamp = self._files.format, block.mapped_size, 0
        while position < limit and (self._end_known is None or number < self._end_known):
            try:
                if format.has_meta_data and self._is_index_message(block, position):
                    if block.index is not None:
                        block.index.adopt(position)
                    position, _ = format.next_blob(block.view, position, limit)
                    continue
                record = format.read_record(block.view, position, limit, block.base_offset)
            except Damage:
                return
            if record.number != number or record.timestamp < timestamp or not record.timestamp:
                return
            yield record
            position, number, timestamp = record.end, number + record.message_count, record.timestamp

    def _is_index_message(self, block: Block, position: int) -> bool:
        if position + META_HEAD.size > block.mapped_size:
            raise Damage(position, "nothing fits here")
        word, label = META_HEAD.unpack_from(block.view, position)
        return bool(word != END_OF_BLOCK and label == LABEL_INDEX)

    # --- What is done about it ---

    def _cut(self, block: Block, end: int) -> int:
        """Clears and syncs everything past `end`. Returns how many of these bytes were in use."""
        size = block.file.size()
        behind = block.view[end:size].rstrip(b"\0")
        used = 0 if behind == end_of_block(self._files.format).rstrip(b"\0") else len(behind)
        block.file.clear(end, size)
        block.file.sync()
        return used

    def _seal(self, block: Block, end: int) -> None:
        """Finishes a roll that a crash interrupted after it made the next block."""
        tail = end_of_block(self._files.format)
        block.file.write(end, tail)
        block.file.truncate(end + len(tail))
        block.file.sync()

    def _write_index(self, blocks: Blocks, message_count: int) -> Index:
        slot_count = self._max_block_count or MAX_BLOCK_COUNT_DEFAULT
        while slot_count < len(blocks.slots):
            slot_count *= 2
        data = index_bytes(
            version=self._files.format.version,
            max_block_count=slot_count,
            blocks=blocks,
            message_count=message_count,
            flag=self._flag,
            # Deleted messages may be lost as well. Then new messages get their numbers, and must not count as deleted.
            extension=with_first(self._extension, min(self._first_kept, message_count)),
            recovered_us=self._recovered_us,
            synced=message_count,
            boot_id=self._files.filesystem.boot_id(),
            state=STATE_OPEN,
            visible=None if self._visible is None else min(self._visible, message_count),
        )
        return self._files.replace_index(data)


_EMPTY_SLOT = Slot(0, 0, 0, 0, 0, 0, 0, 0)
