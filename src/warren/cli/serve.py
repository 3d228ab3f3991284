"""`warren serve`: open a store to the network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

import warren
from warren.broker.configuration import FILE_DEFAULT, Configuration, read_configuration
from warren.broker.logs import begin_logging
from warren.cli.failure import fail
from warren.cli.store import require_store
from warren.errors import NotAStore

if TYPE_CHECKING:
    from warren.broker.service import Neighbour


def serve(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The directory of the store.", show_default=False)],
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1, if nothing is said.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 9092, if nothing is said. 0 takes any.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="What clients are told to connect to.")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Serve HTTP on this port, too: health, metrics and REST. 0 takes any.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", envvar="WARREN_CONFIG", help="The configuration; ./warren.toml, if it is there."),
    ] = None,
    is_insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines although nobody has to say who they are.")
    ] = False,
    durability: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Of topics that are made: commit, os, or e.g. interval:50ms.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="text|json", help="How the log is written.")] = None,
    creates: Annotated[bool, typer.Option("--create", help="Make the store where there is none.")] = False,
) -> None:
    """Serve a store to clients of Kafka and of Warren, until SIGTERM or Ctrl-C."""
    flags: dict[str, Any] = {
        "broker.host": host,
        "broker.port": port,
        "broker.advertise": advertise,
        "broker.insecure": is_insecure or None,
        "http.port": http_port,
        "broker.log_format": log_format,
        "topics.durability": durability,
    }
    path = config or (FILE_DEFAULT if os.path.exists(FILE_DEFAULT) else None)
    told = {key: value for key, value in flags.items() if value is not None}
    configuration = read_configuration(path, os.environ, told)
    if not creates:
        _require_store(data)
    begin_logging(configuration["broker.log_format"], configuration["broker.log_level"])
    with warren.open(data, **configuration.section("topics")) as store:
        # Only who serves needs what the extra `broker` brings.
        from warren.broker.service import run

        run(store, configuration, _http(configuration))


def _http(configuration: Configuration) -> Neighbour | None:
    """What serves HTTP beside the broker; None where nobody wants it."""
    if configuration["http.port"] is None:
        return None
    from warren.gateway.server import neighbour

    return neighbour


def _require_store(path: str) -> None:
    try:
        require_store(path)
    except NotAStore as error:
        fail(f"{error}; with --create a store is made where there is nothing")
