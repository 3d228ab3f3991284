"""A small JSON file of settings. It is read as a whole and replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from warren.errors import CorruptSettings
from warren.storage.disk.filesystem import FileSystem, replace_file


def read_json(filesystem: FileSystem, path: str) -> dict[str, Any] | None:
    """Returns the content of the file, or None if it does not exist."""
    try:
        file = filesystem.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(file.read(0, file.size()))
    except ValueError as error:
        raise CorruptSettings(path, str(error)) from error
    finally:
        file.close()
    if not isinstance(data, dict):
        raise CorruptSettings(path, "it is not a JSON object")
    return data


def write_json(filesystem: FileSystem, path: str, data: Mapping[str, Any]) -> None:
    """Replaces the content of the file by `data`. After a power cut it has the old content or the new one."""
    text = json.dumps(data, indent=2, sort_keys=True) + "\n"
    replace_file(filesystem, path, text.encode())
