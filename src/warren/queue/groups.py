"""Opens, configures and deletes the groups of a topic, of either mode."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from warren.api.values import GroupOptions
from warren.clock import microseconds, seconds_of
from warren.errors import NoSuchGroup
from warren.limits import GROUP_NAME_SIZE_MAX
from warren.message import Edge
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.leases.renewal import LeasingTopic
from warren.queue.state import paths
from warren.queue.state.group_settings import GROUP_OPTIONS, GroupSettings, change_settings, open_settings
from warren.queue.state.settings import checked_name
from warren.queue.state.topic_view import TopicView
from warren.queue.stream.stream_group import StreamGroup
from warren.storage.disk.filesystem import remove_tree


def open_group(topic: LeasingTopic, name: str, mode: str, options: GroupOptions) -> StreamGroup | QueueGroup:
    """Returns a new member of the group `name`, and creates the group if it does not exist.

    Raises SettingsDiffer if it exists with another mode, or with settings other than those given.
    """
    values = {"mode": mode, **_settings(options)}
    if values.get("tag", "") is None:
        # Without a filter the group keeps its own filter.
        del values["tag"]
    settings = open_settings(topic.filesystem, topic.directory, name, values, topic.store.lock)
    if settings.mode == "queue":
        return QueueGroup(topic, name, settings)
    return StreamGroup(topic, name, settings)


def configure_group(topic: TopicView, name: str, options: GroupOptions) -> GroupSettings:
    """Changes settings of a group, and returns its new settings. Raises NoSuchGroup if it does not exist."""
    checked_name("group", name, GROUP_NAME_SIZE_MAX)
    changes = _settings(options)
    settings = change_settings(topic.filesystem, topic.directory, name, changes, topic.store.lock)
    if settings is None:
        raise NoSuchGroup(topic.name, name)
    return settings


def _settings(options: GroupOptions) -> dict[str, Any]:
    """Returns the options by their names in the settings of a group, with values as they are stored there."""
    GROUP_OPTIONS.check_names(options)
    return {GROUP_OPTIONS[option].field: setting_value(option, value) for option, value in options.items()}


def setting_value(option: str, value: Any) -> object:
    """Returns the value of an option as the settings of a group store it: a time in µs, a duration in seconds."""
    return start_setting(value) if option == "start" else seconds_of(value)


def start_setting(start: object) -> object:
    """Returns `start` as it is stored in the settings of a group: "start", "end", or µs since the epoch."""
    if isinstance(start, Edge):
        return start.value
    return microseconds(start) if isinstance(start, datetime | float) else start


def delete_group(topic: TopicView, name: str) -> None:
    """Deletes a group, for every process. Its members then raise NoSuchGroup."""
    checked_name("group", name)
    directory = paths.group_directory(topic.directory, name)
    store = topic.store
    topic.see_partitions()
    with store.lock:
        if not store.filesystem.exists(paths.group_file(directory)):
            raise NoSuchGroup(topic.name, name)
        # Removed before the group's own files, so that a group whose deletion was interrupted can be deleted again.
        for log in topic.logs:
            log.remove_reader(name)
        store.filesystem.remove(paths.group_file(directory))
        store.filesystem.sync_directory(directory)
        # Another process may be joining at this moment.
        with suppress(OSError):
            remove_tree(store.filesystem, directory)
    store.wakeup.ring()
