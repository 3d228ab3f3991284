"""`warren ping`: whether a broker answers, and how fast."""

from __future__ import annotations

import ssl
from typing import Annotated, Final

import typer

from warren.cli.quantities import duration_s
from warren.cli.show import write_json
from warren.cli.store import AsJson
from warren.client.connection import Connection
from warren.client.first_contact import explained
from warren.clock import SYSTEM_CLOCK
from warren.errors import BadInput, ConnectionLost
from warren.protocol.api import ApiKey

SERVER_DEFAULT: Final = "127.0.0.1:9092"
VERSION: Final = 0
MS: Final = 1000
COUNT_MAX: Final = 100_000


def ping(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The broker.")] = SERVER_DEFAULT,
    count: Annotated[int, typer.Option(metavar="COUNT", min=1, max=COUNT_MAX, help="How often it is asked.")] = 5,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long an answer may take.")] = "5s",
    authority: Annotated[
        str | None, typer.Option("--ca", metavar="FILE", help="Use TLS, and trust what these certificates have signed.")
    ] = None,
    is_json: AsJson = False,
) -> None:
    """Ask a broker which requests it serves, and show how long the answer takes. It need not know who asks."""
    context = _context(authority)
    try:
        took_s, key_count = _asked(server, context, count, duration_s(timeout))
    except ConnectionLost as error:
        raise explained(error, server, context) from error
    least_s, middle_s, most_s = took_s[0], took_s[len(took_s) // 2], took_s[-1]
    if is_json:
        facts = {"server": server, "answers": count, "least_s": least_s, "middle_s": middle_s, "most_s": most_s}
        write_json({**facts, "requests_served": key_count})
    else:
        named = (("least", least_s), ("middle", middle_s), ("most", most_s))
        times = ", ".join(f"{name} {each * MS:.2f} ms" for name, each in named)
        typer.echo(f"{server} answers: {times}; it serves {key_count} kinds of requests")


def _asked(server: str, context: ssl.SSLContext | None, count: int, timeout_s: float) -> tuple[list[float], int]:
    """How long each answer took, sorted, and how many kinds of requests the broker serves."""
    connection = Connection(server, context, timeout_s)
    took_s, key_count = [], 0
    try:
        for _ in range(count):
            begun_s = SYSTEM_CLOCK.steady_s()
            answer = connection.call(ApiKey.API_VERSIONS, VERSION, {}, timeout_s)
            took_s.append(SYSTEM_CLOCK.steady_s() - begun_s)
            key_count = len(answer.api_keys)
    finally:
        connection.close()
    return sorted(took_s), key_count


def _context(authority: str | None) -> ssl.SSLContext | None:
    if authority is None:
        return None
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"--ca {authority}: {error.strerror or error}") from error
