"""The settings of a group, as they stand in `group.json`: every process that opens the group goes by the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from warren.config import GROUP_NAME_SIZE_MAX
from warren.errors import BadInput, CorruptSettings, SettingsDiffer
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.queue.names import checked_name
from warren.queue.shared_lock import SharedLock
from warren.storage.filesystem import FileSystem
from warren.storage.tags import TagFilter

MODES: Final = ("stream", "queue")
LEASE_S_MIN: Final = 0.05
LEASE_S_MAX: Final = 7 * 86_400.0
ATTEMPTS_MAX_MAX: Final = 1_000_000
BACKOFF_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a group consumes. All but `mode` and `tag` concern queue groups alone.

    A lease lasts `lease_s`. A message that comes back waits `backoff_s` after its first attempt, twice as long after
    each further one, `backoff_s_max` at most; after `attempts_max` attempts it becomes a dead letter (0: never).
    `start` says where a new group begins: "start", "end", or a number of µs since the epoch.
    """

    mode: str = "stream"
    tag: str | None = None
    start: str | int = "start"
    lease_s: float = 30.0
    attempts_max: int = 5
    backoff_s: float = 0.0
    backoff_s_max: float = 300.0
    ordered_by_key: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadInput(f"mode {self.mode!r}: expected 'stream' or 'queue'")
        if self.tag is not None:
            TagFilter.parse(self.tag)
        if self.start not in ("start", "end") and (not isinstance(self.start, int) or self.start < 0):
            raise BadInput(f"start {self.start!r}: expected 'start', 'end' or a time")
        _check_seconds("lease", self.lease_s, LEASE_S_MIN, LEASE_S_MAX)
        _check_seconds("backoff", self.backoff_s, 0, BACKOFF_S_MAX)
        _check_seconds("backoff_max", self.backoff_s_max, 0, BACKOFF_S_MAX)
        attempts: object = self.attempts_max
        if not isinstance(attempts, int) or isinstance(attempts, bool) or not 0 <= attempts <= ATTEMPTS_MAX_MAX:
            raise BadInput(f"attempts_max {attempts!r}: expected a whole number from 0 to {ATTEMPTS_MAX_MAX}")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, path: str, data: Mapping[str, Any]) -> Self:
        names = [field.name for field in dataclasses.fields(cls)]
        try:
            return cls(**{name: data[name] for name in names if name in data})
        except BadInput as error:
            raise CorruptSettings(path, str(error)) from error


def _check_seconds(name: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise BadInput(f"{name} {value!r}: expected seconds from {least:g} to {most:g}")


def open_settings(
    filesystem: FileSystem, topic_directory: str, group: str, given: Mapping[str, Any], lock: SharedLock
) -> GroupSettings:
    """The settings of `group`, made of `given` where there is no such group yet.

    Another mode than the group's own is SettingsDiffer; any other setting that is given takes the place of the old one.
    `lock` is the store's.
    """
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    directory = store_paths.group_directory(topic_directory, group)
    path = store_paths.group_file(directory)
    with lock:
        kept = read_settings(filesystem, topic_directory, group)
        if kept is not None and given.get("mode", kept.mode) != kept.mode:
            raise SettingsDiffer(f"group {group!r}", "mode", given["mode"], kept.mode, "use another name")
        settings = GroupSettings(**given) if kept is None else dataclasses.replace(kept, **given)
        if settings != kept:
            filesystem.make_directory(directory)
            write_json(filesystem, path, settings.to_json())
    return settings


def read_settings(filesystem: FileSystem, topic_directory: str, group: str) -> GroupSettings | None:
    """The settings of a group; None where there is no such group, and BadName where there can be none."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    path = store_paths.group_file(store_paths.group_directory(topic_directory, group))
    data = read_json(filesystem, path)
    return None if data is None else GroupSettings.from_json(path, data)


def group_names(filesystem: FileSystem, topic_directory: str) -> list[str]:
    """The names of a topic's groups, sorted."""
    directory = store_paths.groups_directory(topic_directory)
    names = filesystem.names(directory) if filesystem.exists(directory) else []
    return [
        name
        for name in names
        if filesystem.exists(store_paths.group_file(store_paths.group_directory(topic_directory, name)))
    ]
