"""First contact: why a broker that can be reached does not answer a client for the first time."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from warren.client.connection import Connection, parse_address
from warren.config import CLIENT_PROBE_S_MAX
from warren.errors import CertificateRefused, ConnectionLost, WarrenError, WrongTransport
from warren.protocol.api import ApiKey

UNREACHED: Final = (ConnectionRefusedError, TimeoutError, socket.gaierror)
"""What the operating system says of an address at which there is no broker to ask."""
API_VERSIONS_VERSION: Final = 0


def explained(error: ConnectionLost, address: str, tls: ssl.SSLContext | None) -> ConnectionLost:
    """WrongTransport if the broker uses TLS and the client does not, or the reverse; else the error itself.

    Neither side says so by itself: to each the first bytes of the other make no sense, and it closes the connection.
    So the broker is asked once more, the other way.
    """
    if isinstance(error, CertificateRefused) or isinstance(error.__cause__, UNREACHED):
        return error
    if tls is None:
        return WrongTransport(address, is_tls=True) if _answers_with_tls(address) else error
    return WrongTransport(address, is_tls=False) if _answers_without_tls(address) else error


def _answers_with_tls(address: str) -> bool:
    # Nothing is said over this connection, so it does not matter whose certificate it is.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, _ = parse_address(address)
    try:
        with (
            socket.create_connection(parse_address(address), CLIENT_PROBE_S_MAX) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except OSError as error:
        # An alert is an answer in TLS, too: the broker may want a certificate of the client.
        return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def _answers_without_tls(address: str) -> bool:
    try:
        connection = Connection(address, None, CLIENT_PROBE_S_MAX)
    except WarrenError:
        return False
    try:
        connection.call(ApiKey.API_VERSIONS, API_VERSIONS_VERSION, {}, 0.0)
    except WarrenError:
        return False
    finally:
        connection.close()
    return True
