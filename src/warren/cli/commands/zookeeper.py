"""`warren zookeeper`: runs a ZooKeeper server, alone or in an ensemble, and shows the status of servers."""

from __future__ import annotations

import json
import os
import signal
import sys
from ipaddress import ip_address
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warren.cli.options.store_option import AsJson
from warren.cli.output.tables import table, write_json
from warren.cli.running.errors import EXIT_FAILED, EXIT_USAGE, complain, fail
from warren.errors import BadInput, CannotListen, ClusterMissing, JavaMissing
from warren.registry.addresses import CLIENT_PORT, PORT_MAX, Address, parse_addresses, parse_members
from warren.registry.class_path import class_path
from warren.registry.connection import protect_root, require_kazoo
from warren.registry.security import TlsFiles, read_secret, secret_digest, tls_files
from warren.registry.server import Server, free_port
from warren.registry.server_files import ServerSettings
from warren.registry.status import ServerStatus, ask_statuses

HOST_DEFAULT: Final = "127.0.0.1"
TLS: Final = "TLS"


DirectoryArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR", help="The directory of the server; created if it does not exist.", show_default=False
    ),
]
IdOption = Annotated[
    int | None, typer.Option("--id", metavar="N", help="The number of this server in --servers, from 1.")
]
ServersOption = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="The servers of the ensemble: HOST, or HOST:PEER_PORT:ELECTION_PORT."),
]
PortOption = Annotated[int, typer.Option(min=0, max=PORT_MAX, help="The port for clients. 0 takes any free port.")]
SecretOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="A file with the secret of the cluster: clients without it cannot read anything."
    ),
]
StatusOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESSES", help="Run nothing; show whether the servers HOST[:PORT],… serve.", show_default=False
    ),
]


def zookeeper(
    directory: DirectoryArgument = None,
    number: IdOption = None,
    servers: ServersOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on for clients.")] = HOST_DEFAULT,
    port: PortOption = CLIENT_PORT,
    secret_file: SecretOption = None,
    authority: Annotated[
        str | None, typer.Option("--tls-ca", metavar="FILE", help="The certificate that signed all others.")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate of this server.")
    ] = None,
    key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PKCS #8).")] = None,
    jars: Annotated[
        str | None, typer.Option(metavar="DIR", help="The jars of ZooKeeper; without it those of PySpark.")
    ] = None,
    is_insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without a secret.")] = False,
    status: StatusOption = None,
    is_json: AsJson = False,
) -> None:
    """Run a ZooKeeper server, alone or as one of an ensemble, until SIGTERM or Ctrl-C.

    With --status show whether servers serve. It fails if one of them does not.
    """
    tls = tls_files(authority, certificate, key)
    if status is not None:
        _show_status(status, tls, is_json=is_json)
        return
    if directory is None:
        raise BadInput("name the directory of the server, or the servers to check with --status")
    secret = None if secret_file is None else read_secret(secret_file)
    _check_openness(host, is_secret=secret is not None, is_insecure=is_insecure)
    settings = ServerSettings(
        directory=directory,
        address=Address(host, port or free_port(host)),
        id=number,
        members=() if servers is None else parse_members(servers),
        super_digest=None if secret is None else secret_digest(secret),
        tls=tls,
    )
    settings.check()
    try:
        if secret is not None:
            require_kazoo()
        _run(settings, class_path(jars, is_tls=tls is not None), secret, is_json=is_json)
    except (CannotListen, ClusterMissing, JavaMissing) as error:
        fail(str(error), code=EXIT_USAGE)


def _run(settings: ServerSettings, jars: list[str], secret: str | None, *, is_json: bool) -> None:
    def serves(status: ServerStatus) -> None:
        if secret is not None:
            tls = settings.tls
            protect_root(str(server.near_address), secret, None if tls is None else tls.of_own_server())
        _announce(settings, status, server.pid, is_json=is_json)

    server = Server(settings, jars, os.environ, serves=serves, says=complain)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.run()


def _announce(settings: ServerSettings, status: ServerStatus, pid: int | None, *, is_json: bool) -> None:
    """Writes the one line that names the server's address. Programs wait for it."""
    address = str(settings.address)
    if is_json:
        line = json.dumps({"address": address, "mode": status.mode, "version": status.version, "pid": pid})
    else:
        secured = f", {TLS}" if settings.tls is not None else ""
        line = f"ZooKeeper {status.version} serves at {address} ({status.mode}{secured}), process {pid}"
    typer.echo(line)
    sys.stdout.flush()


def _check_openness(host: str, *, is_secret: bool, is_insecure: bool) -> None:
    """Raises BadInput if every program on other machines could read and change everything."""
    if not is_secret and not is_insecure and not is_loopback(host):
        raise BadInput(
            f"{host} can be reached from other machines, and clients need no secret: pass --secret-file or --insecure"
        )


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _show_status(addresses: str, tls: TlsFiles | None, *, is_json: bool) -> None:
    statuses = ask_statuses(parse_addresses(addresses), None if tls is None else tls.context())
    if is_json:
        write_json([status.to_json() for status in statuses])
    else:
        Console(highlight=False).print(status_table(statuses))
    if not all(status.is_serving for status in statuses):
        raise typer.Exit(EXIT_FAILED)


def status_table(statuses: list[ServerStatus]) -> Table:
    """Returns a table with one server in each row."""
    rows = table("ZooKeeper")
    rows.add_column("server", no_wrap=True)
    rows.add_column("mode", no_wrap=True)
    rows.add_column("version", no_wrap=True)
    for name in ("clients", "nodes"):
        rows.add_column(name, justify="right")
    rows.add_column("", overflow="fold")
    for status in statuses:
        mode = Text(status.mode, style="green") if status.is_serving else Text("does not serve", style="red")
        counts = map(_count, (status.connections, status.nodes))
        rows.add_row(Text(str(status.address)), mode, status.version or "–", *counts, Text(status.reason, style="dim"))
    return rows


def _count(count: Any) -> str:
    return "–" if count is None else f"{count:,}"
