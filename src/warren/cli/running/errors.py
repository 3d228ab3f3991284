"""Failures of a command: one red line on stderr with advice, and an exit code. Never a traceback."""

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
"""There was nothing to take. A script can distinguish that from a message with an empty body."""


class FailureGroup(TyperGroup):
    """Commands whose failures are shown to the user. An unexpected exception is a bug and passes through."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the options of the group itself, as its help shows them."""
        return _flags_without_type(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of that name, or None."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _flags_without_type(command.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. A failure ends the program with one line and an exit code."""
        try:
            return super().invoke(ctx)
        except BadInput as error:
            fail(str(error), code=EXIT_USAGE)
        except WarrenError as error:
            fail(f"{error}{advice(error)}")
        except OSError as error:
            # If the reader of our output has ended, such as `head`, that is not a failure: the framework ends quietly.
            if error.errno == errno.EPIPE:
                raise
            fail(f"{error.filename or 'the operating system'}: {error.strerror or error}")


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    """Makes the help show a flag as `--json`, because `--json <bool>` reads as if it took a value."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class FilesGroup(FailureGroup):
    """Commands that work on files. They refuse `--server` and say why."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(argument.partition("=")[0] == "--server" for argument in args):
            fail(
                f"warren {ctx.info_name} needs the files themselves: run it on their machine, without --server",
                code=EXIT_USAGE,
            )
        return super().parse_args(ctx, args)


def fail(sentence: str, *, code: int = EXIT_FAILED) -> NoReturn:
    """Ends the program with `sentence` in red on stderr."""
    complain(sentence)
    raise typer.Exit(code)


def complain(sentence: str) -> None:
    """Writes `sentence` in red to stderr, always on one line."""
    Console(stderr=True, highlight=False).print(Text(sentence, style="red"), soft_wrap=True)


def advice(error: WarrenError) -> str:
    """Returns advice for the user, if the error itself gives none."""
    match error:
        case UnknownVersion():
            return "; a newer release of Warren can read it"
        case NumberRetired(first=first):
            return f"; start from {first}"
        case NotAStore():
            return "; name a store with --store, or in WARREN_STORE"
        case NoSuchTopic():
            return "; `warren topic list` shows all topics"
        case NoSuchGroup(topic=topic):
            return f"; `warren group list {topic}` shows all groups"
        case UserWanted():
            return ": pass --user, or set WARREN_USER"
        case WrongTransport(is_tls=is_tls):
            return ": pass --tls or --ca" if is_tls else ": omit --tls and --ca"
        case LogLocked():
            return "; end that process, or wait for it, and try again"
        case _:
            return ""


class OneLineHandler(logging.Handler):
    """Shows log messages of the store, such as a failed background task, as one line without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        complain(f"{record.getMessage()}: {cause}" if cause is not None else record.getMessage())


def complain_of_duties() -> None:
    """Makes the log messages of the store look like other failures of a command."""
    logging.getLogger("warren").handlers = [OneLineHandler()]
