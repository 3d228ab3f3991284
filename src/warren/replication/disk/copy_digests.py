"""Digests of what a replica has, by which replicas are compared while they run: its small files and its records."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from warren.clock import Clock
from warren.errors import NotALog, NumberRetired
from warren.replication.comparison import FileRow, RecordsDigest
from warren.replication.disk.file_kinds import FileKind, is_local_directory, kind_of
from warren.replication.disk.log_facts import facts_of, read_index
from warren.storage.disk.block import Block
from warren.storage.disk.filesystem import FileSystem
from warren.storage.disk.log_files import LogFiles
from warren.storage.disk.open_files import process_residents
from warren.storage.read.log_view import LogView

DIGEST_SIZE: Final = 16
ROWS_MAX: Final = 1000
"""How many files one answer has. The event loop encodes them, which takes some milliseconds."""


def digest_of(content: bytes) -> bytes:
    """Returns the digest of a state file."""
    return blake2b(content, digest_size=DIGEST_SIZE).digest()


def is_inside(path: str) -> bool:
    """Returns whether a path that another process names is one of a state file or a log in the store."""
    parts = path.split("/")
    is_plain = not {"", ".", ".."} & set(parts) and "\\" not in path and "\0" not in path
    return is_plain and not is_local_directory(parts[0]) and kind_of(path) in (FileKind.STATE, FileKind.INDEX)


def state_row(path: str, content: bytes | None) -> FileRow | None:
    """Returns the row of a state file; None if it is gone."""
    return None if content is None else FileRow(path, digest_of(content))


def log_row(filesystem: FileSystem, directory: str, path: str) -> FileRow | None:
    """Returns the row of the log in a directory; None if there is none that can be read.

    Where a log begins is no part of the digest, because each replica removes old blocks at its own time.
    """
    index = read_index(filesystem, directory)
    if index is None:
        return None
    facts = facts_of(index)
    end = index.readable_end
    return FileRow(path, digest_of(facts._replace(first=0).to_bytes()), min(facts.first, end), end)


def records_digest(
    filesystem: FileSystem, directory: str, clock: Clock, start: int, end: int, size_max: int, *, is_checked: bool
) -> RecordsDigest | None:
    """Returns the digest of the records from `start` on, up to `end`, of one block and of about `size_max` bytes.

    Only what readers see is digested, and at least one record of it. Index messages are not, because each replica fills
    its own. Raises CorruptRecord as `Replica.digest_records` says.
    """
    files = LogFiles(directory, filesystem, clock, process_residents())
    files.writable = False
    try:
        view = LogView(files)
        first, visible = view.first, view.end
        end = min(end, visible)
        if not first <= start < end:
            return RecordsDigest(first, visible, start, b"")
        block, limit, end_number = view.locate(start, visible)
        position = block.find(start, limit)
        if end < end_number:
            limit, end_number = block.find(end, limit), end
        digest, position = _digest_records(block, position, limit, size_max, is_checked=is_checked)
        following = end_number if position >= limit else block.read_head(position).number
        return RecordsDigest(first, visible, following, digest)
    except NumberRetired as error:
        return RecordsDigest(max(error.first, start + 1), max(error.first, start + 1), start, b"")
    except (NotALog, FileNotFoundError):
        return None
    finally:
        files.close()


def _digest_records(block: Block, position: int, limit: int, size_max: int, *, is_checked: bool) -> tuple[bytes, int]:
    """Returns the digest of the records from `position` on, and where the first one stands that is not digested.

    | record | record | index message | record | …
    ^ run begins      ^ run is digested         ^ next run begins
    """
    digest, view = blake2b(digest_size=DIGEST_SIZE), memoryview(block.view)
    run, left = position, size_max
    is_first = True
    while position < limit:
        end, is_record = block.next_blob(position, limit)
        if is_record:
            if end - position > left and not is_first:
                break
            if is_checked:
                block.read_packed(position, limit)
            left -= end - position
            is_first = False
        else:
            digest.update(view[run:position])
            run = end
        position = end
    digest.update(view[run:position])
    return digest.digest(), position
