"""The changes of a store that a master ships to its slaves, and that a slave carries out in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

CHANGE_SIZE: Final = 64
"""Roughly the bytes that a change takes in memory and on the wire in addition to its data."""


class LogRange(NamedTuple):
    """Records `first` up to `end` of a log, all in one block.

    A master notes a range without its data, because its own log has the bytes. They are added when the round is sent.
    A range of no bytes asks a slave that does not sync every range to sync what it has of the log.
    """

    log: str
    block: int
    position: int
    first: int
    end: int
    size: int
    data: bytes | memoryview = b""


class FileContent(NamedTuple):
    """A state file was replaced as a whole, or is new."""

    path: str
    data: bytes


class FilePatch(NamedTuple):
    """Bytes of a state file were changed in place."""

    path: str
    position: int
    data: bytes


class FileGone(NamedTuple):
    """A state file was removed."""

    path: str


class LogFacts(NamedTuple):
    """Facts of a log that are not in its records: where it begins, its flag and its extension."""

    log: str
    first: int
    flag: int
    extension: bytes


class NewLog(NamedTuple):
    """A log was made.

    Its name contains the time at which it was made, so that a later log in the same directory has another name.
    """

    log: str
    format: int


class RemovedLog(NamedTuple):
    """A log was removed with all its blocks."""

    log: str


class CommittedEnds(NamedTuple):
    """Ends up to which logs are committed. This is not a change: it has no barrier, and is not acknowledged."""

    ends: Mapping[str, int]


Change: TypeAlias = LogRange | FileContent | FilePatch | FileGone | LogFacts | NewLog | RemovedLog
Item: TypeAlias = Change | CommittedEnds


def size_of(change: Change) -> int:
    """Returns the bytes that a change counts for in a round."""
    if isinstance(change, LogRange):
        return CHANGE_SIZE + change.size
    if isinstance(change, FileContent | FilePatch):
        return CHANGE_SIZE + len(change.data)
    return CHANGE_SIZE


def kept_size_of(change: Change) -> int:
    """Returns the bytes that a change takes in the master's memory. The data of a range stays in its log."""
    return CHANGE_SIZE if isinstance(change, LogRange) else size_of(change)


def subject_of(change: Change) -> str:
    """Returns the log or the file that a change is about."""
    if isinstance(change, FileContent | FilePatch | FileGone):
        return change.path
    return change.log
