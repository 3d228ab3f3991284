"""Decides by its path whether a file of a store is shipped. A file that a later release adds is shipped, too."""

from __future__ import annotations

import os.path
from enum import Enum, auto
from typing import Final

BLOCK_SUFFIXES: Final = (".block", ".zbus")
LOCAL_SUFFIXES: Final = (".lock", ".session", ".member", ".owner", ".worker", ".new", ".run", ".cut")
"""Files of living processes, files that are being written, and files that are derived from others."""
LOCAL_FILES: Final = ("wakeup", "broker/ready")
LOCAL_DIRECTORIES: Final = ("sessions", "pipelines", "replication")
"""At the root of a store. Spark writes the checkpoints of pipelines, not through the store's file system."""
JOURNALS: Final = "transactions/journal."
"""Copies of a damaged journal."""
INDEX: Final = "index"


class FileKind(Enum):
    """What a file is to the other replicas."""

    BLOCK = auto()
    """Records of a log: shipped as ranges when the log commits them."""
    INDEX = auto()
    """Each replica makes its own. The facts in it (format, first, flag, extension) are shipped."""
    LOCAL = auto()
    """Never shipped: locks, sessions and members belong to processes, which do not exist for the next master."""
    STATE = auto()
    """All other files: shipped when they are synced."""


def kind_of(path: str) -> FileKind:
    """Returns the kind of the file at a path relative to the store, with forward slashes."""
    name = os.path.basename(path)
    is_local = path in LOCAL_FILES or name.endswith(LOCAL_SUFFIXES)
    if is_local or path.split("/", 1)[0] in LOCAL_DIRECTORIES or path.startswith(JOURNALS):
        return FileKind.LOCAL
    if name == INDEX:
        return FileKind.INDEX
    return FileKind.BLOCK if name.endswith(BLOCK_SUFFIXES) else FileKind.STATE


def is_local_directory(path: str) -> bool:
    """Returns whether nothing below a directory, relative to the store, is shipped."""
    return path in LOCAL_DIRECTORIES or path.startswith(JOURNALS)
