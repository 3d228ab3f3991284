"""The store that a command is pointed at: found without making one, and the names in it for the shell to complete."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated, Final

import typer

import warren
from warren.cli.failure import complain_of_duties
from warren.errors import NotAStore
from warren.queue import store_paths
from warren.queue.group_settings import group_names
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM

CATCH_UP_S_MAX: Final = 10.0
"""How long a command waits at most for what became due while the store was closed."""
STORE_DEFAULT: Final = "data"
STORE_VARIABLE: Final = "WARREN_STORE"


def open_store(path: str, *, creates: bool = False, keeps: bool = False) -> warren.Store:
    """The store in `path`; NotAStore where there is none, unless it `creates` one.

    It has delivered what is due when this returns. With `keeps` it begins to, and goes on for as long as it is open.
    """
    if not creates:
        require_store(path)
    complain_of_duties()
    store = warren.open(path, keeps=keeps)
    deadline_s = store.clock.steady_s() + CATCH_UP_S_MAX
    while not keeps and store.keep() <= 0 and store.clock.steady_s() < deadline_s:
        pass
    return store


def require_store(path: str) -> None:
    """NotAStore, saying what is there instead, unless `path` is a directory with a store in it."""
    if not os.path.isdir(path):
        raise NotAStore(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    if not os.path.exists(store_paths.store_file(path)):
        raise NotAStore(path, "it is another directory, without a store.json")


def _complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    return [name for name in _topic_names(_pointed_at(context)) if name.startswith(incomplete)]


def _complete_group(context: typer.Context, incomplete: str) -> list[str]:
    directory = store_paths.topic_directory(_pointed_at(context), str(context.params.get("topic") or ""))
    with suppress(OSError):
        return [name for name in group_names(SYSTEM_FILE_SYSTEM, directory) if name.startswith(incomplete)]
    return []


def _pointed_at(context: typer.Context) -> str:
    return str(context.params.get("store") or os.environ.get(STORE_VARIABLE) or STORE_DEFAULT)


def _topic_names(path: str) -> list[str]:
    """The topics, without opening the store: whoever presses the tab key is waiting."""
    directory = store_paths.topics_directory(path)
    with suppress(OSError):
        return sorted(
            name for name in os.listdir(directory) if os.path.exists(store_paths.topic_file(f"{directory}/{name}"))
        )
    return []


StoreOption = Annotated[
    str,
    typer.Option("--store", "-s", metavar="DIRECTORY", envvar=STORE_VARIABLE, help="The directory of the store."),
]
TopicArgument = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False, autocompletion=_complete_topic),
]
EveryTopicArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        help="The name of the topic; every one, if none is given.",
        show_default=False,
        autocompletion=_complete_topic,
    ),
]
GroupArgument = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="The name of the group.", show_default=False, autocompletion=_complete_group),
]
EveryGroupArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="GROUP",
        help="The name of the group; every one, if none is given.",
        show_default=False,
        autocompletion=_complete_group,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
