"""Every file name of a log, built and parsed in one place."""

from __future__ import annotations

import os.path
import re
from typing import Final

from warren.errors import BadInput
from warren.limits import READER_NAME_SIZE_MAX

EPOCHS_PATH: Final = "replication/epochs.json"
"""In the directory of a store that is, or was, replicated: the epochs of its masters."""
LOG_DEPTH_MAX: Final = 5
"""How many directories below its store a log may lie."""
BLOCK_SUFFIXES: Final = {1: ".zbus", 2: ".block"}
READER_SUFFIX: Final = ".reader"


def index_path(directory: str) -> str:
    return os.path.join(directory, "index")


def new_index_path(directory: str) -> str:
    """Returns the path of a new index before it replaces the old one."""
    return os.path.join(directory, "index.new")


def lock_path(directory: str) -> str:
    return os.path.join(directory, "writer.lock")


def block_path(directory: str, base_offset: int, version: int) -> str:
    return os.path.join(directory, f"{base_offset:020d}{BLOCK_SUFFIXES[version]}")


def block_base_offset(name: str, version: int) -> int | None:
    """Returns the base offset in the name of a block file, or None for any other name."""
    match = re.fullmatch(r"(\d{20})" + re.escape(BLOCK_SUFFIXES[version]), name)
    return int(match[1]) if match else None


def readers_directory(directory: str) -> str:
    return os.path.join(directory, "readers")


def reader_path(directory: str, name: str) -> str:
    """Returns the path of the reader `name`. Raises BadInput if a file cannot have that name."""
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name) or len(name) > READER_NAME_SIZE_MAX:
        raise BadInput(
            f"reader name {name!r}: use 1 to {READER_NAME_SIZE_MAX} letters, digits, '.', '_' or '-', "
            "not starting with a dot"
        )
    return os.path.join(readers_directory(directory), name + READER_SUFFIX)


def reader_name(name: str) -> str | None:
    """Returns the name of the reader whose file is called `name`, or None for any other file."""
    return name[: -len(READER_SUFFIX)] if name.endswith(READER_SUFFIX) else None


def epochs_file(store: str) -> str:
    return os.path.join(store, *EPOCHS_PATH.split("/"))


def master_file(store: str) -> str:
    """The address of the master, in the directory of a replica."""
    return os.path.join(store, "replication", "master")


def stores_above(directory: str) -> list[str]:
    """Returns the directories that may be the store of the log in `directory`, the nearest first."""
    stores, at = [], os.path.dirname(os.path.abspath(directory))
    for _ in range(LOG_DEPTH_MAX):
        stores.append(at)
        at = os.path.dirname(at)
    return stores
