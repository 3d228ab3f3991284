"""The settings of a group, as stored in `group.json`. Every process that opens the group uses them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from warren.errors import BadInput, CorruptSettings, SettingsDiffer
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.settings import checked_name
from warren.queue.state.shared_lock import SharedLock
from warren.settings import Count, Either, Flag, OneOf, OrNone, Parsed, Seconds, Table, setting
from warren.storage import Log
from warren.storage.disk.filesystem import FileSystem
from warren.storage.format.limits import FILTER_SIZE_MAX
from warren.storage.format.tags import TagFilter

MODES: Final = ("stream", "queue")
LEASE_S_MIN: Final = 0.05
LEASE_S_MAX: Final = 7 * 86_400.0
ATTEMPTS_MAX_MAX: Final = 1_000_000
BACKOFF_S_MAX: Final = 86_400.0
EDGES: Final = ("start", "end")


def start_number(log: Log, start: str | int) -> int:
    """Returns the number in a log at which a new group begins, if `start` is its setting."""
    if isinstance(start, int):
        return log.find_time(start)
    return log.first if start == "start" else log.end


def _tag(text: str) -> str:
    TagFilter.parse(text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a group consumes. All settings except `mode` and `tag` concern queue groups only.

    A lease lasts `lease_s`. After a failed attempt a message waits for `backoff_s`, twice as long after each further
    attempt, `backoff_s_max` at most, minus up to a quarter. After `attempts_max` attempts it becomes a dead letter (0:
    never). While a program refers to a message its lease is renewed, for up to `renew_s_max` seconds after it was taken
    (0: never). `start` says where a new group begins: "start", "end", or µs since the epoch.
    """

    mode: str = setting(OneOf(MODES), "how the members share the messages: `stream` or `queue`", "stream")
    tag: str | None = setting(
        OrNone(Parsed("a tag filter", _tag, size_max=FILTER_SIZE_MAX), word=""),
        "only messages whose tag matches this filter; all, if empty",
        None,
    )
    start: str | int = setting(
        Either(OneOf(EDGES), Count(), "start, end or a time"),
        "where a new group begins: `start`, `end` or a time",
        "start",
    )
    lease_s: float = setting(
        Seconds(LEASE_S_MIN, LEASE_S_MAX), "how long a lease lasts, such as `30s`", 30.0, name="lease"
    )
    attempts_max: int = setting(
        Count(0, ATTEMPTS_MAX_MAX), "after how many attempts a message becomes a dead letter; never, if zero", 5
    )
    backoff_s: float = setting(
        Seconds(0, BACKOFF_S_MAX),
        "how long a message waits after its first attempt; twice as long after each further one",
        1.0,
        name="backoff",
    )
    backoff_s_max: float = setting(
        Seconds(0, BACKOFF_S_MAX), "how long a message waits between two attempts at most", 300.0, name="backoff_max"
    )
    ordered_by_key: bool = setting(Flag(), "whether only one message of a key is leased at a time", False)
    renew_s_max: float = setting(
        Seconds(0, LEASE_S_MAX),
        "for how long the lease of a message in hand is renewed; never, if zero",
        LEASE_S_MAX,
        name="renew_max",
    )

    def __post_init__(self) -> None:
        GROUP_SETTINGS.check_fields(self)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, path: str, data: Mapping[str, Any]) -> Self:
        names = [field.name for field in dataclasses.fields(cls)]
        try:
            return cls(**{name: data[name] for name in names if name in data})
        except BadInput as error:
            raise CorruptSettings(path, str(error)) from error


GROUP_SETTINGS: Final = Table.of("option", GroupSettings)
GROUP_OPTIONS: Final = GROUP_SETTINGS.without("mode")
"""The settings that a caller may pass when it opens or configures a group. The mode of a group never changes."""


def open_settings(
    filesystem: FileSystem, topic_directory: str, group: str, values: Mapping[str, Any], lock: SharedLock
) -> GroupSettings:
    """Returns the settings of `group`. If the group does not exist, creates it with the settings in `values`.

    Raises SettingsDiffer if the group exists and one of its settings differs from `values`. `start` is not compared,
    because it only matters for a new group. `lock` is the store's.
    """
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    with lock:
        stored = read_settings(filesystem, topic_directory, group)
        if stored is not None:
            _check_same(group, values, stored)
            return stored
        settings = GroupSettings(**values)
        filesystem.make_directory(paths.group_directory(topic_directory, group))
        _write_settings(filesystem, topic_directory, group, settings)
    return settings


def change_settings(
    filesystem: FileSystem, topic_directory: str, group: str, changes: Mapping[str, Any], lock: SharedLock
) -> GroupSettings | None:
    """Changes settings of `group`, and returns the new ones, or None if the group does not exist."""
    with lock:
        stored = read_settings(filesystem, topic_directory, group)
        if stored is None:
            return None
        settings = dataclasses.replace(stored, **changes)
        if settings != stored:
            _write_settings(filesystem, topic_directory, group, settings)
    return settings


def _write_settings(filesystem: FileSystem, topic_directory: str, group: str, settings: GroupSettings) -> None:
    path = paths.group_file(paths.group_directory(topic_directory, group))
    write_json(filesystem, path, settings.to_json())


def _check_same(group: str, values: Mapping[str, Any], stored: GroupSettings) -> None:
    # Checked first, so that a value which no group can have is BadInput.
    expected = dataclasses.replace(stored, **values)
    if expected.mode != stored.mode:
        raise SettingsDiffer(f"group {group!r}", "mode", expected.mode, stored.mode, "use another name")
    for option, each in GROUP_OPTIONS.items():
        value, own = getattr(expected, each.field), getattr(stored, each.field)
        if value != own and option != "start":
            raise SettingsDiffer(f"group {group!r}", option, value, own, "change it with topic.configure_group()")


def read_settings(filesystem: FileSystem, topic_directory: str, group: str) -> GroupSettings | None:
    """Returns the settings of a group, or None if it does not exist. Raises BadName for an invalid name."""
    checked_name("group", group, GROUP_NAME_SIZE_MAX)
    path = paths.group_file(paths.group_directory(topic_directory, group))
    data = read_json(filesystem, path)
    return None if data is None else GroupSettings.from_json(path, data)


def group_names(filesystem: FileSystem, topic_directory: str) -> list[str]:
    """Returns the names of a topic's groups, sorted."""
    directory = paths.groups_directory(topic_directory)
    names = filesystem.names(directory) if filesystem.exists(directory) else []
    return [name for name in names if filesystem.exists(paths.group_file(paths.group_directory(topic_directory, name)))]
