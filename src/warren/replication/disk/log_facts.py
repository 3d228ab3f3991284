"""The facts of a log that its index has in addition to its blocks, and the name of the log among replicas."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from warren.errors import CorruptRecord, MalformedState, NotALog
from warren.replication.shard_state import is_count, parse_json
from warren.storage.disk import paths
from warren.storage.disk.filesystem import FileSystem
from warren.storage.disk.index import FIRST_KEY, Index

CREATED_KEY: Final = "created"
WHAT: Final = "facts of a log"


class Facts(NamedTuple):
    """The part of an index that does not follow from the records: format, flag, extension, and where the log begins."""

    format: int
    flag: int
    first: int
    extension: dict[str, str]

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict(), separators=(",", ":"), sort_keys=True).encode()

    @staticmethod
    def parse(data: bytes) -> Facts:
        """Raises MalformedState if `data` is not what `to_bytes` returns."""
        value = parse_json(data, WHAT)
        if not isinstance(value, dict) or not value.keys() >= set(Facts._fields):
            raise MalformedState(WHAT, f"it needs {', '.join(Facts._fields)}")
        format, flag, first, extension = (value[name] for name in Facts._fields)
        if not is_count(format) or not is_count(flag) or not is_count(first) or not isinstance(extension, dict):
            raise MalformedState(WHAT, f"{data!r} has a field of the wrong type")
        return Facts(format, flag, first, extension)


def facts_of(index: Index) -> Facts:
    """Returns the facts of a log."""
    start, count = index.block_range()
    first = max(index.slot(start).base_number, index.first_kept) if count else index.first_kept
    extension = index.extension()
    extension.pop(FIRST_KEY, None)
    return Facts(index.version, index.flag, first, extension)


def log_name(directory: str, facts: Facts) -> str:
    """Returns the name of a log among replicas: its directory in the store, and the time at which it was made.

    So if a log is removed and another one is made in its directory, the two have different names.
    """
    return f"{directory}@{facts.extension.get(CREATED_KEY, '')}"


def directory_of(log: str) -> str:
    """Returns the directory, relative to the store, of the log with this name."""
    return log.rpartition("@")[0]


def created_of(log: str) -> str:
    """Returns the time at which the log with this name was made, as text."""
    return log.rpartition("@")[2]


def read_index(filesystem: FileSystem, directory: str) -> Index | None:
    """Returns the index of the log in a directory, for reading; None if it is missing or cannot be read."""
    try:
        return Index(filesystem.open(paths.index_path(directory), writable=False), writable=False)
    except (FileNotFoundError, CorruptRecord, NotALog):
        return None
