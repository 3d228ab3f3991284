"""The options that name a store, in a directory or behind a broker; and arguments for topics and groups."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeAlias

import typer

import warren
from warren.broker.security.users import PASSWORD_SIZE_MAX
from warren.cli.options.environment import (
    PASSWORD_VARIABLE,
    SERVER_VARIABLE,
    STORE_DEFAULT,
    STORE_VARIABLE,
    USER_VARIABLE,
)
from warren.cli.options.option_set import OptionSet
from warren.cli.running.errors import complain_of_duties
from warren.cli.running.quantities import duration_s
from warren.errors import BadInput, NotAStore
from warren.queue.state import paths

if TYPE_CHECKING:
    from warren.client.store import RemoteStore
    from warren.client.topic import RemoteTopic

AnyStore: TypeAlias = "warren.Store | RemoteStore"
AnyTopic: TypeAlias = "warren.Topic | RemoteTopic"
READ_ONLY_ERRORS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The errors of the operating system if the user may not write."""
CATCH_UP_S_MAX: Final = 10.0
"""How long, at most, a command delivers messages that became due while the store was closed."""
TIMEOUT_DEFAULT: Final = "10s"
CONNECT_WAIT_DEFAULT: Final = "0s"


class StoreTarget(Protocol):
    """The store of a command. `str` of it is the path or the address."""

    def open(self, *, creates: bool = False, keeps: bool = False) -> AnyStore:
        """Opens the store; a directory as `open_store` does."""
        ...

    def open_to_read(self, *, keeps: bool = False) -> AnyStore:
        """Opens the store for a command that changes nothing; a directory as `open_to_read` does."""
        ...

    def files(self, what: str) -> str:
        """Returns the directory, because `what` needs the files. Raises BadInput if the store is behind a broker."""
        ...

    def options(self) -> dict[str, str]:
        """Returns the options of Spark jobs for this store. Raises NotAStore if the directory is not a store."""
        ...


@dataclass(frozen=True, slots=True)
class Directory:
    """A store in a directory of this machine."""

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
class RemoteTarget:
    """A store behind a broker, which delivers due messages by itself. `repr` does not show the password."""

    address: str
    user: str | None
    password: str | None = field(repr=False)
    is_tls: bool
    authority: str | None
    certificate: str | None
    key: str | None
    timeout_s: float
    wait_s: float = 0.0

    def __str__(self) -> str:
        return self.address

    def open(self, *, creates: bool = False, keeps: bool = False) -> RemoteStore:
        return warren.connect(
            self.address,
            timeout=self.timeout_s,
            wait=self.wait_s,
            tls=self.is_tls or None,
            ca=self.authority,
            certificate=self.certificate,
            key=self.key,
            user=self.user,
            password=self.password,
        )

    def open_to_read(self, *, keeps: bool = False) -> RemoteStore:
        return self.open(keeps=keeps)

    def files(self, what: str) -> str:
        raise BadInput(f"{what} needs the files of the store: run it on their machine, with --store")

    def options(self) -> dict[str, str]:
        if self.certificate is not None:
            raise BadInput("Spark shows no certificate to a broker: run it on the machine of the store, with --store")
        options = {
            "servers": self.address,
            "user": self.user,
            "password": self.password,
            "tls": str(self.is_tls).lower(),
            "tlsCa": self.authority,
            "timeout": str(self.timeout_s),
        }
        return {name: value for name, value in options.items() if value is not None}


def open_store(path: str, *, creates: bool = False, keeps: bool = False) -> warren.Store:
    """Opens the store in `path`. Raises NotAStore if there is none, unless it `creates` one.

    Delivers due messages before it returns. With `keeps` the store does that in the background while it is open.
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
    """Opens the store in `path` for a command that changes nothing, even if this user may only read it.

    If this user may write to it, it is opened as for other commands, so that due messages are delivered first.
    """
    try:
        return open_store(path, keeps=keeps)
    except OSError as error:
        if error.errno not in READ_ONLY_ERRORS:
            raise
    return warren.open(path, read_only=True)


def is_store(path: str) -> bool:
    """Returns whether `path` is a directory with a store in it."""
    return os.path.exists(paths.store_file(path))


def make_store(path: str) -> None:
    """Creates the store if it does not exist, and reports that on stderr."""
    if not is_store(path):
        warren.open(path, keeps=False).close()
        typer.echo(f"created the store {path}", err=True)


def require_store(path: str) -> None:
    """Raises NotAStore, with a description of the path, unless `path` is a directory with a store in it."""
    if not os.path.isdir(path):
        raise NotAStore(path, "it is a file" if os.path.exists(path) else "there is no such directory")
    if not is_store(path):
        raise NotAStore(path, "it is another directory, without a store.json")


def _complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    # Imported here and below because only shell completion needs it.
    from warren.cli.options.completion import topics_like

    return topics_like(context, incomplete)


def _complete_group(context: typer.Context, incomplete: str) -> list[str]:
    from warren.cli.options.completion import groups_like

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
        help="The name of the topic; without it every topic.",
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
        help="The name of the group; without it every group.",
        show_default=False,
        autocompletion=_complete_group,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST:PORT",
        envvar=SERVER_VARIABLE,
        help="The broker of the store, instead of a directory.",
        show_default=False,
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="NAME", envvar=USER_VARIABLE, help="The user that connects to the broker.", show_default=False
    ),
]
PasswordFileOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help=f"A file with the password; without it {PASSWORD_VARIABLE}, or a prompt.",
        show_default=False,
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="Connect with TLS.")]
CaOption = Annotated[
    str | None,
    typer.Option("--ca", metavar="FILE", help="Connect with TLS, and trust these certificates.", show_default=False),
]
ClientCertificateOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Connect with TLS, and show this certificate.", show_default=False),
]
ClientKeyOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Its private key, if it is in another file.", show_default=False),
]
TimeoutOption = Annotated[str, typer.Option(metavar="DURATION", help="How long the broker may take to answer.")]
ConnectWaitOption = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to keep trying if no broker answers at first.")
]


def target_of(
    *,
    context: typer.Context,
    store: str,
    server: str | None,
    user: str | None,
    password_file: str | None,
    is_tls: bool,
    ca: str | None,
    client_certificate: str | None,
    client_key: str | None,
    timeout: str,
    connect_wait: str,
) -> StoreTarget:
    """Returns the store that the options name. An option takes precedence over the environment.

    Raises BadInput if both a directory and a broker are named in the same way.
    """
    sources = {name: _source(context, name) for name in ("store", "server")}
    if server is None or (sources["store"] == "COMMANDLINE" and sources["server"] != "COMMANDLINE"):
        _refuse(
            user=_on_command_line(context, "user", user),
            password_file=password_file,
            ca=ca,
            client_certificate=client_certificate,
            client_key=client_key,
            tls=is_tls or None,
        )
        return Directory(store)
    if sources["store"] == sources["server"]:
        names = (
            "--store and --server" if sources["store"] == "COMMANDLINE" else f"{STORE_VARIABLE} and {SERVER_VARIABLE}"
        )
        raise BadInput(f"{names} each name a store: pass only one of them")
    password = password_of(user, password_file)
    return RemoteTarget(
        address=server,
        user=user,
        password=password,
        is_tls=is_tls,
        authority=ca,
        certificate=client_certificate,
        key=client_key,
        timeout_s=duration_s(timeout),
        wait_s=duration_s(connect_wait),
    )


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _on_command_line(context: typer.Context, name: str, value: str | None) -> str | None:
    """Returns the value if it is on the command line, because the environment may be meant for other commands."""
    return value if _source(context, name) == "COMMANDLINE" else None


def _refuse(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise BadInput(f"--{name.replace('_', '-')} can only be used with --server")


def password_of(user: str | None, file: str | None) -> str | None:
    """Returns the password from the file, the environment, or a prompt.

    Never from the command line, because every user of the machine can see it.
    """
    if user is None:
        if file is not None:
            raise BadInput("--password-file can only be used with --user")
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
            raise BadInput(f"no password for {user!r}: pass --password-file, or set {PASSWORD_VARIABLE}")
        password = str(typer.prompt(f"password of {user}", hide_input=True, err=True))
    return password


at_store: Final = OptionSet(
    options={
        "store": (StoreOption, STORE_DEFAULT),
        "server": (ServerOption, None),
        "user": (UserOption, None),
        "password_file": (PasswordFileOption, None),
        "is_tls": (TlsOption, False),
        "ca": (CaOption, None),
        "client_certificate": (ClientCertificateOption, None),
        "client_key": (ClientKeyOption, None),
        "timeout": (TimeoutOption, TIMEOUT_DEFAULT),
        "connect_wait": (ConnectWaitOption, CONNECT_WAIT_DEFAULT),
        "context": (typer.Context, inspect.Parameter.empty),
    },
    value_of=target_of,
    is_last=True,
).as_parameter("target")
"""Decorates a command: its parameter `target` is the Target that the options for a store name."""
