"""The names of topics and groups for the shell to complete: whoever presses the tab key is waiting."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

import warren
from warren.cli.store import SERVER_VARIABLE, STORE_DEFAULT, STORE_VARIABLE
from warren.errors import WarrenError
from warren.queue import store_paths
from warren.queue.group_settings import group_names
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM

if TYPE_CHECKING:
    from warren.client.store import RemoteStore

BROKER_TIMEOUT_S: Final = 1.0


def topics_like(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose names begin so."""
    server = _server(context)
    found = _topic_names(_directory(context)) if server is None else _asked(server, lambda store: store.topics())
    return [name for name in found if name.startswith(incomplete)]


def groups_like(context: typer.Context, incomplete: str) -> list[str]:
    """The groups of the topic that was named whose names begin so."""
    server, topic = _server(context), str(context.params.get("topic") or "")
    if server is None:
        found = _group_names(store_paths.topic_directory(_directory(context), topic))
    else:
        found = _asked(server, lambda store: store.existing_topic(topic).groups())
    return [name for name in found if name.startswith(incomplete)]


def _server(context: typer.Context) -> str | None:
    """The broker that the command is pointed at; None for a directory."""
    return context.params.get("server") or os.environ.get(SERVER_VARIABLE) or None


def _asked(server: str, names: Callable[[RemoteStore], list[str]]) -> list[str]:
    """What a broker tells at once, to anybody: nobody types a password to see a name."""
    with suppress(WarrenError, OSError), warren.connect(server, timeout=BROKER_TIMEOUT_S) as store:
        return names(store)
    return []


def _directory(context: typer.Context) -> str:
    return str(context.params.get("store") or os.environ.get(STORE_VARIABLE) or STORE_DEFAULT)


def _topic_names(path: str) -> list[str]:
    """The topics, without opening the store."""
    directory = store_paths.topics_directory(path)
    with suppress(OSError):
        return sorted(
            name for name in os.listdir(directory) if os.path.exists(store_paths.topic_file(f"{directory}/{name}"))
        )
    return []


def _group_names(topic_directory: str) -> list[str]:
    with suppress(OSError):
        return group_names(SYSTEM_FILE_SYSTEM, topic_directory)
    return []
