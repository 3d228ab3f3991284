"""Names of topics and groups for the shell to complete. It must be fast, because the user waits for the tab key."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

import warren
from warren.cli.options.environment import SERVER_VARIABLE, STORE_DEFAULT, STORE_VARIABLE
from warren.errors import WarrenError
from warren.queue.state import paths
from warren.queue.state.group_settings import group_names
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM

if TYPE_CHECKING:
    from warren.client.store import RemoteStore

BROKER_TIMEOUT_S: Final = 1.0


def topics_like(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the topics whose names begin with `incomplete`."""
    server = _server(context)
    names = _topic_names(_directory(context)) if server is None else _names_at(server, lambda store: store.topics())
    return [name for name in names if name.startswith(incomplete)]


def groups_like(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the groups of the topic on the command line whose names begin with `incomplete`."""
    server, topic = _server(context), str(context.params.get("topic") or "")
    if server is None:
        names = _group_names(paths.topic_directory(_directory(context), topic))
    else:
        names = _names_at(server, lambda store: store.existing_topic(topic).groups())
    return [name for name in names if name.startswith(incomplete)]


def _server(context: typer.Context) -> str | None:
    """Returns the address of the broker, or None if the command uses a directory."""
    return context.params.get("server") or os.environ.get(SERVER_VARIABLE) or None


def _names_at(server: str, names: Callable[[RemoteStore], list[str]]) -> list[str]:
    """Returns the names that the broker sends quickly without a login, because completion cannot ask for a password."""
    with suppress(WarrenError, OSError), warren.connect(server, timeout=BROKER_TIMEOUT_S) as store:
        return names(store)
    return []


def _directory(context: typer.Context) -> str:
    return str(context.params.get("store") or os.environ.get(STORE_VARIABLE) or STORE_DEFAULT)


def _topic_names(path: str) -> list[str]:
    """Returns the topics without opening the store."""
    directory = paths.topics_directory(path)
    with suppress(OSError):
        return sorted(name for name in os.listdir(directory) if os.path.exists(paths.topic_file(f"{directory}/{name}")))
    return []


def _group_names(topic_directory: str) -> list[str]:
    with suppress(OSError):
        return group_names(SYSTEM_FILE_SYSTEM, topic_directory)
    return []
