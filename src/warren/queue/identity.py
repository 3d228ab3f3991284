"""Identity: the file `store.json`, which makes a directory a store and gives it an id."""

from __future__ import annotations

import re
import uuid
from typing import Final

from warren.errors import CorruptSettings, NotAStore
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.storage.filesystem import FileSystem, replace_file

STORE_VERSION: Final = 1
ADVICE: Final = "`warren store repair` makes it anew, and nothing else of the store is changed"
ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DAMAGED_SUFFIX: Final = ".damaged"


def find_or_make_id(filesystem: FileSystem, store: str) -> str:
    """The id of the store in a directory; a store is made of one that has no such file.

    Raises CorruptSettings if the file cannot be read, and NotAStore if it is of a version that is not known.
    """
    path = store_paths.store_file(store)
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
    """Why the file cannot be read; None if it can, or is not there."""
    try:
        data = read_json(filesystem, store_paths.store_file(store))
    except CorruptSettings as error:
        return error.reason
    is_known = data is None or isinstance(data.get("version"), int)
    return None if is_known else f"its version is {data and data.get('version')!r}"


def make_anew(filesystem: FileSystem, store: str) -> str:
    """Put a new file in the place of a damaged one, which is kept beside it; the id, the old one if it can be read."""
    path = store_paths.store_file(store)
    content = b""
    if filesystem.exists(path):
        file = filesystem.open(path, writable=False)
        content = file.read(0, file.size())
        file.close()
        replace_file(filesystem, path + DAMAGED_SUFFIX, content)
    found = ID.search(content.decode(errors="replace"))
    id = found[0] if found else str(uuid.uuid4())
    _made(filesystem, store, id)
    return id


def _made(filesystem: FileSystem, store: str, id: str) -> dict[str, object]:
    data: dict[str, object] = {"version": STORE_VERSION, "id": id}
    # First: what has its file is a whole store.
    filesystem.make_directory(store_paths.topics_directory(store))
    write_json(filesystem, store_paths.store_file(store), data)
    return data
