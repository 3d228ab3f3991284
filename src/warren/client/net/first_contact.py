"""First contact: why a broker that can be reached does not answer a client for the first time."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from warren.client.net.connection import Connection, parse_address
from warren.errors import CertificateRefused, ConnectionLost, WarrenError, WrongTransport
from warren.tls import unchecked_context

CLIENT_PROBE_S_MAX: Final = 2.0
"""How long a client that got no answer at first contact waits to learn whether the broker uses TLS."""

UNREACHED: Final = (ConnectionRefusedError, TimeoutError, socket.gaierror)
"""What the operating system says of an address at which there is no broker to ask."""
API_VERSIONS_VERSION: Final = 0


def explained(error: ConnectionLost, address: str, tls: ssl.SSLContext | None) -> ConnectionLost:
    """Returns WrongTransport if the broker uses TLS and the client does not, or the reverse; else the error itself.

    Neither side says so by itself: it cannot parse the first bytes of the other, and closes the connection. So the
    client asks the broker once more, in the other way.
    """
    if isinstance(error, CertificateRefused) or isinstance(error.__cause__, UNREACHED):
        return error
    if tls is None:
        return WrongTransport(address, is_tls=True) if _answers_with_tls(address) else error
    return WrongTransport(address, is_tls=False) if _answers_without_tls(address) else error


def _answers_with_tls(address: str) -> bool:
    host, _ = parse_address(address)
    try:
        with (
            socket.create_connection(parse_address(address), CLIENT_PROBE_S_MAX) as plain,
            unchecked_context().wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError as error:
        # An alert is an answer in TLS, too: the broker may want a certificate of the client.
        return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _answers_without_tls(address: str) -> bool:
    # Imported now, because most clients need none of Kafka's messages, and there are many.
    from warren.protocol.kafka_messages import ApiVersionsRequest

    try:
        connection = Connection(address, None, CLIENT_PROBE_S_MAX)
    except WarrenError:
        return False
    try:
        connection.call(ApiVersionsRequest(), API_VERSIONS_VERSION, 0.0)
    except WarrenError:
        return False
    finally:
        connection.close()
    return True
