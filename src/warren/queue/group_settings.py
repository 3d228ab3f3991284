"""The settings of a group, as they stand in `group.json`: every process that opens the group goes by the same ones."""

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
SETTING_NAMES: Final[Mapping[str, str]] = {
    "tag": "tag",
    "start": "start",
    "lease": "lease_s",
    "attempts_max": "attempts_max",
    "backoff": "backoff_s",
    "backoff_max": "backoff_s_max",
    "ordered_by_key": "ordered_by_key",
    "renew_max": "renew_s_max",
}
"""What a group may be opened with, and the name that it has in the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a group consumes. All but `mode` and `tag` concern queue groups alone.

    A lease lasts `lease_s`. A message that comes back waits `backoff_s` after its first attempt, twice as long after
    each further one, `backoff_s_max` at most, and up to a quarter less by chance; after `attempts_max` attempts it
    becomes a dead letter (0: never). While a worker has a message in hand its lease is renewed, for up to `renew_s_max`
    seconds after it was taken (0: never).
    `start` says where a new group begins: "start", "end", or a number of µs since the epoch.
    """

    mode: str = "stream"
    tag: str | None = None
    start: str | int = "start"
    lease_s: float = 30.0
    attempts_max: int = 5
    backoff_s: float = 1.0
    backoff_s_max: float = 300.0
    ordered_by_key: bool = False
    renew_s_max: float = LEASE_S_MAX

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
        _check_seconds("renew_max", self.renew_s_max, 0, LEASE_S_MAX)
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
    """Returns the settings of `group`. A group that does not exist is made, with the settings that are `given`.

    Raises SettingsDiffer if the group exists and has other settings than those given. What is not given does not
    differ, and neither does `start`, which says where a new group begins. `lock` is the store's.
    """
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    with lock:
        kept = read_settings(filesystem, topic_directory, group)
        if kept is not None:
            _check_same(group, given, kept)
            return kept
        settings = GroupSettings(**given)
        filesystem.make_directory(store_paths.group_directory(topic_directory, group))
        _write_settings(filesystem, topic_directory, group, settings)
    return settings


def change_settings(
    filesystem: FileSystem, topic_directory: str, group: str, changes: Mapping[str, Any], lock: SharedLock
) -> GroupSettings | None:
    """Changes settings of `group`, and returns those it has now; None if there is no such group."""
    with lock:
        kept = read_settings(filesystem, topic_directory, group)
        if kept is None:
            return None
        settings = dataclasses.replace(kept, **changes)
        if settings != kept:
            _write_settings(filesystem, topic_directory, group, settings)
    return settings


def _write_settings(filesystem: FileSystem, topic_directory: str, group: str, settings: GroupSettings) -> None:
    path = store_paths.group_file(store_paths.group_directory(topic_directory, group))
    write_json(filesystem, path, settings.to_json())


def _check_same(group: str, given: Mapping[str, Any], kept: GroupSettings) -> None:
    # Checked first, so that a value which no group can have is BadInput.
    wanted = dataclasses.replace(kept, **given)
    if wanted.mode != kept.mode:
        raise SettingsDiffer(f"group {group!r}", "mode", wanted.mode, kept.mode, "use another name")
    for option, name in SETTING_NAMES.items():
        value, own = getattr(wanted, name), getattr(kept, name)
        if value != own and option != "start":
            raise SettingsDiffer(f"group {group!r}", option, value, own, "change it with topic.configure_group()")


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
