"""Opening a log: checks what a directory contains, and creates a log if it is empty."""

from __future__ import annotations

import os
from typing import Final

from warren.clock import Clock
from warren.errors import BadInput, CorruptRecord, LogLocked, NotALog, StoreReplicated, UnsupportedByVersion
from warren.limits import LOCK_WAIT_S_MAX
from warren.storage.append.commit import Commit
from warren.storage.disk import paths
from warren.storage.disk.filesystem import FileSystem
from warren.storage.disk.index import Blocks, Index, index_bytes
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.open_files import process_residents
from warren.storage.format.layout import END_OF_BLOCK, RECORD_HEAD_V1, SIZE_WORD, STATE_CLEAN, STATE_OPEN
from warren.storage.format.limits import BLOCK_SIZE_MAX, BLOCK_SIZE_MIN
from warren.storage.format.versions import FORMATS, VERSIONS

CREATE_PAUSE_S: Final = 0.001
NATIVE_NAMES: Final = ("index", "index.new", "writer.lock", "readers")


def check_options(version: int, block_size: int, max_block_count: int, compression: str) -> None:
    """Raises BadInput if no log can be opened with these options."""
    if version not in VERSIONS:
        raise BadInput(f"format version {version}: expected one of {VERSIONS}")
    if not BLOCK_SIZE_MIN <= block_size <= BLOCK_SIZE_MAX:
        raise BadInput(f"block size {block_size}: expected {BLOCK_SIZE_MIN} to {BLOCK_SIZE_MAX} bytes")
    if max_block_count < 1:
        raise BadInput(f"max_block_count {max_block_count}: expected at least 1")
    if compression != "none" and not FORMATS[version].has_compression:
        raise UnsupportedByVersion("compression", version)


def open_files(
    path: str, filesystem: FileSystem, clock: Clock, version: int, max_block_count: int, *, writable: bool
) -> LogFiles:
    """Returns the files of the log at `path`, which is made with this version if it does not exist."""
    if writable and filesystem.shipping is None:
        check_not_replica(filesystem, path)
    files = LogFiles(path, filesystem, clock, process_residents())
    files.writable = writable
    find_log(files, version, max_block_count)
    if files.has_index():
        files.see_version()
    return files


def check_not_replica(filesystem: FileSystem, directory: str) -> None:
    """Raises StoreReplicated if the log is of a store with slaves, which only the process of its replica may write."""
    for store in paths.stores_above(directory):
        if filesystem.exists(paths.epochs_file(store)):
            raise StoreReplicated(store, master_address(filesystem, store))


def master_address(filesystem: FileSystem, store: str) -> str:
    """Returns the address of the master as the process of this replica saw it last; empty if it is not known."""
    path = paths.master_file(store)
    if not filesystem.exists(path):
        return ""
    file = filesystem.open(path, writable=False)
    address = file.read(0, file.size()).decode(errors="replace")
    file.close()
    return address


def find_log(files: LogFiles, version: int, max_block_count: int) -> None:
    """Makes sure that `files` has an index, or blocks to rebuild one from. Creates a new log if there is neither."""
    filesystem, directory = files.filesystem, files.directory
    if files.has_index():
        return
    if os.path.isfile(directory):
        raise NotALog(directory, "it is a file")
    if not files.writable:
        reason = "there is none" if not filesystem.exists(directory) else "it has no index"
        raise NotALog(directory, f"{reason}; opening it for writing creates one")
    filesystem.make_directory(directory)
    strangers = [name for name in filesystem.names(directory) if name not in NATIVE_NAMES]
    versions = files.block_versions()
    if files.has_index():
        # Another process has created the log in the meantime.
        return
    if versions:
        files.format = FORMATS[max(versions)]
    elif strangers:
        raise NotALog(directory, f"it contains {strangers[0]!r} and no index")
    else:
        _create(files, version, max_block_count)


def _create(files: LogFiles, version: int, max_block_count: int) -> None:
    lock, deadline = files.lock(), files.clock.steady_s() + LOCK_WAIT_S_MAX
    while not lock.try_acquire():
        # Another process is creating the same log at this moment, or has created it and writes.
        if files.has_index():
            return
        if files.clock.steady_s() > deadline:
            raise LogLocked(files.directory, lock.holder())
        files.clock.sleep(CREATE_PAUSE_S)
    try:
        if not files.has_index():
            data = index_bytes(
                version=version,
                max_block_count=max_block_count,
                blocks=Blocks(start=0, slots=()),
                message_count=0,
                extension={"creator": "warren", "created": str(files.now_us())},
                synced=0,
                boot_id=files.filesystem.boot_id(),
                state=STATE_CLEAN,
            )
            files.replace_index(data)
    finally:
        lock.release()


def is_usable(files: LogFiles) -> bool:
    """Returns whether the log can be used as it is, without a recovery."""
    if not files.has_index():
        return False
    try:
        index = files.index()
    except (CorruptRecord, NotALog):
        return False
    return _is_sound(index, files.filesystem.boot_id()) and _ends_where_it_says(files, index)


def _is_sound(index: Index, boot_id: bytes) -> bool:
    """Returns whether the log can be used without a recovery.

    If it was not closed, another process must have had it open ever since it was known to be undamaged. The same boot
    id proves nothing, because unsynced data may be lost without a restart of the machine.
    """
    if index.is_clean():
        return True
    is_left_whole = index.state == STATE_OPEN and index.boot_id == boot_id and not index.writing
    return is_left_whole and index.is_vouched() is not False


def _ends_where_it_says(files: LogFiles, index: Index) -> bool:
    """Returns whether no record follows the end that the index gives.

    The cost does not depend on the log's size.
    """
    start, count = index.block_range()
    if not count:
        return index.message_count == 0
    slot = index.slot(start + count - 1)
    path = paths.block_path(files.directory, slot.base_offset, index.version)
    if not files.filesystem.exists(path):
        return False
    end = slot.end_offset - slot.base_offset
    file = files.filesystem.open(path, writable=False)
    behind = file.read(end, RECORD_HEAD_V1.size)
    if files.format.has_meta_data:
        # A block that was sealed just before a crash has an end word there.
        behind = behind[: SIZE_WORD.size] if behind[: SIZE_WORD.size] != SIZE_WORD.pack(END_OF_BLOCK) else b""
    return file.size() >= end and not any(behind)


def check_index(files: LogFiles) -> None:
    """Raises CorruptRecord if the log is open for reading only and its index cannot be trusted."""
    index = files.index()
    if not index.is_credible():
        raise CorruptRecord(index.path, 0, "the index does not match its checksum; opening for writing rebuilds it")


def settle(files: LogFiles, commit: Commit, *, force: bool) -> None:
    """Recovers the log if necessary, before any read or write."""
    commit.open(lambda: is_usable(files), force=force)
