"""Errors of a log and its files."""

from __future__ import annotations

from queue import Full
from typing import Final

from warren.errors.root import WarrenError


class StorageError(WarrenError):
    """An error of the files of a log."""

    code = "storage"


class NotALog(StorageError):
    """The directory has other content, or no log although one was expected."""

    code = "not_a_log"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a log: {reason}")
        self.path, self.reason = path, reason


GONE: Final = (NotALog, FileNotFoundError)
"""The errors of a log that was removed, for example because its topic was deleted."""


class UnknownVersion(StorageError):
    """The log was written in a format that this release does not know."""

    code = "unknown_version"

    def __init__(self, path: str, version: int) -> None:
        super().__init__(f"{path} has format version {version}; this release reads versions 1 and 2")
        self.path, self.version = path, version


class CorruptRecord(StorageError):
    """Bytes with a wrong checksum. The attributes are the file and the position in it."""

    code = "corrupt_record"

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}; `warren log verify` shows the details")
        self.path, self.position, self.reason = path, position, reason


class NumberRetired(StorageError):
    """The message existed, and retention has removed it."""

    code = "number_retired"

    def __init__(self, number: int, first: int) -> None:
        super().__init__(f"message {number} was retired; the log now starts at {first}")
        self.number, self.first = number, first


class LogLocked(StorageError):
    """Another writer has locked the log. `pid` is 0 if the holder is not known."""

    code = "log_locked"
    retryable = True

    def __init__(self, path: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is locked for writing by {holder}")
        self.path, self.pid = path, pid


class LogClosed(StorageError):
    """The log was closed, or opened for reading only, or closed itself for writing after a failed sync."""

    code = "log_closed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is closed: {reason}")
        self.path, self.reason = path, reason


class StorageFull(StorageError):
    """There is no room on the disk. Nothing was changed; the same call may succeed later."""

    code = "storage_full"
    retryable = True

    def __init__(self, path: str, size: int) -> None:
        super().__init__(f"no room on the disk for {size} bytes in {path}; free some space and try again")
        self.path, self.size = path, size


class SyncFailed(StorageError):
    """The disk failed to make bytes durable.

    Puts that waited for the sync are not acknowledged; reopen the log to continue.
    """

    code = "sync_failed"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} could not be synced ({reason}); the log is closed for writing until it is reopened")
        self.path, self.reason = path, reason


class NeedsMemory(StorageError):
    """A broker must reserve memory before a request reads this. It does that itself, and then reads again."""

    code = "needs_memory"
    retryable = True

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes of memory are needed to read this; try again")
        self.size = size


class NotAQueueFile(StorageError):
    """The file is not a queue, or was cut to less than its pointers."""

    code = "not_a_queue_file"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is not a queue file: {reason}")
        self.path, self.reason = path, reason


class CorruptQueueFile(StorageError):
    """Bytes of a queue file that cannot be a message. The messages before them can still be taken."""

    code = "corrupt_queue_file"

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path, self.position, self.reason = path, position, reason


class QueueFileFull(StorageError, Full):
    """The pointers of a queue file cannot express the position.

    Nothing was changed; there is room after messages were taken.
    """

    code = "queue_file_full"
    retryable = True

    def __init__(self, path: str, size: int, size_max: int) -> None:
        super().__init__(f"{path} has no room for {size} more bytes: a queue file holds {size_max} bytes at most")
        self.path, self.size, self.size_max = path, size, size_max
