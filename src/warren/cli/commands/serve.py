"""`warren serve`: serves a store to the network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import warren
from warren.broker.configuration import FILE_DEFAULT, Configuration, read_configuration
from warren.broker.net.logs import begin_logging
from warren.broker.net.malloc import keep_memory
from warren.cli.options.store_option import is_store
from warren.errors import BrokerMissing
from warren.registry.connection import require_kazoo

if TYPE_CHECKING:
    from warren.broker.server import SideServerFactory

BROKER_MODULES: Final[Mapping[str, str]] = {
    "aiokafka": "aiokafka",
    "h11": "h11",
    "kafka": "kafka-python",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
}
"""The modules that the broker needs, and the package of each. The extra `broker` installs them."""


def serve(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The directory of the store.", show_default=False)],
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 9092 by default. 0 takes any free port.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address that clients connect to, if it differs.")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Also serve HTTP on this port: health, metrics and REST. 0 takes any free port.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", envvar="WARREN_CONFIG", help="The configuration file; ./warren.toml if it exists."
        ),
    ] = None,
    is_insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without logins.")] = False,
    durability: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="The durability of new topics: commit, os, or e.g. interval:50ms."),
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="text|json", help="The format of the log.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESSES", help="The ZooKeeper of the cluster that this broker belongs to."),
    ] = None,
    shard: Annotated[int | None, typer.Option(help="Its shard; 0 by default.")] = None,
    replica: Annotated[int | None, typer.Option(help="Its number among the replicas of the shard.")] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="sync|async", help="async: it follows, and no put waits for it.")
    ] = None,
    nonce: Annotated[str | None, typer.Option(hidden=True, help="The name of this process, from its parent.")] = None,
) -> None:
    """Serve a store to clients of Kafka and of Warren, until SIGTERM or Ctrl-C.

    Creates the store if it does not exist. With --cluster it is one replica of a shard: it leads or follows.
    """
    require_broker()
    flags: dict[str, Any] = {
        "broker.host": host,
        "broker.port": port,
        "broker.advertise": advertise,
        "broker.insecure": is_insecure or None,
        "http.port": http_port,
        "broker.log_format": log_format,
        "topics.durability": durability,
        "cluster.zookeeper": cluster,
        "cluster.shard": shard,
        "cluster.replica": replica,
        "cluster.mode": mode,
    }
    configuration = _configuration(config, flags)
    # Before the store and Arrow start threads: the heaps that these get would remain, and all others share one.
    keep_memory()
    if configuration["cluster.zookeeper"]:
        raise typer.Exit(_serve_replica(data, configuration, nonce))
    _serve_alone(data, configuration)


def _serve_alone(data: str, configuration: Configuration) -> None:
    """Serves a store without replicas."""
    if not is_store(data) and sys.stderr.isatty():
        typer.echo(f"created the store {data}", err=True)
    with warren.open(data, **configuration.section("topics")) as store:
        # Imported here because only this command needs the packages of the extra `broker`.
        from warren.broker.server import run

        run(store, configuration, _http(configuration))


def _configuration(path: str | None, flags: Mapping[str, Any]) -> Configuration:
    """Reads the configuration, and begins to log as it says."""
    path = path or (FILE_DEFAULT if os.path.exists(FILE_DEFAULT) else None)
    options = {key: value for key, value in flags.items() if value is not None}
    configuration = read_configuration(path, os.environ, options)
    begin_logging(configuration["broker.log_format"], configuration["broker.log_level"])
    return configuration


def _serve_replica(data: str, configuration: Configuration, nonce: str | None) -> int:
    """Runs a replica: in this process if it has a nonce, which only a parent gives it, else as its parent."""
    require_kazoo()
    if nonce is not None:
        from warren.broker.replica_server import run_replica

        run_replica(data, configuration, nonce, _http(configuration))
    from warren.broker.replica_parent import run_parent
    from warren.broker.replica_server import child_command

    return run_parent(configuration.cluster(), lambda nonce: child_command(sys.argv[1:], nonce))


def _http(configuration: Configuration) -> SideServerFactory | None:
    """Returns the HTTP side port, or None if the configuration has no port for it."""
    if configuration["http.port"] is None:
        return None
    from warren.gateway.server import http_side_server

    return http_side_server


def require_broker() -> None:
    """Raises BrokerMissing if a package of the extra `broker` is not installed."""
    missing = [name for module, name in BROKER_MODULES.items() if find_spec(module) is None]
    if missing:
        raise BrokerMissing(missing)
