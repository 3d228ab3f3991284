"""A small file of settings, as JSON: read whole, and replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from warren.errors import CorruptSettings
from warren.storage.filesystem import FileSystem, replace_file


def read_json(filesystem: FileSystem, path: str) -> dict[str, Any] | None:
    """What the file says; None where there is none."""
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
        raise CorruptSettings(path, "it is not an object")
    return data


def write_json(filesystem: FileSystem, path: str, data: Mapping[str, Any]) -> None:
    """Put `data` in the place of what was there: wherever the power fails, it is the old or the new."""
    text = json.dumps(data, indent=2, sort_keys=True) + "\n"
    replace_file(filesystem, path, text.encode())
