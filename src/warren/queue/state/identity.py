"""The file `store.json`, which makes a directory a store and gives it an id."""

from __future__ import annotations

import re
import uuid
from typing import Final

from warren.errors import CorruptSettings, NotAStore
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage.disk.filesystem import FileSystem, replace_file

STORE_VERSION: Final = 1
ADVICE: Final = "`warren store repair` makes a new one, and nothing else of the store is changed"
ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DAMAGED_SUFFIX: Final = ".damaged"


def find_or_make_id(filesystem: FileSystem, store: str) -> str:
    """Returns the id of the store in a directory. Makes the store if the directory has no such file.

    Raises CorruptSettings if the file cannot be read, and NotAStore if its version is not known.
    """
    path = paths.store_file(store)
    reason = find_damage(filesystem, store)
    if reason is not None:
        raise CorruptSettings(path, f"{reason}; {ADVICE}")
    data = read_json(filesystem, path)
    if data is None:
        data = _made(filesystem, store, str(uuid.uuid4()))
    if data["version"] != STORE_VERSION:
        raise NotAStore(store, f"it has version {data['version']!r}; this release knows {STORE_VERSION}")
    return str(data.get("id"))


def find_damage(filesystem: FileSystem, store: str) -> str | None:
    """Returns why the file cannot be read, or None if it can, or does not exist."""
    try:
        data = read_json(filesystem, paths.store_file(store))
    except CorruptSettings as error:
        return error.reason
    is_known = data is None or isinstance(data.get("version"), int)
    return None if is_known else f"its version is {data and data.get('version')!r}"


def make_anew(filesystem: FileSystem, store: str) -> str:
    """Replaces a damaged file, of which a copy is kept, and returns the id: the old one if it can be read."""
    path = paths.store_file(store)
    content = b""
    if filesystem.exists(path):
        file = filesystem.open(path, writable=False)
        content = file.read(0, file.size())
        file.close()
        replace_file(filesystem, path + DAMAGED_SUFFIX, content)
    match = ID.search(content.decode(errors="replace"))
    id = match[0] if match else str(uuid.uuid4())
    _made(filesystem, store, id)
    return id


def _made(filesystem: FileSystem, store: str, id: str) -> dict[str, object]:
    data: dict[str, object] = {"version": STORE_VERSION, "id": id}
    # Made first: a directory with the file is a complete store.
    filesystem.make_directory(paths.topics_directory(store))
    write_json(filesystem, paths.store_file(store), data)
    return data
