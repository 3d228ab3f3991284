"""Opening and deleting the groups of a topic, of either mode."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from warren.clock import Duration, microseconds, seconds_of
from warren.config import GROUP_NAME_SIZE_MAX
from warren.errors import BadInput, NoSuchGroup
from warren.queue import store_paths
from warren.queue.group_settings import SETTING_NAMES, GroupSettings, change_settings, open_settings
from warren.queue.names import checked_name
from warren.queue.queue_group import QueueGroup
from warren.queue.stream_group import StreamGroup
from warren.storage.filesystem import remove_tree
from warren.storage.reader import Place

if TYPE_CHECKING:
    from warren.queue.topic import Topic


class GroupOptions(TypedDict, total=False):
    """What a group may be opened with.

    `tag` is the filter. `start` says where a new group begins: "start", "end" or a time. The others concern queue
    groups, in seconds: how long a lease lasts, after how many attempts a message becomes a dead letter, and how long it
    waits between two of them, at first and at most; whether messages of one key are leased one after the other; and for
    how long a lease is renewed while its message is in hand.
    """

    tag: str | None
    start: str | Place | datetime | float
    lease: Duration
    attempts_max: int
    backoff: Duration
    backoff_max: Duration
    ordered_by_key: bool
    renew_max: Duration


def open_group(topic: Topic, name: str, mode: str, options: GroupOptions) -> StreamGroup | QueueGroup:
    """Returns a new member of the group `name`, which is made if it does not exist.

    Raises SettingsDiffer if it exists and has another mode, or other settings than those given.
    """
    given = {"mode": mode, **_settings(options)}
    if given.get("tag", "") is None:
        # No filter given is the filter that the group has.
        del given["tag"]
    settings = open_settings(topic.filesystem, topic.directory, name, given, topic.store.lock)
    if settings.mode == "queue":
        return QueueGroup(topic, name, settings)
    return StreamGroup(topic, name, settings)


def configure_group(topic: Topic, name: str, options: GroupOptions) -> GroupSettings:
    """Changes settings of a group, and returns those it has now. Raises NoSuchGroup if it does not exist."""
    checked_name("group", name, GROUP_NAME_SIZE_MAX)
    changes = _settings(options)
    settings = change_settings(topic.filesystem, topic.directory, name, changes, topic.store.lock)
    if settings is None:
        raise NoSuchGroup(topic.name, name)
    return settings


def _settings(options: GroupOptions) -> dict[str, Any]:
    """The options by the names that they have in the settings, each in the form that stands there."""
    check_options(options)
    return {SETTING_NAMES[option]: setting_value(option, value) for option, value in options.items()}


def check_options(options: Iterable[str]) -> None:
    """Raises BadInput if one of the options is none that a group has."""
    for option in options:
        if option not in SETTING_NAMES:
            raise BadInput(f"unknown option {option!r}; a group has mode, {', '.join(SETTING_NAMES)}")


def setting_value(option: str, value: Any) -> object:
    """The value of an option as it stands in the settings of a group: a time in µs, and what lasts in seconds."""
    return start_setting(value) if option == "start" else seconds_of(value)


def start_setting(start: object) -> object:
    """`start` as it stands in the settings of a group: "start", "end", or µs since the epoch."""
    if isinstance(start, Place):
        return start.value
    return microseconds(start) if isinstance(start, datetime | float) else start


def delete_group(topic: Topic, name: str) -> None:
    """Remove a group, for every process: its members get NoSuchGroup."""
    checked_name("group", name)
    directory = store_paths.group_directory(topic.directory, name)
    store = topic.store
    topic.see_partitions()
    with store.lock:
        if not store.filesystem.exists(store_paths.group_file(directory)):
            raise NoSuchGroup(topic.name, name)
        # Before the group itself: whoever is stopped in between can delete what is left.
        for log in topic.logs:
            log.remove_reader(name)
        store.filesystem.remove(store_paths.group_file(directory))
        store.filesystem.sync_directory(directory)
        # A member may be joining.
        with suppress(OSError):
            remove_tree(store.filesystem, directory)
    store.wakeup.ring()
