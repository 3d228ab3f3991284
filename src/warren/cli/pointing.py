"""The options that point a command at a store: a directory here, or the broker that serves one."""

from __future__ import annotations

import functools
import inspect
import os
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias

import typer

import warren
from warren.cli.quantities import duration_s
from warren.cli.store import (
    SERVER_VARIABLE,
    STORE_DEFAULT,
    STORE_VARIABLE,
    USER_VARIABLE,
    StoreOption,
    open_store,
    open_to_read,
    require_store,
)
from warren.config import PASSWORD_SIZE_MAX
from warren.errors import BadInput

if TYPE_CHECKING:
    from warren.client.store import RemoteStore
    from warren.client.topic import RemoteTopic

AnyStore: TypeAlias = "warren.Store | RemoteStore"
AnyTopic: TypeAlias = "warren.Topic | RemoteTopic"
PASSWORD_VARIABLE: Final = "WARREN_PASSWORD"
TIMEOUT_DEFAULT: Final = "10s"
CONNECT_WAIT_DEFAULT: Final = "0s"


class Target(Protocol):
    """What a command is pointed at. `str` of it is what people know it by."""

    def open(self, *, creates: bool = False, keeps: bool = False) -> AnyStore:
        """The store; where it is a directory, as `open_store` opens it."""
        ...

    def open_to_read(self, *, keeps: bool = False) -> AnyStore:
        """The store, for a command that changes nothing; if it is a directory, as `open_to_read` opens it."""
        ...

    def files(self, what: str) -> str:
        """The directory of the store, for `what` works on files alone; BadInput where it is behind a broker."""
        ...

    def options(self) -> dict[str, str]:
        """The options by which jobs of Spark's reach the store; NotAStore where a directory holds none."""
        ...


@dataclass(frozen=True, slots=True)
class Directory:
    """A store that is here."""

    path: str

    def __str__(self) -> str:
        return self.path

    def open(self, *, creates: bool = False, keeps: bool = False) -> warren.Store:
        return open_store(self.path, creates=creates, keeps=keeps)

    def open_to_read(self, *, keeps: bool = False) -> warren.Store:
        return open_to_read(self.path, keeps=keeps)

    def files(self, what: str) -> str:
        return self.path

    def options(self) -> dict[str, str]:
        require_store(self.path)
        return {"path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A store behind a broker, which sees by itself to what is due. The password is shown to nobody."""

    address: str
    user: str | None
    password: str | None = field(repr=False)
    is_tls: bool
    authority: str | None
    timeout_s: float
    wait_s: float = 0.0

    def __str__(self) -> str:
        return self.address

    def open(self, *, creates: bool = False, keeps: bool = False) -> RemoteStore:
        tls = tls_trusting(self.authority) if self.authority is not None else self.is_tls
        return warren.connect(
            self.address, timeout=self.timeout_s, wait=self.wait_s, tls=tls, user=self.user, password=self.password
        )

    def open_to_read(self, *, keeps: bool = False) -> RemoteStore:
        return self.open(keeps=keeps)

    def files(self, what: str) -> str:
        raise BadInput(f"{what} works on the files of a store: name its directory with --store, where they are")

    def options(self) -> dict[str, str]:
        given = {
            "servers": self.address,
            "user": self.user,
            "password": self.password,
            "tls": str(self.is_tls).lower(),
            "tlsCa": self.authority,
            "timeout": str(self.timeout_s),
        }
        return {name: value for name, value in given.items() if value is not None}


def tls_trusting(authority: str) -> ssl.SSLContext:
    """A context that trusts what the certificates in a file have signed."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"--ca {authority}: {error.strerror or error}") from error


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST:PORT",
        envvar=SERVER_VARIABLE,
        help="The broker of the store, instead.",
        show_default=False,
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", envvar=USER_VARIABLE, help="Who connects to it.", show_default=False),
]
PasswordFileOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help=f"Holds the password; else {PASSWORD_VARIABLE} does, or it is asked for.",
        show_default=False,
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Connect with TLS.")]
CaOption = Annotated[
    str | None, typer.Option("--ca", metavar="FILE", help="TLS, trusting these certificates.", show_default=False)
]
TimeoutOption = Annotated[str, typer.Option(metavar="DURATION", help="How long the broker may stay silent.")]
ConnectWaitOption = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to keep trying if no broker answers at first.")
]
PARAMETERS: Final[dict[str, tuple[Any, Any]]] = {
    "store": (StoreOption, STORE_DEFAULT),
    "server": (ServerOption, None),
    "user": (UserOption, None),
    "password_file": (PasswordFileOption, None),
    "is_tls": (TlsOption, False),
    "ca": (CaOption, None),
    "timeout": (TimeoutOption, TIMEOUT_DEFAULT),
    "connect_wait": (ConnectWaitOption, CONNECT_WAIT_DEFAULT),
}


def at_store(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that name a store, which it takes as its first argument, a Target."""
    signature = inspect.signature(command, eval_str=True)
    target, *own = signature.parameters.values()
    given = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in PARAMETERS.items()
    ]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    taken = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *given, context]

    @functools.wraps(command)
    def pointed(*, context: typer.Context, **values: Any) -> None:
        named = {name: values.pop(name) for name in PARAMETERS}
        command(**{target.name: target_of(context, **named)}, **values)

    pointed.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    pointed.__annotations__ = {each.name: each.annotation for each in taken} | {"return": None}
    return pointed


def target_of(
    context: typer.Context,
    *,
    store: str,
    server: str | None,
    user: str | None,
    password_file: str | None,
    is_tls: bool,
    ca: str | None,
    timeout: str,
    connect_wait: str,
) -> Target:
    """What the options name. An option goes before the environment; BadInput where two of a kind disagree."""
    is_said = {name: _source(context, name) for name in ("store", "server")}
    if server is None or (is_said["store"] == "COMMANDLINE" and is_said["server"] != "COMMANDLINE"):
        _refuse(user=_said(context, "user", user), password_file=password_file, ca=ca, tls=is_tls or None)
        return Directory(store)
    if is_said["store"] == is_said["server"]:
        names = (
            "--store and --server" if is_said["store"] == "COMMANDLINE" else f"{STORE_VARIABLE} and {SERVER_VARIABLE}"
        )
        raise BadInput(f"{names} name a store each: give one of them")
    password = password_of(user, password_file)
    return Broker(
        address=server,
        user=user,
        password=password,
        is_tls=is_tls,
        authority=ca,
        timeout_s=duration_s(timeout),
        wait_s=duration_s(connect_wait),
    )


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _said(context: typer.Context, name: str, value: str | None) -> str | None:
    """What the command line says; the environment may be meant for other commands."""
    return value if _source(context, name) == "COMMANDLINE" else None


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadInput(f"--{name.replace('_', '-')} goes with --server: a directory has no such thing")


def password_of(user: str | None, file: str | None) -> str | None:
    """From the file, the environment, or whoever sits there: never from the command line, which all can see."""
    if user is None:
        if file is not None:
            raise BadInput("--password-file goes with --user")
        return None
    if file is not None:
        try:
            with open(file, encoding="utf-8") as opened:
                return opened.readline(PASSWORD_SIZE_MAX).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadInput(f"--password-file {file}: {reason}") from None
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None:
        if not sys.stdin.isatty():
            raise BadInput(f"no password for {user!r}: give --password-file, or set {PASSWORD_VARIABLE}")
        password = str(typer.prompt(f"password of {user}", hide_input=True, err=True))
    return password
