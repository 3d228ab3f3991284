"""`warren serve`: open a store to the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import warren
from warren.broker.configuration import FILE_DEFAULT, Configuration, read_configuration
from warren.broker.logs import begin_logging
from warren.cli.store import is_store
from warren.errors import BrokerMissing

if TYPE_CHECKING:
    from warren.broker.service import Neighbour

BROKER_MODULES: Final[Mapping[str, str]] = {
    "aiokafka": "aiokafka",
    "h11": "h11",
    "kafka": "kafka-python",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
}
"""The modules that the broker cannot do without, and the package that has each; the extra `broker` brings them."""


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
) -> None:
    """Serve a store to clients of Kafka and of Warren, until SIGTERM or Ctrl-C. A store that is missing is made."""
    require_broker()
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
    begin_logging(configuration["broker.log_format"], configuration["broker.log_level"])
    if not is_store(data) and sys.stderr.isatty():
        typer.echo(f"made the store {data}", err=True)
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


def require_broker() -> None:
    """Raises BrokerMissing if a package is not installed that the extra `broker` brings."""
    missing = [name for module, name in BROKER_MODULES.items() if find_spec(module) is None]
    if missing:
        raise BrokerMissing(missing)
