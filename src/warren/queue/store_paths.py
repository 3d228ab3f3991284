"""Every file and directory name of a store, made and parsed in one place."""

from __future__ import annotations

import os.path
from typing import Final

SESSION_SUFFIX: Final = ".session"


def store_file(store: str) -> str:
    return os.path.join(store, "store.json")


def store_lock(store: str) -> str:
    return os.path.join(store, "store.lock")


def wakeup_file(store: str) -> str:
    return os.path.join(store, "wakeup")


def mover_lock(store: str) -> str:
    """Held by the process that delivers what is due."""
    return os.path.join(store, "mover.lock")


def sessions_directory(store: str) -> str:
    return os.path.join(store, "sessions")


def session_path(sessions: str, id: str) -> str:
    return os.path.join(sessions, id + SESSION_SUFFIX)


def session_id(name: str) -> str | None:
    """The session whose file is called `name`; None for any other file."""
    return name[: -len(SESSION_SUFFIX)] if name.endswith(SESSION_SUFFIX) else None


def topics_directory(store: str) -> str:
    return os.path.join(store, "topics")


def topic_directory(store: str, topic: str) -> str:
    return os.path.join(store, "topics", topic)


def topic_file(topic_directory: str) -> str:
    return os.path.join(topic_directory, "topic.json")


def partition_directory(topic_directory: str, partition: int) -> str:
    return os.path.join(topic_directory, str(partition))


def groups_directory(topic_directory: str) -> str:
    return os.path.join(topic_directory, "groups")


def group_directory(topic_directory: str, group: str) -> str:
    return os.path.join(topic_directory, "groups", group)


def group_file(group_directory: str) -> str:
    return os.path.join(group_directory, "group.json")


def delayed_directory(topic_directory: str) -> str:
    return os.path.join(topic_directory, "delayed")


def transactions_directory(store: str) -> str:
    return os.path.join(store, "transactions")


def producers_directory(store: str) -> str:
    return os.path.join(store, "producers")
