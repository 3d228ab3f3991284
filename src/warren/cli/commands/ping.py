"""`warren ping`: shows whether a broker answers, and how fast."""

from __future__ import annotations

import ssl
from typing import Annotated, Final

import typer

from warren.cli.options.store_option import AsJson
from warren.cli.output.tables import write_json
from warren.cli.running.quantities import duration_s
from warren.client.net.connection import Connection
from warren.client.net.first_contact import explained
from warren.clock import SYSTEM_CLOCK
from warren.errors import ConnectionLost
from warren.protocol.kafka_messages import ApiVersionsRequest
from warren.tls import tls_context

SERVER_DEFAULT: Final = "127.0.0.1:9092"
VERSION: Final = 0
MS: Final = 1000
COUNT_MAX: Final = 100_000


def ping(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The address of the broker.")] = SERVER_DEFAULT,
    count: Annotated[int, typer.Option(metavar="COUNT", min=1, max=COUNT_MAX, help="The number of requests.")] = 5,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long a reply may take.")] = "5s",
    authority: Annotated[
        str | None, typer.Option("--ca", metavar="FILE", help="Connect with TLS, and trust these certificates.")
    ] = None,
    is_json: AsJson = False,
) -> None:
    """Show how long a broker takes to answer a request. Needs no login."""
    context = tls_context(None, authority, None, None)
    try:
        took_s, key_count = _measure(server, context, count, duration_s(timeout))
    except ConnectionLost as error:
        raise explained(error, server, context) from error
    least_s, middle_s, most_s = took_s[0], took_s[len(took_s) // 2], took_s[-1]
    if is_json:
        facts = {"server": server, "answers": count, "least_s": least_s, "middle_s": middle_s, "most_s": most_s}
        write_json({**facts, "requests_served": key_count})
    else:
        named = (("least", least_s), ("median", middle_s), ("most", most_s))
        times = ", ".join(f"{name} {each * MS:.2f} ms" for name, each in named)
        typer.echo(f"{server} answers: {times}; it serves {key_count} kinds of requests")


def _measure(server: str, context: ssl.SSLContext | None, count: int, timeout_s: float) -> tuple[list[float], int]:
    """Returns the time of each reply, sorted, and how many kinds of requests the broker serves."""
    connection = Connection(server, context, timeout_s)
    took_s, key_count = [], 0
    try:
        for _ in range(count):
            begun_s = SYSTEM_CLOCK.steady_s()
            answer = connection.call(ApiVersionsRequest(), VERSION, timeout_s)
            took_s.append(SYSTEM_CLOCK.steady_s() - begun_s)
            key_count = len(answer.api_keys)
    finally:
        connection.close()
    return sorted(took_s), key_count
