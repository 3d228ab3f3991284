"""The file `store.json`, which makes a directory a store and gives it an id."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Final

from warren.errors import CorruptSettings, NotAStore, StoreReplicated
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.storage.append.open import master_address
from warren.storage.disk.filesystem import FileSystem, replace_file

STORE_VERSION: Final = 1
ADVICE: Final = "`warren store repair` makes a new one and changes nothing else in the store"
ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DAMAGED_SUFFIX: Final = ".damaged"


def find_or_make_id(filesystem: FileSystem, store: str, *, is_read_only: bool = False) -> str:
    """Returns the id of the store in a directory. If the directory has no such file, creates the store.

    A store that its master opens is noted as replicated; to every other program it can only be read. Raises
    CorruptSettings if the file cannot be read, NotAStore if its version is not supported, and StoreReplicated.
    """
    path = paths.store_file(store)
    reason = find_damage(filesystem, store)
    if reason is not None:
        raise CorruptSettings(path, f"{reason}; {ADVICE}")
    data = read_json(filesystem, path)
    if data is None:
        data = _made(filesystem, store, str(uuid.uuid4()))
    if data["version"] != STORE_VERSION:
        raise NotAStore(store, f"it has version {data['version']!r}; this release supports {STORE_VERSION}")
    if filesystem.shipping is None:
        if not is_read_only:
            _check_not_replicated(filesystem, store, data)
    elif not data.get("replicated"):
        # A slave need not have the directory otherwise, because only files are shipped.
        write_json(filesystem, path, {**data, "replicated": True})
    if filesystem.shipping is not None:
        filesystem.make_directory(paths.topics_directory(store))
    return str(data.get("id"))


def check_not_replicated(filesystem: FileSystem, store: str) -> None:
    """Raises StoreReplicated if the store has slaves. One whose file cannot be read passes."""
    if find_damage(filesystem, store) is None:
        _check_not_replicated(filesystem, store, read_json(filesystem, paths.store_file(store)) or {})


def _check_not_replicated(filesystem: FileSystem, store: str, data: Mapping[str, object]) -> None:
    if data.get("replicated"):
        raise StoreReplicated(store, master_address(filesystem, store))


def find_damage(filesystem: FileSystem, store: str) -> str | None:
    """Returns why the file cannot be read, or None if it can, or does not exist."""
    try:
        data = read_json(filesystem, paths.store_file(store))
    except CorruptSettings as error:
        return error.reason
    is_known = data is None or isinstance(data.get("version"), int)
    return None if is_known else f"its version is {data and data.get('version')!r}"


def make_anew(filesystem: FileSystem, store: str) -> str:
    """Replaces a damaged file and keeps a copy of it. Returns the id: the old one if it can be read."""
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
    # The topics directory is made first, because a directory with the file is a complete store.
    filesystem.make_directory(paths.topics_directory(store))
    write_json(filesystem, paths.store_file(store), data)
    return data
