"""The store in a directory, as commands open it: found, not made; and the arguments that name what is in it."""

from __future__ import annotations

import errno
import os
from typing import Annotated, Final

import typer

import warren
from warren.cli.failure import complain_of_duties
from warren.errors import NotAStore
from warren.queue import store_paths

READ_ONLY_ERRORS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
"""What the system says to a user who may not write."""
CATCH_UP_S_MAX: Final = 10.0
"""How long a command waits at most for what became due while the store was closed."""
STORE_DEFAULT: Final = "data"
STORE_VARIABLE: Final = "WARREN_STORE"
SERVER_VARIABLE: Final = "WARREN_SERVER"
USER_VARIABLE: Final = "WARREN_USER"


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


def open_to_read(path: str, *, keeps: bool = False) -> warren.Store:
    """The store in `path`, for a command that changes nothing: also if this user may only read it.

    If this user may write it, it is opened as for other commands, so that what is due is delivered first.
    """
    try:
        return open_store(path, keeps=keeps)
    except OSError as error:
        if error.errno not in READ_ONLY_ERRORS:
            raise
    return warren.open(path, read_only=True)


def is_store(path: str) -> bool:
    """Whether `path` is a directory with a store in it."""
    return os.path.exists(store_paths.store_file(path))


def make_store(path: str) -> None:
    """Makes the store if it is missing, and says so on stderr."""
    if not is_store(path):
        warren.open(path, keeps=False).close()
        typer.echo(f"made the store {path}", err=True)


def require_store(path: str) -> None:
    """NotAStore, saying what is there instead, unless `path` is a directory with a store in it."""
    if not os.path.isdir(path):
        raise NotAStore(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    if not is_store(path):
        raise NotAStore(path, "it is another directory, without a store.json")


def _complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    # Imported here, as below: only who presses the tab key needs it.
    from warren.cli.completion import topics_like

    return topics_like(context, incomplete)


def _complete_group(context: typer.Context, incomplete: str) -> list[str]:
    from warren.cli.completion import groups_like

    return groups_like(context, incomplete)


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
