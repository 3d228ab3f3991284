"""First contact: finds out why a broker that can be reached does not answer a new client."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from warren.client.net.connection import Connection, parse_address
from warren.errors import CertificateRefused, ConnectionLost, WarrenError, WrongTransport
from warren.tls import unchecked_context

CLIENT_PROBE_S_MAX: Final = 2.0
"""How long a client without an answer at first contact waits to learn whether the broker uses TLS."""

UNREACHED: Final = (ConnectionRefusedError, TimeoutError, socket.gaierror)
"""Errors of the operating system that mean that no broker answers at the address."""
NO_CERTIFICATE: Final = "it may want a certificate of this client, and got none that it accepts"
API_VERSIONS_VERSION: Final = 0


def explained(error: ConnectionLost, address: str, tls: ssl.SSLContext | None) -> ConnectionLost:
    """Returns WrongTransport if only one side, the broker or the client, uses TLS; otherwise the error itself.

    Neither side reports this by itself: it cannot parse the first bytes of the other side, and closes the connection.
    So the client tries once more, with TLS if it did not use TLS, and the reverse. A broker that gets no certificate
    that it accepts also closes the connection, often before its alert has arrived; then the error says so.
    """
    if isinstance(error, CertificateRefused) or isinstance(error.__cause__, UNREACHED):
        return error
    if tls is None:
        return WrongTransport(address, is_tls=True) if _answers_with_tls(address) else error
    if _answers_without_tls(address):
        return WrongTransport(address, is_tls=False)
    if isinstance(error.__cause__, ConnectionResetError):
        return ConnectionLost(address, f"{error.reason}; {NO_CERTIFICATE}")
    return error


def _answers_with_tls(address: str) -> bool:
    host, _ = parse_address(address)
    try:
        with (
            socket.create_connection(parse_address(address), CLIENT_PROBE_S_MAX) as plain,
            unchecked_context().wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError as error:
        # A TLS alert is an answer too: the broker may require a client certificate.
        return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _answers_without_tls(address: str) -> bool:
    # Imported here because most clients need none of Kafka's messages, and the module is large.
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
