"""How a failure looks to the user: one red line on stderr that says what to do, and an exit code. Never a traceback."""

from __future__ import annotations

import errno
import logging
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from warren.errors import (
    BadInput,
    LogLocked,
    NoSuchGroup,
    NoSuchTopic,
    NotAStore,
    NumberRetired,
    UnknownVersion,
    UserWanted,
    WarrenError,
    WrongTransport,
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOTHING: Final = 3
"""There was nothing to take: a script tells that from a message with an empty body."""


class FailureGroup(TyperGroup):
    """Commands whose failures are shown to the user. What a bug raises is not a failure, and is let through."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group itself, as its help shows them."""
        return _flags_without_type(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _flags_without_type(command.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a failure ends the program with one line and an exit code."""
        try:
            return super().invoke(ctx)
        except BadInput as error:
            fail(str(error), code=EXIT_USAGE)
        except WarrenError as error:
            fail(f"{error}{advice(error)}")
        except OSError as error:
            # A reader of our output that went away, such as `head`, is no failure: the framework ends quietly.
            if error.errno == errno.EPIPE:
                raise
            fail(f"{error.filename or 'the operating system'}: {error.strerror or error}")


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    """Lets the help show a flag as `--json`, because `--json <bool>` reads as if it wanted a value."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class FilesGroup(FailureGroup):
    """Commands that work on files: whoever points one at a broker is told so."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(argument.partition("=")[0] == "--server" for argument in args):
            fail(f"warren {ctx.info_name} works on the files of a log: run it where they are", code=EXIT_USAGE)
        return super().parse_args(ctx, args)


def fail(sentence: str, *, code: int = EXIT_FAILED) -> NoReturn:
    """End the program with `sentence` in red on stderr."""
    complain(sentence)
    raise typer.Exit(code)


def complain(sentence: str) -> None:
    """Show `sentence` in red on stderr, on one line however long it is."""
    Console(stderr=True, highlight=False).print(Text(sentence, style="red"), soft_wrap=True)


def advice(error: WarrenError) -> str:
    """What the user can do now, where the error itself does not say so."""
    match error:
        case UnknownVersion():
            return "; a newer release of Warren reads it"
        case NumberRetired(first=first):
            return f"; start from {first}"
        case NotAStore():
            return "; name a store with --store, or in WARREN_STORE"
        case NoSuchTopic():
            return "; `warren topic list` shows those that are there"
        case NoSuchGroup(topic=topic):
            return f"; `warren group list {topic}` shows those that are there"
        case UserWanted():
            return ": give --user, or WARREN_USER"
        case WrongTransport(is_tls=is_tls):
            return ": give --tls or --ca" if is_tls else ": leave --tls and --ca away"
        case LogLocked():
            return "; end that process, or wait for it, and try again"
        case _:
            return ""


class OneLineHandler(logging.Handler):
    """Shows what the store says of its own accord, such as a duty that failed, as one line and without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        complain(f"{record.getMessage()}: {cause}" if cause is not None else record.getMessage())


def complain_of_duties() -> None:
    """From now on what the store says of its own accord looks like any other failure."""
    logging.getLogger("warren").handlers = [OneLineHandler()]
